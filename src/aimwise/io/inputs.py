"""Rows in the form a model takes: texts, frames or arrays of the right types, images; rows that have none are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadFeatures, extra
from aimwise.io.roles import Roles
from aimwise.io.sources import FILE, Portion

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A")
TRUE, FALSE = ("True", "true", "TRUE"), ("False", "false", "FALSE")
MOSTLY = 0.95  # of a column's cells must be numbers for it to be one of numbers; the rows of the others are broken


@dataclass(frozen=True)
class Form:
    """How inputs are handed to the model.

    table: "frame" or "array". types: the dtype of each column, where it is known. pictures: "array" (h, w, 3), whole numbers;
    "chw", floats from 0 to 1 with the channels first; "hwc", the same with the channels last; or "pil". size: (height, width).
    mode: "RGB" or "L" (grey). pad, length: of token ids.
    """

    table: str = "frame"
    types: Mapping[str, str] = field(default_factory=dict)
    precision: str = "float64"
    pictures: str = "array"
    size: tuple[int, int] | None = None
    mode: str = "RGB"
    pad: int = 0
    length: int | None = None

    def config(self) -> dict[str, Any]:
        """The form as JSON values."""
        size = None if self.size is None else list(self.size)
        own = {name: getattr(self, name) for name in ("table", "precision", "pictures", "mode", "pad", "length")}
        return {**own, "size": size, "types": dict(self.types)}

    @classmethod
    def restored(cls, config: Mapping[str, Any]) -> Form:
        """The form that `config` was taken from."""
        size = config["size"]
        return cls(**{**config, "size": None if size is None else (int(size[0]), int(size[1]))})


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs for a model, with their numbers, keys and labels, and what is wrong with the rows that are not among them."""

    start: int
    stop: int
    numbers: np.ndarray
    inputs: Any
    keys: dict[str, list[Any]]
    labels: list[Any] | None
    broken: dict[int, str]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, index: Sequence[int] | np.ndarray) -> Rows:
        """Some of the rows."""
        at = np.asarray(index, dtype=np.int64)
        return replace(
            self,
            numbers=self.numbers[at],
            inputs=picked(self.inputs, at),
            keys={name: [cells[i] for i in at] for name, cells in self.keys.items()},
            labels=None if self.labels is None else [self.labels[i] for i in at],
        )


def picked(inputs: Any, at: np.ndarray) -> Any:
    """Some of the inputs, in the form they have."""
    if hasattr(inputs, "iloc"):
        return inputs.iloc[at]
    return inputs[at] if isinstance(inputs, np.ndarray) else [inputs[i] for i in at]


def read(portion: Portion, roles: Roles, form: Form) -> Rows:
    """The rows of a portion as inputs."""
    broken = dict(portion.broken)
    made, good = {"text": texts, "table": table, "image": images, "ids": ids}[roles.kind](portion, roles, form, broken)
    at = np.flatnonzero(good)
    frame = portion.frame
    keys = {name: [cell_of(v) for v in frame[name].iloc[at]] for name in roles.keys}
    labels = None if roles.label is None else [cell_of(v) for v in frame[roles.label].iloc[at]]
    return Rows(portion.start, portion.stop, portion.numbers[at], made, keys, labels, broken)


def texts(portion: Portion, roles: Roles, form: Form, broken: dict[int, str]) -> tuple[list[str], np.ndarray]:
    """The texts; a missing or blank one is a row without a text."""
    name = roles.inputs[0]
    cells = portion.frame[name].tolist()
    good = np.array([isinstance(cell, str) and bool(cell.strip()) for cell in cells], dtype=bool)
    for i in np.flatnonzero(~good):
        cell = cells[i]
        none = cell is None or (isinstance(cell, float) and np.isnan(cell)) or cell == "" or isinstance(cell, str)
        why = f"column {name!r} has no text" if none else f"column {name!r} is {type(cell).__name__}, wanted a text"
        broken[int(portion.numbers[i])] = why
    return [cell for cell, fine in zip(cells, good, strict=True) if fine], good


def ids(portion: Portion, roles: Roles, form: Form, broken: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids as one matrix, filled up with padding."""
    name = roles.inputs[0]
    cells, good, rows = portion.frame[name].tolist(), [], []
    for number, cell in zip(portion.numbers.tolist(), cells, strict=True):
        row = np.asarray(cell) if cell is not None else np.zeros(0)
        fine = row.ndim == 1 and row.dtype.kind in "iu" and len(row) > 0
        good.append(fine)
        if fine:
            rows.append(row[: form.length])
        else:
            broken[number] = f"column {name!r} is not a list of token ids"
    made = np.full((len(rows), form.length or max(map(len, rows), default=1)), form.pad, dtype=np.int64)
    for i, row in enumerate(rows):
        made[i, : len(row)] = row
    return made, np.array(good, dtype=bool)


def table(portion: Portion, roles: Roles, form: Form, broken: dict[int, str]) -> tuple[Any, np.ndarray]:
    """The features as a frame of the types they were learned with, or as an array; a cell of another type breaks its row."""
    pd = extra("pandas", "table")
    good, columns = np.ones(len(portion.numbers), dtype=bool), {}
    for name in roles.inputs:
        column, wrong = as_type(portion.frame[name], form.types.get(name, ""), untyped=portion.untyped)
        for i in np.flatnonzero(wrong & good):
            wanted = "a date" if "date" in form.types.get(name, "") else "a number"
            broken[int(portion.numbers[i])] = f"column {name!r} is {portion.frame[name].iloc[i]!r}, wanted {wanted}"
        good &= ~wrong
        columns[name] = column
    frame = pd.DataFrame(columns)[good].reset_index(drop=True)
    for name, dtype in form.types.items():  # a whole number that is missing nowhere is whole again
        whole = dtype.startswith(("int", "uint", "bool")) and name in frame and str(frame[name].dtype) != dtype
        if whole and not frame[name].isna().any():
            frame[name] = frame[name].astype(dtype)
    if form.table == "array":
        try:
            return frame.to_numpy(dtype=form.precision), good
        except (TypeError, ValueError) as e:
            raise BadFeatures(f"The columns are not all numbers, so they are no array ({e}). Pass --table-as frame.") from e
    return frame, good


def as_type(column: Any, dtype: str, *, untyped: bool) -> tuple[Any, np.ndarray]:
    """A column as numbers, booleans or dates, and which cells are none; other columns as they are."""
    pd = extra("pandas", "table")
    none = np.zeros(len(column), dtype=bool)
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column, none
    if untyped:
        column = column.where(~column.isin(MISSING), None)
    if dtype.startswith(("int", "uint", "float", "Int", "Float")):
        return numbers_of(column)
    if dtype.startswith("bool"):
        said = column.map({**dict.fromkeys((*TRUE, True), True), **dict.fromkeys((*FALSE, False), False)})
        return said, (said.isna() & ~column.isna()).to_numpy()
    if dtype.startswith("datetime"):
        dates = pd.to_datetime(column, errors="coerce")
        return dates, (dates.isna() & ~column.isna()).to_numpy()
    return column, none


def numbers_of(column: Any) -> tuple[Any, np.ndarray]:
    """A column of strings as numbers, and which cells are none."""
    pa, pd = extra("pyarrow", "table"), extra("pandas", "table")
    try:
        quick = pa.array(column, type=pa.string(), from_pandas=True).cast(pa.float64())
        return pd.Series(quick.to_numpy(zero_copy_only=False)), np.zeros(len(column), dtype=bool)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        made = pd.to_numeric(column, errors="coerce").astype("float64")
        return made, (made.isna() & ~column.isna()).to_numpy()


def types_of(frame: Any, names: Sequence[str]) -> dict[str, str]:
    """The dtypes of columns of strings, as their cells tell: whole numbers, numbers, booleans, or strings."""
    found = {}
    for name in names:
        column = frame[name]
        column = column.where(~column.isin(MISSING), None)
        known = column.dropna()
        made, wrong = numbers_of(column)
        if len(known) and wrong.sum() <= (1 - MOSTLY) * len(known):
            values = made.dropna()
            whole = not wrong.any() and len(known) == len(column) and bool((values == values.round()).all())
            dotted = known.astype(str).str.contains(r"[.eE]", regex=True).any() if whole else True
            found[name] = "float64" if dotted else "int64"
        elif len(known) and known.isin((*TRUE, *FALSE)).all():
            found[name] = "bool" if len(known) == len(column) else "object"
        else:
            found[name] = "str"
    return found


def images(portion: Portion, roles: Roles, form: Form, broken: dict[int, str]) -> tuple[Any, np.ndarray]:
    """The pictures of files, in one size and mode."""
    good, made = np.zeros(len(portion.numbers), dtype=bool), []
    for i, (number, picture) in enumerate(zip(portion.numbers.tolist(), pictures(portion, form), strict=True)):
        if isinstance(picture, str):
            broken[number] = picture
        else:
            good[i] = True
            made.append(picture)
    if form.pictures == "pil":
        return made, good
    shape = (*(form.size or (1, 1)), 3) if form.mode == "RGB" else (form.size or (1, 1))
    values = np.stack([np.asarray(one) for one in made]) if made else np.zeros((0, *shape), dtype=np.uint8)
    if form.pictures == "array":
        return values, good
    values = (values / 255.0).astype(np.float32)
    values = values if values.ndim == 4 else values[..., None]
    return (np.ascontiguousarray(np.moveaxis(values, -1, 1)) if form.pictures == "chw" else values), good


def pictures(portion: Portion, form: Form) -> Iterator[Any]:
    """Each file's picture, or the reason for which there is none."""
    opener = extra("PIL.Image", "image")
    for name in portion.frame[FILE]:
        try:
            with opener.open(Path(name) if portion.root is None else portion.root / name) as image:
                made = image.convert(form.mode)
        except (OSError, ValueError, SyntaxError, opener.DecompressionBombError) as e:
            yield f"{name} is not an image that can be read ({type(e).__name__})"
            continue
        size = None if form.size is None else (form.size[1], form.size[0])
        yield made if size is None or made.size == size else made.resize(size)


def cell_of(value: Any) -> Any:
    """A cell as a plain value; None where it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is None or (isinstance(value, float) and np.isnan(value)) else value
