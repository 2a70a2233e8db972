"""How far methods agree with each other about the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from aimwise.errors import BadSetting, extra
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.metrics.agreement import overlap, rank_correlation, sign_agreement

MEASURES = ("overlap", "rank_correlation", "sign_agreement")


@dataclass(frozen=True)
class Pair:
    """How far two methods agree: overlap of the top K and sign agreement for each K, rank correlation for all features."""

    one: str
    other: str
    measure: str
    k: int | None
    mean: float
    n: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every pair of methods and how far they agree; 1 is complete agreement."""

    methods: tuple[str, ...]
    pairs: tuple[Pair, ...]

    def mean(self, one: str, other: str, measure: str, *, k: int | None = None) -> float:
        """One mean, whichever method is named first."""
        for pair in self.pairs:
            if {pair.one, pair.other} == {one, other} and pair.measure == measure and k in (None, pair.k):
                return pair.mean
        raise BadSetting(f"There is no {measure} of {one} and {other} at k={k}; measures: {', '.join(MEASURES)}.")

    def to_frame(self) -> Any:
        """A pandas table: one, other, measure, k, mean, n."""
        pd = extra("pandas", "table")
        names = ("one", "other", "measure", "k", "mean", "n")
        frame = pd.DataFrame([{name: getattr(pair, name) for name in names} for pair in self.pairs], columns=list(names))
        return frame.astype({"k": "Int64"})

    def __repr__(self) -> str:
        keys = list(dict.fromkeys((pair.measure, pair.k) for pair in self.pairs))
        heads = [measure if k is None else f"{measure}@{k}" for measure, k in keys]
        wide = max([len(f"{pair.one} and {pair.other}") for pair in self.pairs], default=4)
        lines = [" " * wide + "  " + "  ".join(heads)]
        for one, other in combinations(self.methods, 2):
            found = {(p.measure, p.k): p.mean for p in self.pairs if (p.one, p.other) == (one, other)}
            cells = [f"{found[key]:.3f}".rjust(len(head)) for key, head in zip(keys, heads, strict=True)]
            lines.append(f"{one} and {other}".ljust(wide) + "  " + "  ".join(cells))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self.to_frame().round(4).to_html(index=False))


def compare(
    explainers: Mapping[str, Explainer | Explanation], inputs: Any = None, *, k: Sequence[int] = (5, 10), target: Any = None
) -> Comparison:
    """Compare methods on the same inputs: overlap of the top K, Spearman's rank correlation, agreement of signs.

    explainers: fitted explainers, or explanations already made of these inputs. target: for a class other than the predicted one.
    """
    if len(explainers) < 2:
        raise BadSetting(f"Got {len(explainers)} method, wanted at least two to compare.")
    made = {name: one if isinstance(one, Explanation) else one.explain(inputs) for name, one in explainers.items()}
    pairs = []
    for one, other in combinations(made, 2):
        a, b = made[one], made[other]
        for measure, size, values in (
            *(("overlap", size, overlap(a, b, k=size, target=target)) for size in k),
            ("rank_correlation", None, rank_correlation(a, b, target=target)),
            *(("sign_agreement", size, sign_agreement(a, b, k=size, target=target)) for size in k),
        ):
            known = values[values.isfinite()]
            pairs.append(Pair(one, other, measure, size, float(known.mean()) if len(known) else float(np.nan), len(known)))
    return Comparison(tuple(made), tuple(pairs))
