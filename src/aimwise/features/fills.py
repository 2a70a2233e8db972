"""What stands in for a column that is taken away: learned once for every fill, so that one explanation can be judged by all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aimwise.features.cells import LEVELLED, Column

FILLS = ("background", "mean", "median", "noise", "constant")


@dataclass(frozen=True)
class Fills:
    """Stand-ins for p columns, in the number form of `aimwise.features.cells`."""

    mean: Tensor  # (p,) mean of numbers, most frequent level of all else
    median: Tensor  # (p,) median of numbers and ordinals, most frequent level of all else
    spread: Tensor  # (p,) standard deviation of numbers
    levels: Tensor  # (p,) how many levels a category has, 2 for booleans, 0 for numbers
    rounded: Tensor  # (p,) 1 where a stand-in must be a whole number: integers and booleans
    joint: Tensor  # (p,) 1 where noise must be a training row's values: columns of a one-hot group
    constant: Tensor  # (p,) the user's value, NaN where none was given
    background: Tensor  # (m, p) training rows

    def draw(self, fill: str, n: int, rng: torch.Generator) -> Tensor:
        """Stand-ins for n rows: (n, p)."""
        drawn = DRAW[fill](self, n, rng)
        return torch.where(self.rounded > 0, drawn.round(), drawn)

    def _rows(self, n: int, rng: torch.Generator) -> Tensor:
        return self.background[torch.randint(len(self.background), (n,), generator=rng)]

    def _noise(self, n: int, rng: torch.Generator) -> Tensor:
        u = torch.rand(n, len(self.mean), generator=rng, dtype=torch.float64)
        number = self.mean + self.spread * (2 * u - 1)  # uniform in [-1, 1] after scaling
        level = (u * self.levels).floor().clamp_max((self.levels - 1).clamp_min(0))
        drawn = torch.where(self.levels > 0, level, number)
        return torch.where(self.joint > 0, self._rows(n, rng), drawn)


DRAW: dict[str, Callable[[Fills, int, torch.Generator], Tensor]] = {
    "background": Fills._rows,
    "mean": lambda self, n, rng: self.mean.expand(n, -1),
    "median": lambda self, n, rng: self.median.expand(n, -1),
    "noise": Fills._noise,
    "constant": lambda self, n, rng: self.constant.expand(n, -1),
}


def learn_fills(
    numbers: np.ndarray, columns: Sequence[Column], one_hot: Sequence[np.ndarray], constant: np.ndarray, rows: np.ndarray
) -> Fills:
    """All fills of a table (n, p) of numbers; `one_hot` names the columns that are one category together."""
    mean, median = np.empty(len(columns)), np.empty(len(columns))
    spread, levels = np.zeros(len(columns)), np.zeros(len(columns))
    for j, column in enumerate(columns):
        seen = numbers[np.isfinite(numbers[:, j]), j]
        seen = seen[seen >= 0] if column.kind in LEVELLED else seen
        levels[j] = len(column.levels) if column.kind in LEVELLED else 2 * (column.kind == "boolean")
        if len(seen) == 0:
            mean[j] = median[j] = np.nan
            continue
        if levels[j]:
            mean[j] = median[j] = most_frequent(seen)
            median[j] = np.sort(seen)[len(seen) // 2] if column.kind == "ordinal" else median[j]
        else:
            mean[j], median[j], spread[j] = seen.mean(), np.median(seen), seen.std()
    joint = np.zeros(len(columns))
    for group in one_hot:
        rowwise, count = np.unique(numbers[:, group], axis=0, return_counts=True)
        mean[group] = median[group] = rowwise[count.argmax()]
        joint[group] = 1
    return Fills(
        mean=torch.from_numpy(mean),
        median=torch.from_numpy(median),
        spread=torch.from_numpy(spread),
        levels=torch.from_numpy(levels),
        rounded=torch.tensor([float(c.kind in ("integer", "boolean")) for c in columns], dtype=torch.float64),
        joint=torch.from_numpy(joint),
        constant=torch.from_numpy(constant),
        background=torch.from_numpy(numbers[rows]),
    )


def background_rows(n: int, most: int) -> np.ndarray:
    """Evenly spaced row numbers, at most so many."""
    return np.linspace(0, n - 1, min(most, n)).astype(int)


def most_frequent(values: np.ndarray) -> float:
    """The value that comes most often, the smallest of those on a tie."""
    found, count = np.unique(values, return_counts=True)
    return float(found[count.argmax()])
