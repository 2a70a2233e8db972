"""Table 7: what the explainer and the selector are worth, on IMDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Column, Panel, Row, Table
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.paper.methods import Scale, cells_of

COLUMNS = (
    Column("purity %", "purity@10", 100, "lower", "purity"),
    Column("brevity", "brevity@10", 1, "lower"),
    Column("brevity, as released", "brevity_released@10", 1, "lower", "brevity"),
    Column("faithful %, in place", "faithfulness@10 in_place", 100, "higher", "faithfulness"),
    Column("faithful %, packed", "faithfulness@10 packed", 100, "higher", "faithfulness"),
)
WHOLE, FROM_PI, SELECTOR, EXPLAINER = (
    "inference from explainer",
    "inference from selector",
    "training selector only",
    "training explainer only",
)


def rows(scale: Scale) -> tuple[Row, ...]:
    """The paper's recipe with parts left out; each is a setting of AIM."""
    cells = partial(cells_of, "imdb", scale=scale)
    whole = methods.aim_paper("imdb", scale)
    return (
        Row(WHOLE, cells(whole), WHOLE),
        Row(FROM_PI, cells(replace(whole, rank="pi")), FROM_PI),
        Row(SELECTOR, cells(replace(whole, rank="pi", explainer=False)), SELECTOR),
        Row(EXPLAINER, cells(replace(whole, masks="uniform")), EXPLAINER),
        Row("training explainer only, soft targets", cells(replace(whole, masks="uniform", target="soft"))),
        Row("AIM (default)", cells(methods.aim_default("imdb", scale))),
    )


def panels(scale: Scale) -> list[Panel]:
    """IMDB alone."""
    return [Panel(CLEAN["imdb"], "imdb", COLUMNS, rows(scale))]


def beats(board: Board, others: Sequence[str], margin: int | float = 0) -> bool | None:
    """Whether the whole method is more faithful, packed and in place."""
    found = []
    for figure in ("faithfulness@10 in_place", "faithfulness@10 packed"):
        whole = board.mean("imdb", WHOLE, figure)
        for other in others:
            value = board.mean("imdb", other, figure)
            if whole is None or value is None:
                return None
            found.append(whole > value + margin)
    return all(found)


TABLE = Table(
    name="ablation",
    title="What explainer and selector are worth",
    place="Table 7",
    panels=panels,
    claims=(
        Claim("inference from W beats inference from π", "App. D.1", lambda b: beats(b, [FROM_PI])),
        Claim("the explainer is needed: the selector alone is worse", "App. D.2", lambda b: beats(b, [SELECTOR])),
        Claim("learned masks beat random ones (hard labels)", "App. D.3", lambda b: beats(b, [EXPLAINER])),
        Claim("learned masks beat random ones by more than 20 points", "App. D.3", lambda b: beats(b, [EXPLAINER], 20)),
    ),
    notes=(
        "Training the explainer only: random masks of uniform size, hard labels, one mask a text and step, no selector and no "
        "approximator; the whole text stands beside each mask. The row below it differs in learning from probabilities.",
    ),
)
