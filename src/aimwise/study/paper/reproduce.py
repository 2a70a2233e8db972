"""Run the tables of the paper: which cells are missing, with which black boxes, and where the results lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aimwise.study.cells import Facts
from aimwise.study.paper.base import Board, Table
from aimwise.study.paper.boxes import weights
from aimwise.study.paper.methods import Scale
from aimwise.study.run import Done, Say, Study
from aimwise.study.store import Folder

WORK = "aimwise.study.paper.work:cell"


@dataclass(frozen=True)
class Reproduction:
    """The results folder of one scale: cells serve every table that they fit, and are run once."""

    results: Path
    scale: Scale

    @property
    def store(self) -> Folder:
        """Where the cells lie."""
        return Folder(self.results / ("paper-quick" if self.scale.quick else "paper"))

    def board(self, table: Table, records: Sequence[Facts] | None = None) -> Board:
        """A table with what is known of its cells."""
        return Board(table, self.scale, self.store.records() if records is None else records)

    def run(
        self, table: Table, *, command: str, jobs: int, engine: str, say: Say, data: Sequence[str] | None = None
    ) -> list[Done]:
        """Run the missing cells of a table, on all its data sets or on those named; missing black boxes are trained first."""
        cells = [cell for cell in table.cells(self.scale) if data is None or cell["data"] in data]
        boxes = {name: weights(name, self.scale.name) for name in dict.fromkeys(cell["data"] for cell in cells)}
        wanted = [{**cell, "box": boxes[cell["data"]]} for cell in cells]
        study = Study(self.store, WORK, command)
        missing = sum(not self.store.has(cell) for cell in wanted)
        say(f"{table.name}: {len(wanted)} cells, {missing} to run, {jobs} at a time")
        return study.run(wanted, jobs=jobs, engine=engine, say=say)
