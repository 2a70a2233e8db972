"""Explanations read back from a file that `aimwise explain` wrote, row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimwise.errors import BadFile, UnknownName, extra
from aimwise.explanation import Explanation
from aimwise.io.inputs import cell_of
from aimwise.io.written import META, NAME, VERSION, WEIGHTS

OTHERS = "(all others)"
FEWEST = 5  # rows shown where none is named


@dataclass(frozen=True, eq=False)
class Shown:
    """One row of a file: its number, its keys and its explanation."""

    row: int
    keys: dict[str, Any]
    explanation: Explanation


def about_file(path: Path) -> dict[str, Any]:
    """What a file says of itself."""
    if not path.is_file():
        raise BadFile(f"There is no file {path}. Pass a Parquet file that `aimwise explain` wrote.")
    pa, pq = extra("pyarrow", "table"), extra("pyarrow.parquet", "table")
    try:
        meta = pq.read_schema(path).metadata or {}
        about = json.loads(meta.get(META, b"null"))
    except (pa.ArrowInvalid, OSError, ValueError) as e:
        raise BadFile(f"{path} is not a Parquet file. Pass one that `aimwise explain` wrote with --out NAME.parquet.") from e
    if not isinstance(about, dict) or about.get("format") != NAME or about.get("version") != VERSION:
        raise BadFile(f"{path} was not written by `aimwise explain`, or by another version of it.")
    return about


def shown_rows(path: Path, rows: Sequence[int] | None) -> list[Shown]:
    """The rows of these numbers, or the first few, of a file or a folder of files."""
    first = min(path.glob("part-*.parquet"), default=path) if path.is_dir() else path
    about, pq = about_file(first), extra("pyarrow.parquet", "table")
    if rows is None:
        rows = first_rows(pq.ParquetFile(first))
    table = pq.read_table(path, filters=[("row", "in", list(rows))])
    found = set(table["row"].to_pylist())
    for row in rows:
        if row not in found:
            raise UnknownName(f"{path} has no row {row}: there are fewer rows, or it failed (see {path.name}.failed.jsonl).")
    frame = table.to_pandas()
    rebuilt = wide_row if about["wide"] else tidy_row
    return [rebuilt(frame[frame["row"] == row], row, about) for row in dict.fromkeys(rows)]


def first_rows(file: Any) -> list[int]:
    """The numbers of the first few rows."""
    found: dict[int, None] = {}
    for batch in file.iter_batches(columns=["row"]):
        found |= dict.fromkeys(batch["row"].unique().to_pylist())
        if len(found) >= FEWEST:
            break
    return list(found)[:FEWEST]


def tidy_row(lines: Any, row: int, about: Mapping[str, Any]) -> Shown:
    """An explanation from one line for every feature and class."""
    classes = [str(c) for c in about["classes"]]
    known = lines["class"].unique().tolist()
    probs = lines.groupby("class")["class_probability"].first()
    if set(known) < set(classes):  # a method of one class: what is known of the others is their share
        classes = [known[0], OTHERS]
        chances = [float(probs.iloc[0]), 1 - float(probs.iloc[0])]
    else:
        chances = [float(probs[c]) for c in classes]
    places = lines["place"].unique()
    places.sort()
    weights = np.zeros((len(places), len(classes)), dtype=np.float32)
    weights[np.searchsorted(places, lines["place"]), [classes.index(c) for c in lines["class"]]] = lines["weight"]
    return shown(lines.drop_duplicates("place").sort_values("place"), row, weights, classes, chances, about)


def wide_row(lines: Any, row: int, about: Mapping[str, Any]) -> Shown:
    """An explanation from one line with arrays."""
    pd = extra("pandas", "table")
    line, classes = lines.iloc[0], [str(c) for c in about["classes"]]
    weights = np.stack([np.asarray(line[WEIGHTS + c], dtype=np.float32) for c in classes], 1)
    columns = {name: list(line[name]) for name in ("feature", "value", "place", "start", "end") if name in lines}
    frame = pd.DataFrame(columns | {name: line[name] for name in about["keys"]})
    return shown(frame, row, weights, classes, [float(p) for p in line["probabilities"]], about)


def shown(
    features: Any, row: int, weights: np.ndarray, classes: Sequence[str], chances: Sequence[float], about: Mapping[str, Any]
) -> Shown:
    """The record of one row from its features in their order."""
    d, words = len(features), about["names"] is None
    values = np.empty((1, d), dtype=object)
    values[0] = [str(v) for v in features["feature"]] if words else [number_in(v) for v in features["value"]]
    text, spans = passage(features) if "start" in features else (None, None)
    probs = torch.tensor([list(chances)], dtype=torch.float32)
    made = Explanation(
        weights=torch.from_numpy(weights)[None],
        probs=probs,
        base=torch.zeros(len(classes)),
        present=torch.ones(1, d, dtype=torch.bool),
        names=None if words else tuple(map(str, features["feature"])),
        values=values,
        classes=tuple(classes),
        method=str(about["method"]),
        spans=spans,
        sources=None if text is None else (text,),
    )
    return Shown(row, {name: cell_of(features[name].iloc[0]) for name in about["keys"]} if d else {}, made)


def number_in(value: Any) -> Any:
    """A cell that was written as text, as the number that it is."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def passage(features: Any) -> tuple[str, np.ndarray]:
    """The text as far as its words are in the file, with dots where others stood, and where they stand in it."""
    text, spans, end = "", [], 0
    for word, start, stop in zip(features["feature"], features["start"], features["end"], strict=True):
        gap = int(start) - end
        text += "" if gap == 0 else " " if gap == 1 else " … "
        spans.append((len(text), len(text) + len(word)))
        text, end = text + word, int(stop)
    return text, np.array([spans], dtype=np.int64).reshape(1, len(spans), 2)
