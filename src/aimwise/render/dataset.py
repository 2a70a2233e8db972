"""What the features say over all rows together: the leading ones, each with every weight it had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation, Target
from aimwise.render.say import cell
from aimwise.render.text import OFTEN, prominence


@dataclass(frozen=True)
class Feature:
    """One feature, or one word whatever its place: in which rows it is, with which weights and values."""

    name: str
    rows: np.ndarray  # (n,)
    weights: np.ndarray  # (n,)
    values: np.ndarray  # (n,) as they are

    @property
    def mean(self) -> float:
        """The mean weight where it is present."""
        return float(self.weights.mean()) if len(self.weights) else 0.0

    @property
    def size(self) -> float:
        """The mean weight where it is present, whatever the sign."""
        return float(np.abs(self.weights).mean()) if len(self.weights) else 0.0

    def shades(self) -> np.ndarray | None:
        """Its values as shares of their range from the 5th to the 95th percentile, where they are numbers; NaN if missing."""
        if not all(isinstance(v, int | float | np.number | None) and not isinstance(v, bool) for v in self.values.tolist()):
            return None
        numbers = np.array([np.nan if v is None else float(v) for v in self.values.tolist()])
        if not np.isfinite(numbers).any():
            return None
        low, high = np.nanpercentile(numbers, [5, 95])
        return np.clip((numbers - low) / (high - low), 0, 1) if high > low else np.where(np.isfinite(numbers), 0.5, np.nan)


def leading(explanation: Explanation, target: Target = None, *, top: int = 10) -> list[Feature]:
    """The features that matter most in all rows together, the first first.

    Columns and regions are ranked by their mean size over all rows, words by how far they stand out (`prominence`); words that
    come once follow those that come more often.
    """
    if top < 1:
        raise BadSetting(f"top={top}, wanted at least one feature.")
    if not len(explanation):
        raise BadSetting("This explanation has no rows, wanted at least one to draw.")
    weights = np.nan_to_num(explanation.towards(target).double().numpy(), posinf=0, neginf=0)  # (B, d)
    rows, columns = np.nonzero(explanation.present.numpy())
    said, values = weights[rows, columns], explanation.values[rows, columns]
    names, ids = list(explanation.names or ()), columns
    if explanation.names is None:
        known: dict[str, int] = {}
        ids = np.array([known.setdefault(cell(v).lower(), len(known)) for v in values], dtype=np.int64)
        names = list(known)
    totals = np.bincount(ids, weights=np.abs(said), minlength=len(names))
    counts = np.bincount(ids, minlength=len(names))
    rare = np.zeros(len(names), dtype=bool)
    if explanation.names is None:
        totals, rare = prominence(totals, counts), counts < OFTEN
    order = np.lexsort((-totals, rare))[:top]
    order = order[np.argsort(-totals[order], kind="stable")]
    return [Feature(names[j], rows[ids == j], said[ids == j], values[ids == j]) for j in order]


def only_row(explanation: Explanation, name: str) -> Explanation:
    """The explanation, which must be of one row."""
    if len(explanation) != 1:
        raise BadSetting(
            f"{name} is about one row, this explanation has {len(explanation)}. Pick one: plots.{name}(explanation[0])."
        )
    return explanation


def meant(explanation: Explanation, target: Target) -> int | None:
    """The one class that is drawn, or None where it differs from row to row."""
    found = set(explanation.classes_of(target).tolist())
    return found.pop() if len(found) == 1 and (target is not None or len(explanation) == 1) else None


def called(explanation: Explanation, target: Target) -> str:
    """The class that is drawn, in words."""
    c = meant(explanation, target)
    return "the predicted class" if c is None else explanation.classes[c]
