"""Table 8: pixels of MNIST and Fashion-MNIST."""

from __future__ import annotations

from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Panel, Row, Table, best, every, faithful_at
from aimwise.study.paper.boxes import CLEAN, IMAGES
from aimwise.study.paper.methods import Scale, cells_of

KS = (200, 300, 400)
FEWER = (50, 100)  # at which methods still differ
OTHERS = ("integrated gradients", "Kernel SHAP")


def rows(data: str, scale: Scale) -> tuple[Row, ...]:
    """The paper's three, then ours and random order."""
    cells = partial(cells_of, data, scale=scale, more={"features": "pixels"})
    return (
        Row("AIM (paper)", cells(methods.aim_paper(data, scale)), "AIM"),
        Row("integrated gradients", cells(methods.plain("ig", scale)), "Integrated Gradients"),
        Row("Kernel SHAP", cells(methods.plain("kernel_shap", scale)), "Kernel SHAP"),
        Row("AIM (default)", cells(methods.aim_default(data, scale)), "AIM"),
        Row("random", cells(methods.plain("random", scale))),
    )


def panels(scale: Scale) -> list[Panel]:
    """One for each data set."""
    return [Panel(CLEAN[data], data, faithful_at(KS, FEWER), rows(data, scale)) for data in IMAGES]


def ahead(board: Board, ours: str, others: tuple[str, ...]) -> bool | None:
    """Whether a row is best at every K of the paper."""
    return every([best(board, data, ours, others, f"faithfulness@{k} zero", "higher") for data in IMAGES for k in KS])


TABLE = Table(
    name="pixels",
    title="Faithfulness of pixels",
    place="Table 8",
    panels=panels,
    claims=(
        Claim("AIM is far ahead of Kernel SHAP", "App. E.1", lambda b: ahead(b, "AIM (paper)", ("Kernel SHAP",))),
        Claim(
            "AIM (default) is at least as faithful as integrated gradients",
            "ours",
            lambda b: ahead(b, "AIM (default)", OTHERS[:1]),
        ),
    ),
    notes=("Kernel SHAP by captum with 2 d + 2,048 coalitions on 500 images; the paper does not say how many it used.",),
)
