"""Table 2: all metrics of the five methods on the three sets of texts at K = 10, with four more rows below the paper's own."""

from __future__ import annotations

from functools import partial

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Column, Panel, Row, Table, best, every
from aimwise.study.paper.boxes import CLEAN, TEXTS
from aimwise.study.paper.methods import Scale, cells_of

PAPER = "AIM (paper)"
RIVALS = ("L2X", "LIME", "VIBI", "FI")
COLUMNS = (
    Column("purity %", "purity@10", 100, "lower", "purity"),
    Column("brevity", "brevity@10", 1, "lower"),
    Column("brevity, as released", "brevity_released@10", 1, "lower", "brevity"),
    Column("faithful %, in place", "faithfulness@10 in_place", 100, "higher", "faithfulness"),
    Column("faithful %, packed", "faithfulness@10 packed", 100, "higher", "faithfulness"),
    Column("IoU %", "iou@10", 100, "higher", "iou"),
    Column("+Δ log-odds, in place", "positive_log_odds@10 in_place", 1, "higher", "positive_log_odds"),
    Column("+Δ log-odds, packed", "positive_log_odds@10 packed", 1, "higher", "positive_log_odds"),
    Column("−Δ log-odds, in place", "negative_log_odds@10 in_place", 1, "lower", "negative_log_odds"),
    Column("−Δ log-odds, packed", "negative_log_odds@10 packed", 1, "lower", "negative_log_odds"),
    Column("minutes", "minutes", 1, "lower", "minutes"),
)
JUDGED = tuple(c for c in COLUMNS if c.printed and c.figure != "minutes")


def rows(data: str, scale: Scale) -> tuple[Row, ...]:
    """The paper's five methods, then ours and the controls."""
    cells = partial(cells_of, data, scale=scale)
    return (
        Row(PAPER, cells(methods.aim_paper(data, scale)), "AIM"),
        Row("L2X", cells(methods.l2x(data, scale)), "L2X"),
        Row("LIME", cells(methods.lime(data, scale)), "LIME"),
        Row("VIBI", cells(methods.vibi(data, scale)), "VIBI"),
        Row("FI", cells(methods.fi(scale)), "FI"),
        Row("AIM (released)", cells(methods.aim_released(data, scale)), "AIM"),
        Row("AIM (default)", cells(methods.aim_default(data, scale)), "AIM"),
        Row("integrated gradients", cells(methods.plain("ig", scale))),
        Row("occlusion", cells(methods.plain("occlusion", scale))),
        Row("lexicon", cells(methods.plain("lexicon", scale))),
        Row("random", cells(methods.plain("random", scale))),
    )


def panels(scale: Scale) -> list[Panel]:
    """One for each data set."""
    return [Panel(CLEAN[data], data, COLUMNS, rows(data, scale)) for data in TEXTS]


def best_everywhere(board: Board, columns: tuple[Column, ...]) -> bool | None:
    """Whether the paper's recipe is best of the paper's five in these columns on every data set."""
    return every([best(board, data, PAPER, RIVALS, c.figure, c.better) for data in TEXTS for c in columns])


def in_columns(*starts: str) -> tuple[Column, ...]:
    """The judged columns whose figures begin like this."""
    return tuple(c for c in JUDGED if c.figure.startswith(starts))


def above(board: Board, row: str, figure: str, least: int | float) -> bool | None:
    """Whether a share is above so much on every data set."""
    found = [board.mean(data, row, figure) for data in TEXTS]
    return every([None if value is None else value > least for value in found])


TABLE = Table(
    name="text-main",
    title="All metrics on texts, K = 10",
    place="Table 2",
    panels=panels,
    claims=(
        Claim("AIM is best of the five on all metrics and data sets", "§4.2", lambda b: best_everywhere(b, JUDGED)),
        Claim(
            "AIM is the most faithful of the five, packed",
            "§4.2",
            lambda b: best_everywhere(b, in_columns("faithfulness@10 packed")),
        ),
        Claim(
            "AIM is the most faithful of the five, in place",
            "§4.2",
            lambda b: best_everywhere(b, in_columns("faithfulness@10 in_place")),
        ),
        Claim("AIM's faithfulness is above 90 % everywhere, packed", "§4.2", lambda b: above(b, PAPER, JUDGED[3].figure, 90)),
        Claim("AIM's faithfulness is above 90 % everywhere, in place", "§4.2", lambda b: above(b, PAPER, JUDGED[2].figure, 90)),
        Claim(
            "taking AIM's words away costs the most log-odds",
            "§4.2",
            lambda b: best_everywhere(b, in_columns("positive_log_odds")),
        ),
        Claim("AIM is purest", "§4.2", lambda b: best_everywhere(b, in_columns("purity"))),
        Claim("AIM is briefest, by the released count", "§4.2", lambda b: best_everywhere(b, in_columns("brevity"))),
        Claim("AIM is the most stable (IoU)", "§4.2", lambda b: best_everywhere(b, in_columns("iou"))),
        Claim(
            "LIME and FI take at least ten times as long as AIM for the same number of inputs",
            "§4.2",
            lambda b: None if b.scale.quick else slower(b),
        ),
    ),
    notes=(
        "Brevity as printed is comparable with the released count only, in which all words that WordNet knows are one cluster.",
        "LIME and FI explain the first 500 test texts, the others all of them; their IoU is among those 500. Minutes: fitting "
        "and explaining together, on the machine named below; the paper's were measured on the authors' machine.",
        "Features are ranked by `Explanation.order`, which for two classes is the weight itself, as in the paper.",
    ),
)


def slower(board: Board) -> bool | None:
    """Whether LIME and FI are at least ten times as slow as AIM, were they to explain as many inputs."""
    found: list[bool | None] = []
    for panel in board.panels:
        by_name = {row.name: board.found(row) for row in panel.rows}
        ours = by_name[PAPER]
        for name in ("LIME", "FI"):
            theirs = by_name[name]
            if not ours or not theirs or "minutes" not in ours[0]:
                found.append(None)
                continue
            scaled = theirs[0]["minutes"] * ours[0]["inputs"] / theirs[0]["inputs"]
            found.append(scaled >= 10 * ours[0]["minutes"])
    return every(found)
