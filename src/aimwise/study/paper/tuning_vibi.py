"""Tables 15 to 17: VIBI's τ and β."""

from __future__ import annotations

from aimwise.explainers.vibi import TUNED
from aimwise.study.paper import methods
from aimwise.study.paper.base import Claim, Table
from aimwise.study.paper.tuning import WORDS, grid_panels, same_best

TAUS = (0.2, 0.5, 0.7)
BETAS = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0)
PAIRS = [(tau, beta) for beta in BETAS for tau in TAUS]

TABLE = Table(
    name="tuning-vibi",
    title="VIBI: τ and β",
    place="Tables 15 to 17",
    panels=grid_panels(
        lambda data, scale: {f"tau={t:g} beta={b:g}": methods.vibi(data, scale, tau=t, beta=b) for t, b in PAIRS}, WORDS
    ),
    claims=(
        Claim(
            "the paper's τ and β are best here too, packed",
            "App. H.2",
            lambda b: same_best(
                b,
                {data: f"tau={float(t['tau']):g} beta={float(t['beta']):g}" for data, t in TUNED.items()},  # type: ignore[arg-type]
                "faithfulness@10 packed",
            ),
        ),
    ),
)
