"""Where finished cells are kept: a folder with a file for each, or one file for a small study."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aimwise.errors import BadFile
from aimwise.files import read_json, write_text
from aimwise.study.cells import Facts, fingerprint, holds
from aimwise.study.locks import claim

PAUSE = 0.02


@dataclass(frozen=True)
class Store(ABC):
    """Finished cells, each a flat record: the facts that it was asked by, what made it, and what was found."""

    path: Path

    @property
    @abstractmethod
    def locks(self) -> Path:
        """The folder of the files that say who runs a cell."""

    @abstractmethod
    def records(self) -> list[Facts]:
        """All finished cells."""

    @abstractmethod
    def get(self, cell: Mapping[str, Any]) -> Facts | None:
        """A finished cell, if it is one."""

    def has(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell is finished."""
        return self.get(cell) is not None

    @abstractmethod
    def put(self, cell: Facts, made: Facts, result: Facts) -> None:
        """Keep what was found, whole or not at all, in the place of what was found before."""

    def find(self, facts: Mapping[str, Any]) -> list[Facts]:
        """The finished cells of which these facts are true."""
        return [record for record in self.records() if holds(record, facts)]


@dataclass(frozen=True)
class Folder(Store):
    """`cells/HASH.json` for every cell."""

    @property
    def locks(self) -> Path:
        return self.path / "running"

    def file(self, cell: Mapping[str, Any]) -> Path:
        """The file of a cell."""
        return self.path / "cells" / f"{fingerprint(cell)}.json"

    def records(self) -> list[Facts]:
        return [self._read(file) for file in sorted((self.path / "cells").glob("*.json"))]

    def get(self, cell: Mapping[str, Any]) -> Facts | None:
        file = self.file(cell)
        return self._read(file) if file.is_file() else None

    def _read(self, file: Path) -> Facts:
        said = read_json(file)
        if not isinstance(said, dict) or not all(isinstance(said.get(part), dict) for part in ("cell", "made", "result")):
            raise BadFile(f"{file} is not a cell of a study: wanted cell, made and result. Remove it; it is run again then.")
        return {**said["cell"], **said["made"], **said["result"]}

    def put(self, cell: Facts, made: Facts, result: Facts) -> None:
        said = {"cell": cell, "made": made, "result": result}
        write_text(self.file(cell), json.dumps(said, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@dataclass(frozen=True)
class OneFile(Store):
    """All cells in one JSON file, `{..., "cells": [...]}`, with facts about all of them before."""

    @property
    def locks(self) -> Path:
        return self.path.parent / f".{self.path.name}.running"

    def said(self) -> Facts:
        """The whole file."""
        return dict(read_json(self.path)) if self.path.exists() else {}

    def records(self) -> list[Facts]:
        return list(self.said().get("cells", []))

    def get(self, cell: Mapping[str, Any]) -> Facts | None:
        return next((record for record in self.records() if holds(record, cell)), None)

    def put(self, cell: Facts, made: Facts, result: Facts) -> None:
        self._change({}, lambda cells: [*(old for old in cells if not holds(old, cell)), {**cell, **made, **result}])

    def note(self, facts: Facts) -> None:
        """Keep facts about all cells."""
        self._change(facts, lambda cells: cells)

    def _change(self, facts: Facts, change: Callable[[list[Facts]], list[Facts]]) -> None:
        """Write the file anew; of several processes one after the other does."""
        while True:
            with claim(self.locks, "file") as mine:
                if mine:
                    said = self.said()
                    cells = change(said.pop("cells", []))
                    write_text(self.path, json.dumps({**said, **facts, "cells": cells}, indent=1) + "\n")
                    break
            time.sleep(PAUSE)
        tidy(self.locks)


def tidy(folder: Path) -> None:
    """Remove a folder of locks if none is left in it."""
    try:
        folder.rmdir()
    except OSError:
        return
