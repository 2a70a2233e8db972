"""What the five tuning tables of appendix H share: a grid of settings on the three sets of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aimwise.explainers import Explainer
from aimwise.study.paper.base import Board, Column, Panel, Row, every
from aimwise.study.paper.boxes import CLEAN, TEXTS
from aimwise.study.paper.methods import Scale, cells_of

FAITHFUL = (
    Column("faithful %, in place", "faithfulness@10 in_place", 100, "higher", "faithfulness"),
    Column("faithful %, packed", "faithfulness@10 packed", 100, "higher", "faithfulness"),
)
WORDS = (
    Column("purity %", "purity@10", 100, "lower", "purity"),
    Column("brevity", "brevity@10", 1, "lower"),
    Column("brevity, as released", "brevity_released@10", 1, "lower", "brevity"),
    *FAITHFUL,
)
LOG_ODDS = (
    *FAITHFUL,
    Column("+Δ log-odds, in place", "positive_log_odds@10 in_place", 1, "higher", "positive_log_odds"),
    Column("+Δ log-odds, packed", "positive_log_odds@10 packed", 1, "higher", "positive_log_odds"),
    Column("−Δ log-odds, in place", "negative_log_odds@10 in_place", 1, "lower", "negative_log_odds"),
    Column("−Δ log-odds, packed", "negative_log_odds@10 packed", 1, "lower", "negative_log_odds"),
)
Grid = Callable[[str, Scale], Mapping[str, Explainer]]


def grid_panels(grid: Grid, columns: tuple[Column, ...]) -> Callable[[Scale], list[Panel]]:
    """One panel for each data set, a row for each setting, by the name that the printed row has."""

    def panels(scale: Scale) -> list[Panel]:
        return [
            Panel(
                CLEAN[data],
                data,
                columns,
                tuple(
                    Row(name, cells_of(data, made, scale, seeds=scale.tuning_seeds), name)
                    for name, made in grid(data, scale).items()
                ),
            )
            for data in TEXTS
        ]

    return panels


def within(board: Board, figure: str, points: int | float) -> bool | None:
    """Whether all settings of a data set lie within so many points, on every data set."""
    found: list[bool | None] = []
    for panel in board.panels:
        values = [board.mean(panel.data, row.name, figure) for row in panel.rows]
        known = [value for value in values if value is not None]
        found.append(None if len(known) < len(values) else max(known) - min(known) <= points)
    return every(found)


def same_best(board: Board, chosen: Mapping[str, str], figure: str) -> bool | None:
    """Whether the paper's setting is the best here too, on every data set."""
    found: list[bool | None] = []
    for panel in board.panels:
        if chosen.get(panel.data) not in [row.name for row in panel.rows]:
            continue
        values = {row.name: board.mean(panel.data, row.name, figure) for row in panel.rows}
        if any(value is None for value in values.values()):
            found.append(None)
            continue
        found.append(values[chosen[panel.data]] == max(value for value in values.values() if value is not None))
    return every(found)
