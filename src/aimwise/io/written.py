"""Explanations as rows of a file: one for every input, feature and class, or one for every input with arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aimwise.errors import extra
from aimwise.explanation import Explanation
from aimwise.records import json_value

META = b"aimwise"
NAME, VERSION = "aimwise-weights", 1
WEIGHTS = "weights."
KEY_TYPES = {"b": "bool", "i": "int64", "u": "int64", "f": "float64"}


@dataclass(frozen=True)
class Layout:
    """What the rows of a file are: the same for all its parts.

    keys: the type of each key column. numbers: whether all values are numbers. wide: one row for every input. top: only the
    features of so many first ranks. spans: whether features have places in a text.
    """

    keys: Mapping[str, str]
    classes: tuple[str, ...]
    method: str
    base: tuple[float, ...]
    names: tuple[str, ...] | None
    numbers: bool
    spans: bool
    wide: bool = False
    top: int | None = None

    def schema(self) -> Any:
        """The columns and what the file says of itself."""
        pa = extra("pyarrow", "table")
        value = pa.float64() if self.numbers else pa.string()
        fields = [("row", pa.int64())]
        fields += [(name, getattr(pa, "bool_" if kind == "bool" else kind)()) for name, kind in self.keys.items()]
        fields += [("prediction", pa.string()), ("probability", pa.float32())]
        places = [("start", pa.int32()), ("end", pa.int32())] if self.spans else []
        if self.wide:
            fields += [("probabilities", pa.list_(pa.float32())), ("feature", pa.list_(pa.string())), ("value", pa.list_(value))]
            fields += [("place", pa.list_(pa.int32())), *((name, pa.list_(kind)) for name, kind in places)]
            fields += [(WEIGHTS + name, pa.list_(pa.float32())) for name in self.classes]
        else:
            fields += [("feature", pa.string()), ("value", value), ("place", pa.int32()), *places]
            fields += [
                ("class", pa.string()),
                ("class_probability", pa.float32()),
                ("weight", pa.float32()),
                ("rank", pa.int32()),
            ]
        about = {
            "format": NAME,
            "version": VERSION,
            "method": self.method,
            "classes": list(self.classes),
            "base": list(self.base),
            "names": None if self.names is None else list(self.names),
            "keys": list(self.keys),
            "wide": self.wide,
            "top": self.top,
        }
        return pa.schema(fields, metadata={META: json.dumps(about).encode()})


def as_table(explanation: Explanation, layout: Layout, numbers: np.ndarray, keys: Mapping[str, Sequence[Any]]) -> Any:
    """The rows of some inputs whose numbers and keys are given."""
    return (wide if layout.wide else tidy)(explanation, layout, numbers, keys)


def ranks(explanation: Explanation) -> np.ndarray:
    """The rank of every feature for every class, from 1: (B, d, C)."""
    found: np.ndarray = explanation.ranks().numpy()
    return found


def kept(explanation: Explanation, layout: Layout, rank: np.ndarray) -> np.ndarray:
    """Which features of which classes are written: (B, d, C)."""
    rows, d, c = explanation.weights.shape
    there: np.ndarray = np.broadcast_to(explanation.present.numpy()[:, :, None], (rows, d, c)).copy()
    if explanation.only is not None:
        there &= (np.arange(c) == explanation.only.numpy()[:, None])[:, None]
    return there & (rank <= layout.top) if layout.top is not None else there


def common(
    explanation: Explanation, layout: Layout, numbers: np.ndarray, keys: Mapping[str, Sequence[Any]], at: Any
) -> list[Any]:
    """The columns that both forms begin with, for the inputs `at`."""
    pa = extra("pyarrow", "table")
    schema, predicted = layout.schema(), explanation.prediction.numpy()
    probability = explanation.probs.numpy()[np.arange(len(numbers)), predicted]
    columns = [pa.array(numbers[at])]
    for name in layout.keys:
        kind = schema.field(name).type
        cells = [None if v is None else str(v) for v in keys[name]] if kind == pa.string() else list(keys[name])
        columns.append(pa.array(cells, kind).take(pa.array(at)))
    return [*columns, pa.array(layout.classes).take(pa.array(predicted[at])), pa.array(probability[at], pa.float32())]


def about(explanation: Explanation, layout: Layout, b: np.ndarray, f: np.ndarray) -> list[Any]:
    """What each of some features is: its name, its value, its place, and where it stands in a text."""
    pa = extra("pyarrow", "table")
    if explanation.names is None:
        feature = pa.array([str(v) for v in explanation.values[b, f]], pa.string())
        value = pa.nulls(len(b), pa.string())
    else:
        feature = pa.array(explanation.names, pa.string()).take(pa.array(f))
        cells = explanation.values[b, f]
        if layout.numbers:
            value = pa.array(numeric(cells), from_pandas=True)
        else:
            value = pa.array([None if (said := json_value(v)) is None else str(said) for v in cells.tolist()], pa.string())
    columns = [feature, value, pa.array(f.astype(np.int32))]
    if explanation.spans is not None:
        columns += [pa.array(explanation.spans[b, f, i].astype(np.int32)) for i in (0, 1)]
    return columns


def numeric(cells: np.ndarray) -> np.ndarray:
    """Cells of one type or of several kinds of numbers as floats; what is missing is NaN."""
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError):
        return np.array([np.nan if json_value(v) is None else float(v) for v in cells.tolist()], dtype=np.float64)


def tidy(explanation: Explanation, layout: Layout, numbers: np.ndarray, keys: Mapping[str, Sequence[Any]]) -> Any:
    """One row for every input, feature and class."""
    pa = extra("pyarrow", "table")
    rank = ranks(explanation)
    b, f, k = np.nonzero(kept(explanation, layout, rank))
    columns = [
        *common(explanation, layout, numbers, keys, b),
        *about(explanation, layout, b, f),
        pa.array(layout.classes).take(pa.array(k)),
        pa.array(explanation.probs.numpy()[b, k], pa.float32()),
        pa.array(explanation.weights.numpy()[b, f, k], pa.float32()),
        pa.array(rank[b, f, k].astype(np.int32)),
    ]
    return pa.Table.from_arrays(columns, schema=layout.schema())


def wide(explanation: Explanation, layout: Layout, numbers: np.ndarray, keys: Mapping[str, Sequence[Any]]) -> Any:
    """One row for every input: arrays over its features, and an array of weights for every class."""
    pa = extra("pyarrow", "table")
    chosen = kept(explanation, layout, ranks(explanation)).any(2)  # (B, d)
    b, f = np.nonzero(chosen)
    offsets = pa.array(np.concatenate([[0], np.cumsum(chosen.sum(1))]).astype(np.int32))
    rows, c = explanation.probs.shape

    def listed(values: Any) -> Any:
        return pa.ListArray.from_arrays(offsets, values)

    every = pa.array(np.arange(0, (rows + 1) * c, c).astype(np.int32))
    columns = [
        *common(explanation, layout, numbers, keys, np.arange(rows)),
        pa.ListArray.from_arrays(every, pa.array(explanation.probs.numpy().ravel(), pa.float32())),
        *map(listed, about(explanation, layout, b, f)),
        *(listed(pa.array(explanation.weights.numpy()[b, f, i], pa.float32())) for i in range(c)),
    ]
    return pa.Table.from_arrays(columns, schema=layout.schema())


def key_types(head: Any, names: Sequence[str], *, untyped: bool) -> dict[str, str]:
    """The type of each key column in the file: that of the first rows, strings where all cells are."""
    found = {}
    for name in names:
        cells = [] if untyped else [v.item() if isinstance(v, np.generic) else v for v in head[name].dropna()]
        kinds = {KEY_TYPES.get(np.asarray(v).dtype.kind, "string") for v in cells}
        found[name] = kinds.pop() if len(kinds) == 1 else "string"
    return found
