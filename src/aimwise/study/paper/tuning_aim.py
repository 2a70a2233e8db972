"""Table 12: AIM's α."""

from __future__ import annotations

from aimwise.study.paper import methods
from aimwise.study.paper.base import Claim, Table
from aimwise.study.paper.boxes import TEXTS
from aimwise.study.paper.methods import ALPHA
from aimwise.study.paper.tuning import LOG_ODDS, grid_panels, same_best, within

ALPHAS = (0.1, 0.5, 1.0, 1.5, 1.8, 2.0)
PACKED = "faithfulness@10 packed"

TABLE = Table(
    name="tuning-aim",
    title="AIM: α",
    place="Table 12",
    panels=grid_panels(lambda data, scale: {f"alpha={a:g}": methods.aim_paper(data, scale, alpha=a) for a in ALPHAS}, LOG_ODDS),
    claims=(
        Claim("AIM is not sensitive to α: within 3 points of faithfulness, packed", "App. H.1", lambda b: within(b, PACKED, 3)),
        Claim(
            "AIM is not sensitive to α: within 3 points, in place", "App. H.1", lambda b: within(b, "faithfulness@10 in_place", 3)
        ),
        Claim(
            "the paper's α is best here too, packed",
            "App. H.1",
            lambda b: same_best(b, {data: f"alpha={ALPHA[data]:g}" for data in TEXTS}, PACKED),
        ),
    ),
    notes=("The paper prints no deviations here. β is that of Table 6.",),
)
