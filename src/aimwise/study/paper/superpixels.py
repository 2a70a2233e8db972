"""Table 9: patches of 7 by 7 pixels, and the pictures below it."""

from __future__ import annotations

from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Panel, Row, Table, every, faithful_at
from aimwise.study.paper.boxes import CLEAN, IMAGES
from aimwise.study.paper.methods import Scale, cells_of
from aimwise.study.paper.printed import printed

KS = (5, 8, 10)
FEWER = (1, 3)  # at which methods still differ


def rows(data: str, scale: Scale) -> tuple[Row, ...]:
    """AIM in three recipes, integrated gradients and random order."""
    cells = partial(cells_of, data, scale=scale, more={"features": "patches"})
    return (
        Row("AIM (paper)", cells(methods.aim_paper(data, scale)), "AIM"),
        Row("AIM (released)", cells(methods.aim_released(data, scale)), "AIM"),
        Row("AIM (default)", cells(methods.aim_default(data, scale)), "AIM"),
        Row("integrated gradients", cells(methods.plain("ig", scale))),
        Row("random", cells(methods.plain("random", scale))),
    )


def panels(scale: Scale) -> list[Panel]:
    """One for each data set."""
    return [Panel(CLEAN[data], data, faithful_at(KS, FEWER), rows(data, scale)) for data in IMAGES]


def reached(board: Board, ours: str) -> bool | None:
    """Whether a row reaches every printed figure."""
    found = []
    for data in IMAGES:
        for k in KS:
            mine = board.mean(data, ours, f"faithfulness@{k} zero")
            theirs = printed()["superpixels", data, "AIM", f"faithfulness@{k}"].mean
            found.append(None if mine is None else mine >= theirs)
    return every(found)


TABLE = Table(
    name="superpixels",
    title="Faithfulness of superpixels, with pictures",
    place="Table 9 and the figure below it",
    panels=panels,
    claims=(
        Claim("AIM (paper) reaches the printed faithfulness", "App. E.1", lambda b: reached(b, "AIM (paper)")),
        Claim("AIM (default) reaches the printed faithfulness", "App. E.1", lambda b: reached(b, "AIM (default)")),
    ),
    notes=(
        "Pictures are drawn by a fixed seed among the right and the wrong predictions; the five strongest patches are outlined.",
    ),
    kind="pictures",
)
