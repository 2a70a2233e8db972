"""Rows from CSV, JSON lines and Parquet files, one or several, that may be larger than memory."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadFile, extra
from aimwise.io.sources import Block, Source, unreadable

CSV_BLOCK = 4 << 20  # bytes; a row may not be longer than this
READ_ROWS = 4096
HEAD_ROWS = 1000
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
DELIMITERS = ",;\t|"
SHOWN = 60  # characters of a broken line in its reason


@dataclass(eq=False)
class FileSource(Source):
    """Rows of several files in sequence, with how far the files have been read."""

    paths: tuple[Path, ...] = ()
    stream: Any = None
    """Standard input, in place of files."""
    _done: int = field(default=0, init=False)
    _open: Any = field(default=None, init=False)

    def share(self) -> float | None:
        if self.stream is not None:
            return None
        size = sum(path.stat().st_size for path in self.paths)
        here = self._open.tell() if self._open is not None and not self._open.closed else 0
        return min((self._done + here) / size, 1.0) if size else None

    def _streams(self) -> Iterator[tuple[str, Any]]:
        """Each file's name and its bytes, unpacked where it is packed."""
        if self.stream is not None:
            yield self.called, self.stream
            return
        for path in self.paths:
            with open(path, "rb") as raw:
                self._open = raw
                opener = OPENERS.get(path.suffix.lower())
                yield str(path), opener(raw, "rb") if opener else raw
            self._done += path.stat().st_size


@dataclass(eq=False)
class CsvSource(FileSource):
    """Rows of CSV files; cells are read as bytes, so that one that is wrong spoils its own row alone."""

    delimiter: str | None = None
    _handed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.format, self.untyped = "csv", True
        self._rows = self._all()
        self._first = next(self._rows, None)

    def share(self) -> float | None:
        """By the cells handed out, since the file itself is read ahead."""
        if self.stream is not None or any(path.suffix.lower() in OPENERS for path in self.paths):
            return None
        size = sum(path.stat().st_size for path in self.paths)
        return min(self._handed / size, 1.0) if size else None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._first.frame.columns) if self._first is not None else ()

    def head(self) -> Any:
        if self._first is None:
            raise BadFile(f"{self.called} has no rows.")
        return self._first.frame.head(HEAD_ROWS)

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        first, self._first = self._first, None
        if first is not None:
            yield Block(first.numbers, first.frame[list(wanted)], first.stop)
        for block in self._rows:
            yield Block(block.numbers, block.frame[list(wanted)], block.stop)

    def _all(self) -> Iterator[Block]:
        """Every row with every column."""
        start, names = 0, None
        for name, stream in self._streams():
            reader = self._reader(name, stream, start)
            found = reader.schema.names
            if len(set(found)) < len(found):
                twice = next(one for one in found if found.count(one) > 1)
                raise BadFile(f"{name} has two columns named {twice!r}. Give every column a name of its own.")
            if names is not None and found != names:
                raise BadFile(f"{name} has the columns {', '.join(found)}, the files before it {', '.join(names)}.")
            names = found
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    break
                except Exception as e:
                    raise unreadable(name, e) from e
                numbers, start = self._numbered(batch.num_rows, start)
                yield self._decoded(batch, numbers, start)
            while start in self.broken:  # at the end of the file
                start += 1

    def _numbered(self, count: int, start: int) -> tuple[np.ndarray, int]:
        """Numbers for so many rows that could be read, leaving out those of rows between them that could not."""
        numbers = np.empty(count, dtype=np.int64)
        for i in range(count) if self.broken else ():
            while start in self.broken:
                start += 1
            numbers[i] = start
            start += 1
        if not self.broken:
            numbers[:] = np.arange(start, start + count)
            start += count
        return numbers, start

    def _reader(self, name: str, stream: Any, first: int) -> Any:
        pa, csv = extra("pyarrow", "table"), extra("pyarrow.csv", "table")
        head, stream = peeked(stream)
        header = head.split(b"\n", 1)[0].rstrip(b"\r")
        if not header.strip():
            raise BadFile(f"{name} has no line with the names of the columns.")
        delimiter = self.delimiter or max(DELIMITERS, key=lambda d: header.count(d.encode()))

        def skip(row: Any) -> str:
            text = row.text if len(row.text) <= SHOWN else row.text[:SHOWN] + "..."
            number = first + row.number - 2  # rows are counted from 1, the header among them
            self.broken[number] = f"{row.actual_columns} cells, wanted {row.expected_columns}: {text!r}"
            return "skip"

        parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)
        reading = csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK)
        names = column_names(header, delimiter)
        types = dict.fromkeys(names, pa.binary())
        try:
            return csv.open_csv(stream, reading, parsing, csv.ConvertOptions(column_types=types, check_utf8=False))
        except Exception as e:
            raise unreadable(name, e) from e

    def _decoded(self, batch: Any, numbers: np.ndarray, stop: int) -> Block:
        """Strings from bytes; rows with cells that are not UTF-8 are broken."""
        pa, compute = extra("pyarrow", "table"), extra("pyarrow.compute", "table")
        good, columns = np.ones(len(numbers), dtype=bool), {}
        self._handed += batch.num_rows * batch.num_columns
        self._handed += sum(compute.sum(compute.binary_length(column)).as_py() or 0 for column in batch.columns)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                columns[name] = column.cast(pa.string())
            except pa.ArrowInvalid:
                cells = [as_utf8(cell) for cell in column.to_pylist()]
                for i in np.flatnonzero([cell is None for cell in cells]):
                    good[i] = False
                    self.broken[int(numbers[i])] = f"column {name!r} is not UTF-8"
                columns[name] = pa.array([cell or "" for cell in cells], pa.string())
        frame = pa.table(columns).to_pandas()
        return Block(numbers[good], frame[good].reset_index(drop=True), stop)


@dataclass(eq=False)
class JsonSource(FileSource):
    """Rows of JSON lines: one object a line."""

    def __post_init__(self) -> None:
        self.format = "jsonl"
        self._lines = (line for _, stream in self._streams() for line in stream if line.strip())
        self._first = list(islice(self._lines, HEAD_ROWS))

    @property
    def columns(self) -> tuple[str, ...]:
        rows = [row for row in map(parsed, self._first) if isinstance(row, dict)]
        return tuple(dict.fromkeys(str(name) for row in rows for name in row))

    def head(self) -> Any:
        pd = extra("pandas", "table")
        rows = [row for row in map(parsed, self._first) if isinstance(row, dict)]
        if not rows:
            raise BadFile(f"{self.called} has no JSON objects in its first lines, wanted one a line.")
        return pd.DataFrame(rows)

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        pd = extra("pandas", "table")
        start, names = 0, list(wanted)
        lines, self._first = self._first, []
        while lines:
            rows, numbers = [], []
            for number, line in enumerate(lines, start):
                row = parsed(line)
                if isinstance(row, dict):
                    rows.append([row.get(name) for name in names])
                    numbers.append(number)
                else:
                    self.broken[number] = row if isinstance(row, str) else "not a JSON object"
            start += len(lines)
            frame = pd.DataFrame(rows, columns=names, dtype=object).infer_objects()
            yield Block(np.array(numbers, dtype=np.int64), frame, start)
            lines = list(islice(self._lines, READ_ROWS))


@dataclass(eq=False)
class ParquetSource(FileSource):
    """Rows of Parquet files."""

    def __post_init__(self) -> None:
        self.format = "parquet"
        pq = extra("pyarrow.parquet", "table")
        self._files = []
        for path in self.paths:
            try:
                self._files.append(pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20))
            except Exception as e:
                raise unreadable(path, e) from e

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._files[0].schema_arrow.names)

    @property
    def total(self) -> int:
        return sum(file.metadata.num_rows for file in self._files)

    def head(self) -> Any:
        batch = next(self._files[0].iter_batches(batch_size=HEAD_ROWS), None)
        if batch is None:
            raise BadFile(f"{self.called} has no rows.")
        return batch.to_pandas()

    def _blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        start = 0
        for path, file in zip(self.paths, self._files, strict=True):
            lacking = [name for name in wanted if name not in file.schema_arrow.names]
            if lacking:
                raise BadFile(f"{path} lacks the columns {', '.join(lacking)}, which the first file has.")
            try:
                for batch in file.iter_batches(batch_size=READ_ROWS, columns=list(wanted), use_threads=False):
                    stop = start + batch.num_rows
                    yield Block(np.arange(start, stop), batch.to_pandas()[list(wanted)], stop)
                    start = stop
            except OSError as e:
                raise unreadable(path, e) from e


def parsed(line: bytes) -> Any:
    """The object of a line, or the reason for which there is none."""
    try:
        return json.loads(line)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (json.JSONDecodeError, RecursionError) as e:
        return f"not JSON ({e})"


def as_utf8(cell: bytes | None) -> str | None:
    """A cell's text; None where it is none."""
    try:
        return (cell or b"").decode("utf-8")
    except UnicodeDecodeError:
        return None


def column_names(header: bytes, delimiter: str) -> list[str]:
    """The names in the first line of a CSV file."""
    import csv

    text = header.decode("utf-8", "replace").removeprefix("\ufeff")
    return next(csv.reader([text], delimiter=delimiter))


class Peeked:
    """A stream whose first bytes were looked at and are read again."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self.head, self.stream, self.closed = head, stream, False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if self.head:
            cut = len(self.head) if size is None or size < 0 else size
            found, self.head = self.head[:cut], self.head[cut:]
            return found
        read: bytes = self.stream.read(size)
        return read

    def readable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing: whoever opened the stream closes it."""


def peeked(stream: Any) -> tuple[bytes, Any]:
    """The first bytes of a stream, as many as a header may have, and a stream that has them still."""
    head = stream.read(1 << 16)
    return head, Peeked(head, stream)
