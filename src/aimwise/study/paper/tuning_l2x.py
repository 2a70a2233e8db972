"""Table 13: L2X's temperature."""

from __future__ import annotations

from aimwise.explainers.l2x import TUNED_TAU
from aimwise.study.paper import methods
from aimwise.study.paper.base import Claim, Table
from aimwise.study.paper.tuning import WORDS, grid_panels, same_best

TAUS = (0.1, 0.2, 0.5, 0.7)

TABLE = Table(
    name="tuning-l2x",
    title="L2X: τ",
    place="Table 13",
    panels=grid_panels(lambda data, scale: {f"tau={t:g}": methods.l2x(data, scale, tau=t) for t in TAUS}, WORDS),
    claims=(
        Claim(
            "the paper's τ is best here too, packed",
            "App. H.2",
            lambda b: same_best(b, {data: f"tau={tau:g}" for data, tau in TUNED_TAU.items()}, "faithfulness@10 packed"),
        ),
    ),
)
