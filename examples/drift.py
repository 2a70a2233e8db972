"""Watch an explainer at work: on inputs unlike those it was fitted on, the agreement with the model falls."""

import numpy as np

import aimwise


def model(rows):
    """Two classes; far from where the data lie, the fifth column takes over."""
    far = np.abs(rows[:, 4]) > 3
    score = np.where(far, 6 * np.sin(4 * rows[:, 0]) * rows[:, 1], 2 * rows[:, 0] - rows[:, 1] + rows[:, 2] / 2)
    share = 1 / (1 + np.exp(-score))
    return np.stack([1 - share, share], 1)


rng = np.random.default_rng(0)
explainer = aimwise.AIM(epochs=6).fit(model, rng.normal(size=(1000, 5)), class_names=["no", "yes"])

for shift in (0, 2, 4, 6):
    today = rng.normal(size=(300, 5))
    today[:, 4] += shift
    check = explainer.explain(today, check=32).check
    print(f"fifth column moved by {shift}: agreement {check.agreement.mean():.2f}")
