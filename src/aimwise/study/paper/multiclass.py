"""Table 5: explanations of every class."""

from __future__ import annotations

from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Column, Panel, Row, Table, best, every
from aimwise.study.paper.boxes import CLEAN, TEXTS
from aimwise.study.paper.methods import Scale, cells_of

CLASSES = {"imdb": 2, "hatexplain": 2, "ag_news": 4}
OURS = ("AIM (paper)", "AIM (default)")


def columns(data: str) -> tuple[Column, ...]:
    """Class-specific faithfulness of every class, packed and in place, and the overlap of two classes' words."""
    each = [
        Column(
            f"class {c} %, {fill.replace('_', ' ')}",
            f"class_faithfulness {c}@10 {fill}",
            100,
            "higher",
            f"class_faithfulness {c}",
        )
        for fill in ("packed", "in_place")
        for c in range(CLASSES[data])
    ]
    return (*each, Column("pairwise IoU %", "pairwise_iou@10", 100, "lower", "pairwise_iou"))


def rows(data: str, scale: Scale) -> tuple[Row, ...]:
    """The paper's three methods, then ours and integrated gradients."""
    cells = partial(cells_of, data, scale=scale)
    return (
        Row("AIM (paper)", cells(methods.aim_paper(data, scale)), "AIM"),
        Row("LIME", cells(methods.lime(data, scale)), "LIME"),
        Row("FI", cells(methods.fi(scale)), "FI"),
        Row("AIM (released)", cells(methods.aim_released(data, scale)), "AIM"),
        Row("AIM (default)", cells(methods.aim_default(data, scale)), "AIM"),
        Row("integrated gradients", cells(methods.plain("ig", scale))),
        Row("random", cells(methods.plain("random", scale))),
    )


def panels(scale: Scale) -> list[Panel]:
    """One for each data set."""
    return [Panel(CLEAN[data], data, columns(data), rows(data, scale)) for data in TEXTS]


def best_in(board: Board, ours: str, start: str, better: str) -> bool | None:
    """Whether one of our rows is best of the paper's three in the figures that begin so."""
    return every(
        [
            best(board, data, ours, ("LIME", "FI"), c.figure, better)
            for data in TEXTS
            for c in columns(data)
            if c.figure.startswith(start) and "in_place" not in c.figure
        ]
    )


def distinct(board: Board) -> bool | None:
    """Whether the words of two classes overlap by less than 4 % where there are two classes."""
    found = [board.mean(data, "AIM (paper)", "pairwise_iou@10") for data in ("imdb", "hatexplain")]
    return every([None if value is None else value < 4 for value in found])


TABLE = Table(
    name="multiclass",
    title="Explanations of every class, K = 10",
    place="Table 5",
    panels=panels,
    claims=(
        *(
            Claim(
                f"{ours} is best in class-specific faithfulness, packed",
                "§4.4",
                partial(best_in, ours=ours, start="class_", better="higher"),
            )
            for ours in OURS
        ),
        *(
            Claim(f"{ours}'s classes overlap least", "§4.4", partial(best_in, ours=ours, start="pairwise", better="lower"))
            for ours in OURS
        ),
        Claim("words of two classes overlap by less than 4 % (IMDB, HateXplain)", "§4.4", distinct),
    ),
    notes=(
        "Class-specific faithfulness is contrastive: asking for a class chooses words that point to it, whatever the text says.",
    ),
)
