"""Rows that are no table: lines, text files, and images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import extra
from aimwise.io.sources import FILE, TEXT, Block, Source
from aimwise.io.tables import READ_ROWS, FileSource

FOLDER = "folder"
SIZE, TIME = "bytes", "time"
FILES_AT_ONCE = 256


@dataclass(eq=False)
class LineSource(FileSource):
    """Every line that is not blank is a text."""

    def __post_init__(self) -> None:
        self.format = "lines"
        self._lines = (line for _, stream in self._streams() for line in stream if line.strip())
        self._first = list(islice(self._lines, READ_ROWS))

    @property
    def columns(self) -> tuple[str, ...]:
        return (TEXT,)

    def head(self) -> Any:
        pd = extra("pandas", "table")
        return pd.DataFrame({TEXT: [line.decode("utf-8", "replace").strip() for line in self._first]})

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        pd = extra("pandas", "table")
        start, lines = 0, self._first
        self._first = []
        while lines:
            texts, numbers = [], []
            for number, line in enumerate(lines, start):
                try:
                    texts.append(line.decode("utf-8").rstrip("\r\n"))
                    numbers.append(number)
                except UnicodeDecodeError:
                    self.broken[number] = "not UTF-8"
            start += len(lines)
            frame = pd.DataFrame({TEXT: pd.Series(texts, dtype=object)})
            yield Block(np.array(numbers, dtype=np.int64), frame[list(wanted)], start)
            lines = list(islice(self._lines, READ_ROWS))


@dataclass(eq=False)
class FilesSource(Source):
    """Each file is one row, known by its path; texts are read here, images when they are needed."""

    paths: tuple[Path, ...] = ()
    root: Path | None = None
    images: bool = False

    def __post_init__(self) -> None:
        self.format = "images" if self.images else "texts"
        self._foldered = self.root is not None and all(len(path.relative_to(self.root).parts) > 1 for path in self.paths)

    @property
    def columns(self) -> tuple[str, ...]:
        own = (FILE, SIZE, TIME) if self.images else (FILE, TEXT)
        return (*own, FOLDER) if self._foldered else own

    @property
    def total(self) -> int:
        return len(self.paths)

    def place(self) -> Path | None:
        return self.root

    def head(self) -> Any:
        return next(self._read(self.columns, self.paths[:10], 0), None)

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        for start in range(0, len(self.paths), FILES_AT_ONCE):
            some = self.paths[start : start + FILES_AT_ONCE]
            for frame, numbers in self._rows(wanted, some, start):
                yield Block(numbers, frame, start + len(some))

    def _read(self, wanted: Sequence[str], paths: Sequence[Path], start: int) -> Iterator[Any]:
        yield from (frame for frame, _ in self._rows(wanted, paths, start))

    def _rows(self, wanted: Sequence[str], paths: Sequence[Path], start: int) -> Iterator[tuple[Any, np.ndarray]]:
        pd = extra("pandas", "table")
        rows, numbers = [], []
        for number, path in enumerate(paths, start):
            try:
                rows.append(self._row(path))
                numbers.append(number)
            except UnicodeDecodeError:
                self.broken[number] = f"{path} is not UTF-8"
            except OSError as e:
                self.broken[number] = f"{path} cannot be read ({e.strerror or e})"
        yield pd.DataFrame(rows, columns=list(self.columns))[list(wanted)], np.array(numbers, dtype=np.int64)

    def _row(self, path: Path) -> dict[str, Any]:
        shown = path if self.root is None else path.relative_to(self.root)
        row: dict[str, Any] = {FILE: shown.as_posix()}
        if self._foldered and self.root is not None:
            row[FOLDER] = shown.parts[0]
        if not self.images:
            return row | {TEXT: path.read_text(encoding="utf-8")}
        about = path.stat()
        return row | {SIZE: about.st_size, TIME: about.st_mtime_ns}
