"""Results that are written part by part beside the wanted file, and become that file in one step when all are there."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from aimwise.errors import BadFile, BadSetting, extra
from aimwise.files import is_empty_folder, read_json, write_folder, write_json, write_text, write_whole

STATE = "state.json"
ABOUT = "_about.json"  # readers of folders pass over names that begin so
REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
NAME, VERSION = "aimwise-parts", 1
GROUP = 1 << 17  # rows of a row group, at least, where parts are small
SUFFIXES = (".parquet", ".csv", ".jsonl")


class Parts:
    """The parts of one result. A part is there when its facts are, which are written last."""

    def __init__(self, out: Path, options: Mapping[str, Any], *, restart: bool = False) -> None:
        self.out, self.folder = out, out.with_name(out.name + ".parts")
        self.options = json.loads(json.dumps(options))
        if restart or not self._file(0, "json").is_file():  # nothing is lost
            shutil.rmtree(self.folder, ignore_errors=True)
        if (self.folder / STATE).is_file():
            self._same(read_json(self.folder / STATE))
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            state = {"format": NAME, "version": VERSION, "options": self.options}
            write_whole(self.folder / STATE, lambda p: write_json(p, state))
        self.facts: list[dict[str, Any]] = []
        while (path := self._file(len(self.facts), "json")).is_file():
            self.facts.append(read_json(path))

    def _same(self, state: Any) -> None:
        """Refuse to go on with what was begun from other inputs or with other options."""
        if not isinstance(state, dict) or state.get("format") != NAME or state.get("version") != VERSION:
            raise BadFile(f"{self.folder} was not written by this command. Remove it, or choose another --out.")
        before = state["options"]
        other = sorted(k for k in {*before, *self.options} if before.get(k) != self.options.get(k))
        if other:
            raise BadFile(
                f"{self.folder} holds an unfinished run with another {', '.join(other)}. Finish that one by its own "
                "command, or pass --restart to throw it away."
            )

    def _file(self, index: int, kind: str) -> Path:
        return part_file(self.folder, index, kind)

    def add(self, facts: Mapping[str, Any]) -> None:
        """Take the next part, whose rows `write_part` has written, by writing its facts."""
        index = len(self.facts)
        if facts["explained"] and not self._file(index, "parquet").is_file():
            raise BadFile(
                f"{self._file(index, 'parquet')} was written by a worker and is not here. Write to a folder that is mounted "
                "under the same name on all machines of the cluster."
            )
        plain = json.loads(json.dumps(facts))
        write_whole(self._file(index, "json"), lambda p: write_json(p, plain))
        self.facts.append(plain)

    def pages(self) -> Iterator[str]:
        """What the page shows, part by part."""
        for index in range(len(self.facts)):
            path = self._file(index, "page")
            if path.is_file():
                yield path.read_text(encoding="utf-8")

    def tables(self, group: int = GROUP) -> Iterator[Any]:
        """The rows of all parts in their order, in tables of at least so many rows."""
        pq = extra("pyarrow.parquet", "table")
        paths = (self._file(index, "parquet") for index in range(len(self.facts)))
        return grouped((pq.read_table(path, memory_map=False) for path in paths if path.is_file()), group)

    def join(self, about: Mapping[str, Any]) -> int:
        """Make the wanted file, or folder of files, of all parts, whole or not at all; returns its number of rows.

        about: what a folder says of itself.
        """
        if is_folder(self.out):
            write_folder(self.out, lambda folder: self._gather(folder, about), ABOUT)
            return sum(facts["lines"] for facts in self.facts)
        count = 0

        def write(beside: Path) -> None:
            nonlocal count
            with writer(self.out, beside) as put:
                for table in self.tables():
                    put(table)
                    count += table.num_rows

        write_whole(self.out, write)
        return count

    def _gather(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Give every part a second name in a folder: nothing is copied, and nothing is lost if this is cut off."""
        write_json(folder / ABOUT, {"format": NAME, "version": VERSION, **about})
        for index in range(len(self.facts)):
            path = self._file(index, "parquet")
            if path.is_file():
                try:
                    os.link(path, folder / f"part-{path.name}")
                except OSError:  # not every file system has second names
                    shutil.copyfile(path, folder / f"part-{path.name}")

    def remove(self) -> None:
        """Throw the parts away."""
        shutil.rmtree(self.folder, ignore_errors=True)


def part_file(folder: Path, index: int, kind: str) -> Path:
    """Where a part, or what belongs to it, is written."""
    return folder / f"{index:06d}.{kind}"


def write_part(folder: Path, index: int, tables: Iterator[Any]) -> int:
    """Write the rows of a part, whole or not at all, table by table; returns how many there are."""
    path, lines = part_file(folder, index, "parquet"), 0
    first = next(tables, None)
    if first is None:
        path.unlink(missing_ok=True)
        return 0

    def write(beside: Path) -> None:
        nonlocal lines
        with writer(path, beside) as put:
            for table in grouped(chain([first], tables)):
                put(table)
                lines += table.num_rows

    write_whole(path, write)
    return lines


def write_page(folder: Path, index: int, page: str) -> None:
    """Write what the page shows of a part."""
    write_text(part_file(folder, index, "page"), page)


def grouped(tables: Iterable[Any], group: int = GROUP) -> Iterator[Any]:
    """The same rows in tables of at least so many."""
    pa = extra("pyarrow", "table")
    kept: list[Any] = []
    for table in tables:
        kept.append(table)
        if sum(each.num_rows for each in kept) >= group:
            yield pa.concat_tables(kept).combine_chunks()
            kept = []
    if kept:
        yield pa.concat_tables(kept).combine_chunks()


class writer:  # noqa: N801
    """A file that tables are put into one after the other, in the format that its name tells."""

    def __init__(self, out: Path, beside: Path) -> None:
        self.suffix, self.path = out.suffix.lower(), beside
        self.sink: Any = None

    def __enter__(self) -> writer:
        return self

    def __call__(self, table: Any) -> None:
        """Put the rows of a table."""
        if self.sink is None:
            self.sink = self._opened(table.schema)
        if self.suffix == ".jsonl":
            for row in table.to_pylist():
                self.sink.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            self.sink.write_table(table)

    def _opened(self, schema: Any) -> Any:
        if self.suffix == ".jsonl":
            return open(self.path, "w", encoding="utf-8")
        if self.suffix == ".csv":
            return extra("pyarrow.csv", "table").CSVWriter(self.path, schema)
        return extra("pyarrow.parquet", "table").ParquetWriter(self.path, schema, compression="zstd")

    def __exit__(self, *error: object) -> None:
        if self.sink is not None:
            self.sink.close()


def is_folder(out: Path) -> bool:
    """Whether a result is a folder of files, as a name without an ending says."""
    return not out.suffix


def check_out(out: Path, *, wide: bool = False) -> None:
    """Refuse a place that cannot be written to, before any work."""
    if REMOTE.match(str(out)):
        raise BadSetting(f"Got --out {out}, which is no path of this machine. Mount it, and name the place where it is mounted.")
    if is_folder(out):
        if out.exists() and not (out / ABOUT).is_file() and not is_empty_folder(out):
            raise BadFile(f"{out} exists and was not written by this command. Choose another name or remove it first.")
        check_folder(out)
        return
    if out.suffix.lower() not in SUFFIXES:
        raise BadSetting(
            f"Got --out {out}, wanted a name that ends in {', '.join(SUFFIXES)}, or a folder's name without an ending."
        )
    if wide and out.suffix.lower() == ".csv":
        raise BadSetting("CSV has no arrays, which --wide writes. Write .parquet or .jsonl, or leave --wide out.")
    if out.is_dir():
        raise BadFile(f"{out} is a folder, wanted the name of a file.")
    check_folder(out)


def check_folder(path: Path) -> None:
    """Refuse a file or folder that cannot be made, naming what is in its way."""
    near = path.absolute().parent
    while not near.exists() and near != near.parent:
        near = near.parent
    if not near.is_dir():
        raise BadFile(f"{path} cannot be written: {near} is a file. Choose another place.")
    if not os.access(near, os.W_OK | os.X_OK):
        raise BadFile(f"{path} cannot be written: {near} does not allow it. Choose another place, or change its permissions.")
