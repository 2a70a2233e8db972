"""How a table of the paper is set out: rows of cells, columns of figures, ours beside the printed ones, and claims about them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aimwise.study.cells import Facts, fingerprint, holds
from aimwise.study.paper.methods import Scale
from aimwise.study.paper.printed import Printed, printed


@dataclass(frozen=True)
class Column:
    """A figure of the cells: its heading, its name there, what it is multiplied by, which way is better, the paper's metric."""

    head: str
    figure: str
    times: int | float = 1
    better: str = ""
    printed: str = ""
    digits: int = 2


@dataclass(frozen=True)
class Row:
    """A method on one data set: its name, its cells, and what the paper calls its row."""

    name: str
    cells: tuple[Facts, ...]
    printed: str = ""


@dataclass(frozen=True)
class Panel:
    """The part of a table about one data set."""

    title: str
    data: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True)
class Value:
    """Our figure over the seeds that are there, beside the printed one; `wanted` seeds make it complete."""

    mean: float | None
    deviation: float | None
    seeds: int
    wanted: int
    collapsed: int
    printed: Printed | None

    @property
    def difference(self) -> float | None:
        """Ours less the printed one."""
        return None if self.mean is None or self.printed is None else self.mean - self.printed.mean


@dataclass(frozen=True)
class Curve:
    """A line of a plot: its name, and at each x the figures over the seeds."""

    name: str
    points: tuple[tuple[float, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Plot:
    """Lines on one axis."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and whether it holds here: True, False, or None where cells are missing."""

    text: str
    place: str
    check: Callable[[Board], bool | None]


@dataclass(frozen=True)
class Table:
    """One table or figure of the paper."""

    name: str
    title: str
    place: str
    panels: Callable[[Scale], list[Panel]]
    claims: tuple[Claim, ...] = ()
    plots: Callable[[Board], list[Plot]] = lambda board: []
    notes: tuple[str, ...] = ()
    kind: str = "figures"  # or "examples", "pictures": what is shown besides

    def cells(self, scale: Scale) -> list[Facts]:
        """All cells that it is made of, each once."""
        return list({fingerprint(cell): cell for p in self.panels(scale) for row in p.rows for cell in row.cells}.values())


@dataclass
class Board:
    """A table with what is known of its cells."""

    table: Table
    scale: Scale
    records: Sequence[Facts]
    panels: list[Panel] = field(init=False)

    def __post_init__(self) -> None:
        self.panels = self.table.panels(self.scale)
        self._known = index(self.records)
        self._found = {id(row): self._look(row) for panel in self.panels for row in panel.rows}  # the panels keep the rows alive

    def found(self, row: Row) -> list[Facts]:
        """The finished cells of a row, all about the same black box, that of the newest."""
        kept = self._found.get(id(row))
        return self._look(row) if kept is None else kept

    def _look(self, row: Row) -> list[Facts]:
        found = [record for cell in row.cells for record in self._known.get(bare(cell), [])]
        box = max(found, key=lambda record: str(record.get("finished", "")), default={}).get("box")
        return [record for record in found if record.get("box") == box]

    def value(self, panel: Panel, row: Row, column: Column) -> Value:
        """One figure of ours and the printed one."""
        found = self.found(row)
        numbers = [column.times * record[column.figure] for record in found if isinstance(record.get(column.figure), float | int)]
        return Value(
            mean=statistics.fmean(numbers) if numbers else None,
            deviation=statistics.stdev(numbers) if len(numbers) > 1 else None,
            seeds=len(numbers),
            wanted=len(row.cells),
            collapsed=sum("collapsed" in record for record in found),
            printed=printed().get((self.table.name, panel.data, row.printed, column.printed)),
        )

    def mean(self, data: str, row: str, figure: str) -> float | None:
        """The mean over the seeds of one figure of a row, as it stands in the table."""
        for panel in self.panels:
            for each in panel.rows:
                for column in panel.columns:
                    if (panel.data, each.name, column.figure) == (data, row, figure):
                        return self.value(panel, each, column).mean
        return None

    def seconds(self) -> tuple[float | None, int, int]:
        """What all cells take one after the other, by those that are measured; how many are done, and how many there are."""
        cells = self.table.cells(self.scale)
        done = [self._known.get(bare(cell), []) for cell in cells]
        taken: dict[str, list[float]] = {}
        for cell, records in zip(cells, done, strict=True):
            taken.setdefault(alike(cell), []).extend(float(r["seconds"]) for r in records[:1])
        known = [statistics.fmean(taken[alike(cell)]) for cell in cells if taken[alike(cell)]]
        total = sum(known) * len(cells) / len(known) if known else None
        return total, sum(bool(records) for records in done), len(cells)

    def holds(self, claim: Claim) -> bool | None:
        """Whether a claim holds here."""
        return claim.check(self)


def index(records: Sequence[Facts]) -> dict[str, list[Facts]]:
    """Finished cells by their facts but for the black box."""
    names = ("kind", "data", "scale", "method", "settings", "rows", "version", "encoder", "seed", "features", "fill")
    out: dict[str, list[Facts]] = {}
    for record in records:
        out.setdefault(fingerprint({name: record[name] for name in names if name in record}), []).append(record)
    return out


def bare(cell: Mapping[str, Any]) -> str:
    """The name of a cell whatever its black box."""
    return fingerprint({name: value for name, value in cell.items() if name != "box"})


def alike(cell: Mapping[str, Any]) -> str:
    """What cells have in common that take about as long: all but the seed and the settings."""
    return fingerprint({name: value for name, value in cell.items() if name not in ("box", "seed", "settings")})


def faithful_at(ks: Sequence[int], fewer: Sequence[int]) -> tuple[Column, ...]:
    """Faithfulness of images at each K of the paper, and at fewer."""
    own = [Column(f"K = {k} %", f"faithfulness@{k} zero", 100, "higher", f"faithfulness@{k}") for k in ks]
    return (*own, *(Column(f"K = {k} %", f"faithfulness@{k} zero", 100, "higher") for k in fewer))


def every(found: Sequence[bool | None]) -> bool | None:
    """All of them; None if one is not known and none is wrong."""
    return False if False in found else None if None in found or not found else True


def best(board: Board, data: str, row: str, others: Sequence[str], figure: str, better: str) -> bool | None:
    """Whether a row is at least as good as all others in one figure."""
    mine = board.mean(data, row, figure)
    theirs = [board.mean(data, other, figure) for other in others]
    if mine is None or any(value is None for value in theirs):
        return None
    sign = 1 if better == "higher" else -1
    return all(sign * mine >= sign * value - 1e-9 for value in theirs if value is not None)


def finite(value: float | None) -> bool:
    """Whether there is a number."""
    return value is not None and math.isfinite(value)


def of_seed(records: Sequence[Facts], seed: int) -> Facts | None:
    """The record of one seed."""
    return next((record for record in records if holds(record, {"seed": seed})), None)
