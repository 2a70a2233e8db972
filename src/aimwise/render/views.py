"""Whose evidence is shown: that for one class, or for every feature that for the class it speaks most for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
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


def checked_truth(truth: Iterable[Any], explanation: Explanation) -> list[int]:
    """The true class numbers, one for every row, from class numbers or from class names."""
    given, classes = [each.item() if isinstance(each, np.generic | Tensor) else each for each in truth], explanation.classes
    if len(given) != len(explanation):
        raise BadSetting(f"Got {len(given)} true classes for {len(explanation)} rows; pass one class number or name per row.")
    names = [str(each) for each in given]
    numbers = [int(each) if isinstance(each, int | float) and each % 1 == 0 else None for each in given]
    numbered = all(each is not None and 0 <= each < len(classes) for each in numbers)
    if all(name in classes for name in names) and not any(isinstance(each, int) and numbered for each in given):
        return [classes.index(name) for name in names]
    if not numbered:
        odd = [n is None or not 0 <= n < len(classes) for n in numbers]
        row = next((i for i, name in enumerate(names) if odd[i] and name not in classes), odd.index(True))
        raise BadSetting(
            f"The true class of row {row} is {given[row]!r}, wanted a number from 0 to {len(classes) - 1} or one of the names "
            f"{', '.join(classes[:10])}{', ...' * (len(classes) > 10)}."
        )
    for row, (name, number) in enumerate(zip(names, numbers, strict=True)):
        if name in classes and classes.index(name) != number:
            raise BadSetting(
                f"The true class of row {row} is {given[row]!r}, which may mean the class of that name or class number {number}, "
                f"{classes[number or 0]!r}. Pass the names as strings."
            )
    return [each for each in numbers if each is not None]
