"""Whose evidence is shown: that for one class, or for every feature that for the class it speaks most for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation


@dataclass(frozen=True)
class View:
    """For every feature of every row a weight, and the class which it is about."""

    weights: Float[Tensor, "B d"]
    classes: Int[Tensor, "B d"]
    present: Bool[Tensor, "B d"]
    scale: float
    """The weight that is shown at full strength."""
    every: bool
    """Whether all classes are seen at once."""

    @classmethod
    def one(cls, explanation: Explanation, target: str | int | None = None) -> View:
        """The evidence for the predicted class of each row, or for a given one."""
        classes = explanation.classes_of(target)[:, None].expand(explanation.present.shape)
        scale = shade_scale(explanation.weights, explanation.present)  # the same for all classes
        return cls(explanation.towards(target), classes, explanation.present, scale, False)

    @classmethod
    def all(cls, explanation: Explanation) -> View:
        """All classes at once: the margin of every feature for the class that it speaks most for."""
        weights, classes = margins(explanation.weights)
        return cls(weights, classes, explanation.present, shade_scale(weights[:, :, None], explanation.present), True)

    def strongest(self, row: int, k: int) -> list[int]:
        """The k features of a row with the largest weights of either sign, or with the largest margins, the largest first."""
        weights = self.weights[row]
        able = self.present[row] & (weights > 0) if self.every else self.present[row]
        order = weights.abs().masked_fill(~able, -torch.inf).argsort(descending=True, stable=True).tolist()
        return order[: min(k, int(able.sum()))]


def margins(weights: Float[Tensor, "B d C"]) -> tuple[Float[Tensor, "B d"], Int[Tensor, "B d"]]:
    """The class that each feature speaks most for, and by how much: its weight less the mean of its weights for the others."""
    best, classes = weights.max(-1)
    others = weights.shape[-1] - 1
    rest = (weights.sum(-1) - best) / others if others else torch.zeros_like(best)
    return best - rest, classes


def shade_scale(weights: Float[Tensor, "B d C"], present: Bool[Tensor, "B d"]) -> float:
    """The weight that gets the full shade: the largest of a typical row, so that one odd row does not pale all others."""
    sizes = torch.where(present[:, :, None] & weights.isfinite(), weights.abs(), 0.0)  # (B, d, C)
    largest = sizes.flatten(1).amax(1) if sizes.numel() else torch.zeros(0)
    largest = largest[largest > 0]
    return float(largest.median()) if len(largest) else 0.0


def kind(explanation: Explanation) -> str:
    """What the features are: parts of an "image", words of a "text" or columns of a "table"."""
    if explanation.images is not None and explanation.regions is not None:
        return "image"
    return "text" if explanation.names is None else "table"


def checked_truth(truth: Iterable[int], explanation: Explanation) -> list[int]:
    """The true class numbers, one for every row of the explanation."""
    truths, classes = [int(t) for t in truth], len(explanation.classes)
    if len(truths) != len(explanation):
        raise BadSetting(f"Got {len(truths)} true classes for {len(explanation)} rows; pass one class number per row.")
    for i, t in enumerate(truths):
        if not 0 <= t < classes:
            raise BadSetting(f"The true class of row {i} is {t}, wanted a number from 0 to {classes - 1}.")
    return truths
