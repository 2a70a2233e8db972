"""Where rows come from: portions of so many, numbered from 0, with what is wrong with those that cannot be read."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadFile, UnknownName, extra

FILE = "file"
TEXT = "text"
FIRST_ROWS = 1000  # that tell what the columns are


@dataclass(frozen=True, eq=False)
class Block:
    """Rows as they come from a file: their numbers, their cells, and the number before which every row is now known."""

    numbers: np.ndarray
    frame: Any
    stop: int


@dataclass(frozen=True, eq=False)
class Portion:
    """So many rows in sequence: those that can be read, and the reasons for which others cannot.

    untyped: whether all cells are strings, since the format knows no types. root: where the files that rows name lie.
    """

    start: int
    stop: int
    numbers: np.ndarray
    frame: Any
    broken: dict[int, str]
    untyped: bool = False
    root: Path | None = None

    def pieces(self, size: int) -> Iterator[Portion]:
        """The same rows, so many numbers at a time."""
        for start in range(self.start, self.stop, size):
            stop = min(start + size, self.stop)
            first, last = np.searchsorted(self.numbers, [start, stop])
            rows = self.frame.iloc[first:last].reset_index(drop=True)
            broken = {n: why for n, why in self.broken.items() if start <= n < stop}
            yield replace(self, start=start, stop=stop, numbers=self.numbers[first:last], frame=rows, broken=broken)

    def digest(self) -> str:
        """What these rows are, so that they are known again."""
        pd = extra("pandas", "table")
        made = hashlib.sha256(repr((self.start, self.stop, sorted(self.broken))).encode())
        for name in self.frame.columns:
            column = self.frame[name]
            column = column.map(str) if column.dtype == object else column
            made.update(str(name).encode())
            made.update(np.asarray(pd.util.hash_pandas_object(column, index=False)).tobytes())
        return made.hexdigest()[:32]


@dataclass(eq=False)
class Source(ABC):
    """Rows of named columns from one place; it is read once, from its beginning to its end."""

    called: str
    """The place, for people."""
    broken: dict[int, str] = field(default_factory=dict, init=False)
    """Rows that cannot be read, by number; those ahead of what was handed out may be among them."""

    format: str = field(default="", init=False)
    untyped: bool = field(default=False, init=False)
    """Whether all cells are strings, since the format knows no types."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @abstractmethod
    def head(self) -> Any:
        """The first rows, as a frame, to see what the columns are."""

    @abstractmethod
    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """All rows with these columns, in blocks of any size."""

    @property
    def total(self) -> int | None:
        """How many rows there are, where that is known beforehand."""
        return None

    def place(self) -> Path | None:
        """Where the files that rows name lie, where they name files."""
        return None

    def share(self) -> float | None:
        """How much of the place has been read, where that is known."""
        return None

    def require(self, names: Sequence[str]) -> None:
        """Refuse columns that are not there, before any work."""
        if names and not self.columns:
            raise BadFile(f"{self.called} has no rows.")
        for name in names:
            if name not in self.columns:
                raise UnknownName(
                    f"{self.called} has no column {name!r}; it has {', '.join(map(repr, self.columns[:30]))}"
                    f"{', ...' * (len(self.columns) > 30)}."
                )

    def portions(self, wanted: Sequence[str], size: int) -> Iterator[Portion]:
        """All rows, `size` numbers at a time, the last portion with what is left: the same cuts whenever it is read."""
        self.require(wanted)
        kept: list[Block] = []
        start = 0
        for block in self._blocks(wanted):
            kept.append(block)
            while kept[-1].stop - start >= size:
                portion, kept = self._cut(kept, start, start + size)
                yield portion
                start += size
        stop = max(kept[-1].stop if kept else start, max(self.broken, default=-1) + 1)
        while start < stop:  # rows at the very end may all be broken
            end = min(start + size, stop)
            portion, kept = self._cut(kept, start, end)
            yield portion
            start = end

    def _cut(self, kept: list[Block], start: int, stop: int) -> tuple[Portion, list[Block]]:
        """The rows before a number, and the blocks that hold the others."""
        pd = extra("pandas", "table")
        numbers = np.concatenate([block.numbers for block in kept]) if kept else np.zeros(0, dtype=np.int64)
        frames = [block.frame for block in kept]
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        at = int(np.searchsorted(numbers, stop))
        broken = {n: why for n, why in self.broken.items() if start <= n < stop}
        for n in broken:
            del self.broken[n]
        rows = frame.iloc[:at].reset_index(drop=True)
        portion = Portion(start, stop, numbers[:at], rows, broken, self.untyped, self.place())
        rest = [Block(numbers[at:], frame.iloc[at:].reset_index(drop=True), kept[-1].stop)] if kept else []
        return portion, rest


@dataclass(eq=False)
class FrameSource(Source):
    """Rows of a frame in memory."""

    frame: Any = None

    def __post_init__(self) -> None:
        self.format = "frame"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    @property
    def total(self) -> int:
        return len(self.frame)

    def head(self) -> Any:
        return self.frame.head(FIRST_ROWS)

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        yield Block(np.arange(len(self.frame)), self.frame[list(wanted)].reset_index(drop=True), len(self.frame))


def unreadable(path: Any, error: Exception) -> BadFile:
    """The error for a file that cannot be read, in one line."""
    said = " ".join(str(error).split())[:300]
    return BadFile(f"{path} cannot be read ({type(error).__name__}: {said}).")
