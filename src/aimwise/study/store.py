"""Where finished cells are kept: a folder with a file for each, or one file for a small study."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
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
    def has(self, cell: Mapping[str, Any]) -> bool:
        """Whether a cell is finished."""

    @abstractmethod
    def put(self, cell: Facts, made: Facts, result: Facts) -> None:
        """Keep what was found, whole or not at all."""

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
        found = []
        for file in sorted((self.path / "cells").glob("*.json")):
            said = read_json(file)
            if not isinstance(said, dict) or not all(isinstance(said.get(part), dict) for part in ("cell", "made", "result")):
                raise BadFile(f"{file} is not a cell of a study: wanted cell, made and result. Remove it; it is run again then.")
            found.append({**said["cell"], **said["made"], **said["result"]})
        return found

    def has(self, cell: Mapping[str, Any]) -> bool:
        return self.file(cell).is_file()

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

    def has(self, cell: Mapping[str, Any]) -> bool:
        return any(holds(record, cell) for record in self.records())

    def put(self, cell: Facts, made: Facts, result: Facts) -> None:
        self.change({}, [{**cell, **made, **result}])

    def note(self, facts: Facts) -> None:
        """Keep facts about all cells."""
        self.change(facts, [])

    def change(self, facts: Facts, more: list[Facts]) -> None:
        """Add to the file; of several processes one after the other does."""
        while True:
            with claim(self.locks, "file") as mine:
                if mine:
                    said = self.said()
                    cells = [*said.pop("cells", []), *more]
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
