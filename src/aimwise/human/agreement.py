"""How far participants agree beyond chance: Krippendorff's alpha."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def alpha(answers: Float[np.ndarray, "P I"]) -> float:
    """Krippendorff's alpha for names without an order; NaN is a missing answer.

    1 means that all agree on every item, 0 that they agree as often as by chance. It is NaN where no item has two answers, or all
    answers are the same, since then nothing tells agreement from habit.
    """
    given = ~np.isnan(answers)
    values = np.unique(answers[given])
    counts = (
        np.stack([(answers == v).sum(0) for v in values], axis=1) if len(values) else np.zeros((answers.shape[1], 0))
    )  # (I, V)
    counts = counts[counts.sum(1) >= 2].astype(float)
    per_item = counts.sum(1)  # how many answers each item has
    total = per_item.sum()
    if not total:
        return float("nan")
    pairs = (per_item**2 - (counts**2).sum(1)) / (per_item - 1)  # ordered pairs that differ, each item with its own weight
    chance = total**2 - (counts.sum(0) ** 2).sum()
    if not chance:
        return float("nan")
    return float(1 - (total - 1) * pairs.sum() / chance)
