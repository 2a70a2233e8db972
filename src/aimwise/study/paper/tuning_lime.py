"""Table 14 and its figure: LIME's kernel width, and what more samples cost and bring."""

from __future__ import annotations

from itertools import pairwise

from aimwise.explainers.lime import PAPER_KERNEL_WIDTH
from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Column, Curve, Panel, Plot, Row, Table
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.paper.methods import Scale, cells_of
from aimwise.study.paper.tuning import FAITHFUL, WORDS, grid_panels, same_best

WIDTHS = (15, 20, 25, 30, 35)
SAMPLES = (500, 1000, 2000, 5000)
COLUMNS = (*FAITHFUL, Column("seconds for all texts", "explain_seconds", 1, "lower"))


def curve_rows(scale: Scale) -> dict[int, Row]:
    """IMDB with more and more samples."""
    return {
        n: Row(f"samples={n}", cells_of("imdb", methods.lime("imdb", scale, samples=n), scale))
        for n in (SAMPLES[:1] if scale.quick else SAMPLES)
    }


def panels(scale: Scale) -> list[Panel]:
    """The grid, and the figure's cells."""
    grid = grid_panels(
        lambda data, scale: {f"kernel_width={w}": methods.lime(data, scale, kernel_width=w) for w in WIDTHS}, WORDS
    )
    more = Panel(f"{CLEAN['imdb']}, samples", "imdb", COLUMNS, tuple(curve_rows(scale).values()))
    return [*grid(scale), more]


def plots(board: Board) -> list[Plot]:
    """Faithfulness and seconds a text against N."""
    made = []
    for head, figure, times in (
        ("faithfulness %, packed", "faithfulness@10 packed", 100.0),
        ("faithfulness %, in place", "faithfulness@10 in_place", 100.0),
        ("seconds a text", "explain_seconds", 0.0),
    ):
        points = []
        for n, row in curve_rows(board.scale).items():
            found = [record for record in board.found(row) if figure in record]
            values = tuple(record[figure] * (times or 1 / record["inputs"]) for record in found)
            if values:
                points.append((float(n), values))
        made.append(Plot(f"LIME on IMDB: {head}", "N, samples", head, (Curve("LIME", tuple(points)),) if points else ()))
    return made


def grows(board: Board, figure: str) -> bool | None:
    """Whether a figure never falls as N grows."""
    found = [board.mean("imdb", f"samples={n}", figure) for n in SAMPLES]
    if any(value is None for value in found):
        return None
    known = [value for value in found if value is not None]
    return all(a <= b for a, b in pairwise(known))


TABLE = Table(
    name="tuning-lime",
    title="LIME: kernel width, and time against N",
    place="Table 14 and the figure below it",
    panels=panels,
    claims=(
        Claim("more samples are more faithful, packed", "App. H.2", lambda b: grows(b, "faithfulness@10 packed")),
        Claim("more samples take more time", "App. H.2", lambda b: grows(b, "explain_seconds")),
        Claim(
            "the paper's kernel width is best here too, packed",
            "App. H.2",
            lambda b: same_best(
                b, {data: f"kernel_width={w}" for data, w in PAPER_KERNEL_WIDTH.items()}, "faithfulness@10 packed"
            ),
        ),
    ),
    plots=plots,
    notes=("The paper's seconds are of one processor and 1,000 texts; its figure is drawn, not printed.",),
)
