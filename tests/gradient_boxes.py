"""Small torch modules of every kind with gradients, and inputs for them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from aimwise.blackbox import TorchBox
from aimwise.masked import Masked

GRADIENTS = ("ig", "gradient_x_input", "smoothgrad", "fi")
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 4))
IDS = torch.from_numpy(RNG.integers(1, 12, (40, 7)))
IDS[::2, 5:] = 0
IDS[::3, 3:] = 0
IMAGES = RNG.random((40, 6, 6)).astype(np.float32)
VOCABULARY = {word: i for i, word in enumerate(["", "a", "film", "so", "good", "and", "warm", "not", "dull", "or", "bad"])}


class Counted(nn.Module):
    """Counts the inputs it is asked about."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.asked = inner, 0

    def forward(self, x):
        self.asked += len(x)
        return self.inner(x)


class Reader(nn.Module):
    """A GRU over ids; padding is not read."""

    def __init__(self, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(20, 5)
        self.gru = nn.GRU(5, 6, batch_first=True)
        self.out = nn.Linear(6, classes)
        self.double()

    def forward(self, ids):
        states, _ = self.gru(self.embedding(ids))
        return self.out((states * (ids > 0)[..., None]).sum(1))


class Viewer(nn.Module):
    """A small network over images in any form."""

    def __init__(self, cells=36, classes=3):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(cells, 8), nn.Tanh(), nn.Linear(8, classes)).double()

    def forward(self, x):
        return self.net(x.double())


def perceptron(width=4, classes=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, classes)).double()


def make(kind, seed=2):
    torch.manual_seed(seed)
    return kind()


def tokenizer(texts):
    """Words by spaces as ids, with their places."""
    width = max(len(text.split()) for text in texts) if any(texts) else 1
    ids, places = np.zeros((len(texts), width), dtype=np.int64), np.zeros((len(texts), width, 2), dtype=np.int64)
    for i, text in enumerate(texts):
        at = 0
        for j, word in enumerate(text.split()):
            at = text.index(word, at)
            ids[i, j], places[i, j] = VOCABULARY[word], (at, at + len(word))
            at += len(word)
    return {"input_ids": ids, "offset_mapping": places}


def texts(n=30):
    rng, words = np.random.default_rng(3), list(VOCABULARY)[1:]
    return [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(n)]


def batch_of(module, inputs, features, output="logits"):
    features = features.fit(inputs)
    box = Masked(TorchBox(module, output=output), features).softened()
    return box, box.features.trim(box.features.encode(inputs))


def slope(box, batch, z, c=0):
    z = z.clone().requires_grad_()
    scores = box.scores(batch, z, torch.Generator().manual_seed(0))
    return scores.detach(), torch.autograd.grad(scores[:, c].sum(), z)[0]
