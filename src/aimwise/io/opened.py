"""What a place holds, told by its name: files of tables, text files, images, or standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any

from aimwise.errors import BadFile, BadSetting
from aimwise.io.loose import FilesSource, LineSource
from aimwise.io.parts import REMOTE
from aimwise.io.sources import Source
from aimwise.io.tables import CsvSource, JsonSource, ParquetSource

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "texts",
    ".text": "texts",
    ".md": "texts",
    ".png": "images",
    ".jpg": "images",
    ".jpeg": "images",
    ".bmp": "images",
    ".gif": "images",
    ".webp": "images",
    ".tif": "images",
    ".tiff": "images",
}
PACKED = (".gz", ".bz2")
FORMATS = ("csv", "jsonl", "parquet", "lines", "texts", "images")
STANDARD_INPUT = "-"


def opened(places: Sequence[str], *, format: str | None = None, delimiter: str | None = None) -> Source:
    """The rows of files, of folders of files, or of standard input ("-").

    format: one of `FORMATS`, where the names do not tell; "lines" takes every line of a text file as a text of its own.
    """
    if format is not None and format not in FORMATS:
        raise BadSetting(f"format={format!r}, wanted one of {', '.join(FORMATS)}.")
    if list(places) == [STANDARD_INPUT]:
        return standard_input(format, delimiter)
    if STANDARD_INPUT in places:
        raise BadSetting("Standard input (-) is read alone. Leave the other files out.")
    called = places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
    root = Path(places[0]) if len(places) == 1 and Path(places[0]).is_dir() else None
    paths = [path for place in places for path in files_of(Path(place))]
    if format is None:
        kinds = {kind_of(path) for path in paths}
        if len(kinds) > 1:
            raise BadFile(f"{called} holds files of several kinds ({', '.join(sorted(kinds))}). Pass those of one kind.")
        format = kinds.pop()
    found = tuple(paths)
    if format in ("texts", "images"):
        return FilesSource(called, paths=found, root=root, images=format == "images")
    if format == "csv":
        tabbed = paths[0].name.removesuffix(".gz").removesuffix(".bz2").endswith(".tsv")
        return CsvSource(called, paths=found, delimiter=delimiter or ("\t" if tabbed else None))
    kinds_of_source: dict[str, Any] = {"jsonl": JsonSource, "parquet": ParquetSource, "lines": LineSource}
    source: Source = kinds_of_source[format](called, paths=found)
    return source


def files_of(place: Path) -> list[Path]:
    """The files of a folder that can be read, or of a pattern, in the order of their names; or the one file."""
    if REMOTE.match(str(place)):
        raise BadFile(
            f"{place} is no path of this machine. Mount it, or read it by Ray: ray.data.read_parquet(...).map_batches("
            "aimwise.scale.Explain(...))."
        )
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.is_file() and not hidden(path, place))
        known = [path for path in found if suffix_of(path) in SUFFIXES]
        if not known:
            raise BadFile(f"The folder {place} holds no files that can be read: {', '.join(SUFFIXES)}.")
        return known
    if not place.exists() and any(mark in str(place) for mark in "*?["):
        found = sorted(Path(name) for name in glob(str(place), recursive=True) if Path(name).is_file())
        if found:
            return found
    if not place.exists():
        raise BadFile(f"There is no file or folder {place}.")
    return [place]


def hidden(path: Path, root: Path) -> bool:
    """Whether a file or a folder above it, inside the root, has a name that begins with a dot or an underscore."""
    return any(part.startswith((".", "_")) for part in path.relative_to(root).parts)


def suffix_of(path: Path) -> str:
    """What a file's name ends in, without the ending of a packed file."""
    name = path.name.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def kind_of(path: Path) -> str:
    """The format that a file's name tells."""
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise BadFile(f"Cannot tell what {path} is from its name. Say it: --format {' | '.join(FORMATS)}.")
    return SUFFIXES[suffix]


def standard_input(format: str | None, delimiter: str | None) -> Source:
    """What is piped in: JSON lines if it begins with an object, else one text a line, or CSV if that is said."""
    stream = sys.stdin.buffer
    if stream.isatty():
        raise BadSetting("--data - reads standard input, and nothing is piped in. Pipe texts or JSON lines, or name a file.")
    if format in ("parquet", "texts", "images"):
        raise BadSetting(f"Standard input is read as jsonl, lines or csv, got --format {format}.")
    if format is None:
        peek = stream.peek(1) if isinstance(stream, io.BufferedReader) else b""
        format = "jsonl" if peek.lstrip()[:1] == b"{" else "lines"
    if format == "csv":
        return CsvSource("standard input", stream=stream, delimiter=delimiter)
    return (JsonSource if format == "jsonl" else LineSource)("standard input", stream=stream)
