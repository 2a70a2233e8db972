"""Table 3 and appendix C: texts with their ten key words, drawn by a fixed seed."""

from __future__ import annotations

from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Panel, Row, Table
from aimwise.study.paper.boxes import CLEAN, TEXTS
from aimwise.study.paper.methods import Scale, cells_of
from aimwise.study.paper.text_main import COLUMNS

SHOWN = COLUMNS[3:5]


def rows(data: str, scale: Scale) -> tuple[Row, ...]:
    """The first seed of every method."""
    cells = partial(cells_of, data, scale=scale, seeds=1)
    return (
        Row("AIM (paper)", cells(methods.aim_paper(data, scale))),
        Row("L2X", cells(methods.l2x(data, scale))),
        Row("LIME", cells(methods.lime(data, scale))),
        Row("VIBI", cells(methods.vibi(data, scale))),
        Row("FI", cells(methods.fi(scale))),
        Row("AIM (default)", cells(methods.aim_default(data, scale))),
        Row("integrated gradients", cells(methods.plain("ig", scale))),
    )


TABLE = Table(
    name="examples",
    title="Texts with their key words, every class",
    place="Table 3 and appendix C",
    panels=lambda scale: [Panel(CLEAN[data], data, SHOWN, rows(data, scale)) for data in TEXTS],
    notes=(
        "Three texts of each data set, drawn by the seed 2023: two that the black box predicts right and one that it does not. "
        "L2X and VIBI explain the predicted class alone.",
    ),
    kind="examples",
)
