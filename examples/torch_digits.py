"""Explain a torch module on images, patch by patch, beside integrated gradients on the same patches."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import aimwise

digits = load_digits()
images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)  # (n, 1, 8, 8)
labels = torch.tensor(digits.target)

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
adam = torch.optim.Adam(net.parameters(), lr=5e-3)
for _ in range(150):
    some = torch.randint(1400, (64,))
    adam.zero_grad()
    nn.functional.cross_entropy(net(images[some]), labels[some]).backward()
    adam.step()
net = net.eval()
print(f"accuracy {(net(images[1400:]).argmax(1) == labels[1400:]).float().mean():.2f}")

features = aimwise.Patches(2, fill="zero")
explainer = aimwise.AIM(epochs=10).fit(net, images[:1400], features=features)
ig = aimwise.METHODS["ig"](steps=20).fit(net, images[:1400], features=features)
scores = aimwise.evaluate({"aim": explainer, "ig": ig}, images[1400:1600], k=(5,), metrics=["faithfulness"], fills=["zero"])
for method in ("aim", "ig", "random"):
    print(f"{method}: the five strongest patches alone keep {scores.mean('faithfulness', method=method, k=5):.2f}")
