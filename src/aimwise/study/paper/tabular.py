"""Table 10: Admission and Adult under mean and noise masking."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from aimwise.explainers import AIM, METHODS
from aimwise.study.paper.base import Board, Claim, Column, Panel, Row, Table, best, every
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.paper.methods import Scale, cells_of

ROWS = 2000
HALF = {"admission": 3, "adult": 6}  # of the 7 and 12 columns that the data have
RIVALS = ("LIME", "MAPLE", "INVASE")
BATCH, MOST_ROWS = 256, 8192  # of Adult's 32,561 rows: as many steps an epoch as on Admission
OURS = ("AIM (paper)", "AIM (default)")


def columns(k: int, fill: str) -> tuple[Column, ...]:
    """Faithfulness and what is lost without the top K under one fill."""
    return (
        Column(f"faithful %, {fill}", f"faithfulness@{k} {fill}", 100, "higher", f"faithfulness {fill}"),
        Column(f"+Δ log-odds, {fill}", f"positive_log_odds@{k} {fill}", 1, "higher", f"positive_log_odds {fill}"),
    )


def rows(data: str, scale: Scale, fill: str) -> tuple[Row, ...]:
    """AIM is trained with the fill it is judged by; the others do not know one."""
    cells = partial(cells_of, data, scale=replace(scale, rows=min(scale.rows, ROWS)))
    ours = partial(cells, more={"fill": fill})
    paper, released = AIM.paper(), AIM.released()
    if data == "adult":
        paper, released = (replace(made, batch_size=BATCH, most_rows=MOST_ROWS) for made in (paper, released))
    return (
        Row("AIM (paper)", ours(paper), "AIM"),
        Row("LIME", cells(METHODS["lime"]()), "LIME"),
        Row("MAPLE", cells(METHODS["maple"]()), "MAPLE"),
        Row("INVASE", cells(METHODS["invase"]()), "INVASE"),
        Row("AIM (released)", ours(released), "AIM"),
        Row("AIM (default)", ours(AIM()), "AIM"),
        Row("lexicon", cells(METHODS["lexicon"]())),
        Row("random", cells(METHODS["random"]())),
    )


def panels(scale: Scale) -> list[Panel]:
    """For each data set, K and fill one."""
    return [
        Panel(
            f"{CLEAN[data]}, K = {k}, {fill} masking",
            data,
            columns(k, fill),
            rows(data, scale, fill),
            "K is half of the columns" if k == HALF[data] else "K as the paper prints it",
        )
        for data in HALF
        for k in (HALF[data], 9 - HALF[data])
        for fill in ("mean", "noise")
    ]


def best_of(board: Board, ours: str, metric: str) -> bool | None:
    """Whether one of our rows is best under both fills on both data sets, at half of the columns."""
    figures = [(data, f"{metric}@{k} {fill}") for data, k in HALF.items() for fill in ("mean", "noise")]
    return every([best(board, data, ours, RIVALS, figure, "higher") for data, figure in figures])


TABLE = Table(
    name="tabular",
    title="Tables under mean and noise masking",
    place="Table 10",
    panels=panels,
    claims=tuple(
        Claim(
            f"{ours} is best of the four by {named}, K half of the columns",
            "App. E.2",
            partial(best_of, ours=ours, metric=metric),
        )
        for ours in OURS
        for metric, named in (("faithfulness", "faithfulness"), ("positive_log_odds", "+Δ log-odds"))
    ),
    notes=(
        "The paper gives Admission 12 and Adult 7 features and K = 6 and 3; the data have 7 and 12. Both K are shown for both, "
        "with the printed figures beside each; the claims are judged at half of the columns, 3 for Admission and 6 for Adult.",
        "Admission's threshold is not in the paper: here 0.72, the median of the 500 rows.",
        "Noise is uniform in [-1, 1] times the column's standard deviation around its mean, a random level for categories, 10 "
        "draws. The mean is that of the training part; for categories it is the most frequent level.",
        "Adult: the first 2,000 test rows, LIME the first 500. The α of the paper for tables is not given: α = 1, β = 1e-3 as in "
        "the released code. An epoch of the paper and released recipes goes over 8,192 rows of Adult in batches of 256.",
    ),
)
