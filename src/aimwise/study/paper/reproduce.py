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

    def study(self, command: str) -> Study:
        """The study that all tables are tables of."""
        return Study(self.store, WORK, command)

    def cells(self, tables: Sequence[Table], *, say: Say = lambda text: None, data: Sequence[str] | None = None) -> list[Facts]:
        """The cells of tables, on all their data sets or on those named; missing black boxes are trained first.

        First seeds come first, so that what is stopped has every row, and of those one data set after the other, so that a
        process loads few.
        """
        asked = {one.name: [c for c in one.cells(self.scale) if data is None or c["data"] in data] for one in tables}
        names = list(dict.fromkeys(cell["data"] for cells in asked.values() for cell in cells))
        boxes = {name: weights(name, self.scale.name) for name in names}
        wanted = []
        for table, cells in asked.items():
            mine = [{**cell, "box": boxes[cell["data"]]} for cell in cells]
            missing = sum(not self.store.has(cell) for cell in mine)
            say(f"{table}: {len(mine)} cells, {missing} to run")
            wanted += mine
        return sorted(wanted, key=lambda cell: (cell["seed"], names.index(cell["data"])))

    def run(
        self,
        tables: Sequence[Table],
        *,
        command: str,
        jobs: int = 1,
        engine: str = "loky",
        say: Say = lambda text: None,
        data: Sequence[str] | None = None,
        minutes: float | None = None,
    ) -> list[Done]:
        """Run the missing cells of tables together, so that none waits for another's last one."""
        wanted = self.cells(tables, say=say, data=data)
        return self.study(command).run(wanted, jobs=jobs, engine=engine, say=say, minutes=minutes)
