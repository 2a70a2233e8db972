"""One column of a table: read once, told as numbers, and mixed with fills in its own dtype.

A cell is one number inside the library: a numeric value, a date in seconds, or the position of a category among the column's
known levels; NaN is a missing value and -1 a level never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from aimwise.errors import BadFeatures, extra

Kind = Literal["number", "integer", "boolean", "date", "ordinal", "category"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELLED = ("ordinal", "category")
SECONDS = {"D": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Column:
    """What is known of one column: its name, its kind, the levels of a category, and the dtype it was learned with."""

    name: str
    kind: Kind
    levels: tuple[Any, ...] = ()
    dtype: str = ""


@dataclass(frozen=True)
class Coded:
    """A column as positions in an array of its distinct values; -1 is missing. Columns of objects keep their cells too."""

    codes: np.ndarray
    table: Any
    cells: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: np.ndarray, /) -> Coded:
        return Coded(self.codes[index], self.table, None if self.cells is None else self.cells[index])


@dataclass(frozen=True)
class Nullable:
    """A column of pandas' nullable numbers, as floats with NaN and as it came."""

    numbers: np.ndarray
    cells: Any

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: np.ndarray, /) -> Nullable:
        return Nullable(self.numbers[index], self.cells[index])


Stored = np.ndarray | Coded | Nullable


def read_column(series: Any, name: str) -> Stored:
    """One DataFrame column: numbers, booleans and dates as arrays, all else coded."""
    import pandas as pd

    dtype = series.dtype
    types = pd.api.types
    if types.is_bool_dtype(dtype) and isinstance(dtype, np.dtype):
        return np.asarray(series)
    if isinstance(dtype, pd.CategoricalDtype):
        return Coded(np.asarray(series.cat.codes, dtype=np.int64), series.cat.categories.array)
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        if isinstance(dtype, np.dtype):
            return np.asarray(series)
        return Nullable(np.asarray(series.to_numpy(np.float64, na_value=np.nan)), series.array)
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        moments = series.dt.tz_convert("UTC").dt.tz_localize(None) if isinstance(dtype, pd.DatetimeTZDtype) else series
        return np.asarray(moments.to_numpy())
    try:
        codes, table = pd.factorize(series)
    except TypeError as e:
        raise BadFeatures(
            f"Column {name!r} of dtype {dtype} holds values that cannot be told apart ({e}). "
            "Turn them into numbers, strings, booleans or dates."
        ) from e
    return Coded(codes, table, series.to_numpy() if series.dtype.kind == "O" and str(dtype) == "object" else None)


def column_kind(column: Stored, dtype: Any) -> Kind:
    """The kind of a column by its dtype."""
    if isinstance(column, Coded):
        return "ordinal" if getattr(dtype, "ordered", False) else "category"
    if isinstance(column, Nullable):
        name = str(dtype).lower()
        return "boolean" if name.startswith("bool") else "integer" if name.startswith(("int", "uint")) else "number"
    kinds: dict[str, Kind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "M": "date", "m": "date"}
    return kinds[column.dtype.kind]


def column_numbers(known: Column, column: Stored) -> np.ndarray:
    """One column's cells as numbers, float64 (n,)."""
    if known.kind in LEVELLED:
        if isinstance(column, Coded):
            found = positions(np.asarray(column.table, dtype=object), known.levels)
            return np.take(np.append(found, np.nan), column.codes)  # the code -1 takes the last, a missing value
        return positions(column.numbers if isinstance(column, Nullable) else column, known.levels)
    if isinstance(column, Nullable):
        return column.numbers
    if isinstance(column, Coded):
        shown = ", ".join(repr(v) for v in list(column.table)[:3])
        raise BadFeatures(
            f"Column {known.name!r} is read as {known.kind} and holds {shown}. Convert it to that type, or fit with another kind."
        )
    if column.dtype.kind in "Mm":
        return np.where(np.isnat(column), np.nan, column.astype(np.int64) * seconds_per_step(column.dtype))
    return column.astype(np.float64)


def mixed_column(known: Column, column: Stored, dtype: Any, share: np.ndarray, fill: np.ndarray) -> Any:
    """One column with the cells that are not kept replaced, in its own dtype; kept cells are what they were."""
    import pandas as pd

    keep = share > 0.5
    if isinstance(column, Coded):
        return recoded(known, column, dtype, keep, fill)
    if isinstance(column, Nullable):
        other = levels_at(known.levels, fill) if known.kind in LEVELLED else blend(column.numbers, share, fill)
        mixed = column.cells.copy()
        mixed[share < 1] = pd.array(pd.Series(other[share < 1]).astype(object).where(lambda v: v.notna(), None), dtype=dtype)
        return mixed
    if known.kind in LEVELLED:
        cells = np.where(keep, column.astype(object), levels_at(known.levels, fill))
        return pd.Series(cells).infer_objects()
    if column.dtype.kind in "Mm":
        steps = np.rint(np.nan_to_num(fill) / seconds_per_step(column.dtype)).astype(np.int64)
        other = np.where(np.isnan(fill), np.iinfo(np.int64).min, steps).view(column.dtype)
        return in_dtype(np.where(keep, column, other), dtype)
    return in_dtype(np.where(share >= 1, column, blend(column, share, fill)), dtype)


def seconds_per_step(dtype: np.dtype) -> float:
    """How long one step of a date's own unit is."""
    unit, count = np.datetime_data(dtype)
    return count * SECONDS[unit]


def recoded(known: Column, column: Coded, dtype: Any, keep: np.ndarray, fill: np.ndarray) -> Any:
    """A coded column with other codes where it is not kept; levels it lacks are added to its values."""
    import pandas as pd

    if column.cells is not None:
        return pd.Series(np.where(keep, column.cells, levels_at(known.levels, fill)), dtype=object)
    where = {value: i for i, value in enumerate(np.asarray(column.table, dtype=object))}
    used = np.unique(fill[~keep & ~np.isnan(fill)]).astype(int)
    lacking = [known.levels[u] for u in used if known.levels[u] not in where]
    where |= {level: len(where) + i for i, level in enumerate(lacking)}
    place = np.full(len(known.levels) + 1, -1)
    place[used] = [where[known.levels[u]] for u in used]
    codes = np.where(keep, column.codes, place[np.where(np.isnan(fill), -1, fill).astype(int)])
    if isinstance(dtype, pd.CategoricalDtype):
        values = pd.Index(column.table).append(pd.Index(lacking)) if lacking else pd.Index(column.table)
        return pd.Categorical.from_codes(codes, categories=values, ordered=bool(dtype.ordered))
    values = pd.Series([*column.table, *lacking, None], dtype=dtype).array
    return pd.Series(values[codes], dtype=dtype)  # the code -1 takes the last, the missing value


def blend(values: np.ndarray, share: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """share of values and the rest of fill, rounded where values are whole numbers."""
    if values.dtype.kind == "f":
        part = share * values + (1 - share) * fill if ((share > 0) & (share < 1)).any() else fill
        return np.where(share <= 0, fill, part).astype(values.dtype)
    whole = np.rint(np.nan_to_num(fill))
    if values.dtype.kind != "b":
        limits = np.iinfo(values.dtype)
        whole = np.clip(whole, limits.min, np.nextafter(float(limits.max), 0))  # the largest integers are no floats
    return np.where(share > 0.5, values, whole.astype(values.dtype))


def in_dtype(values: np.ndarray, dtype: Any) -> Any:
    """An array in a DataFrame column's own dtype, time zones included."""
    if values.dtype == dtype:
        return values
    import pandas as pd

    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(values, tz="UTC").tz_convert(dtype.tz).astype(dtype)
    return pd.Series(values).astype(dtype)


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def positions(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray:
    """Where each value stands among the levels: float64, -1 for a value not among them, NaN for a missing one."""
    pd = extra("pandas", "table")
    found = np.asarray(pd.Index(levels, dtype=object).get_indexer(pd.Index(values, dtype=object)), dtype=np.float64)
    found[np.asarray(pd.isna(values))] = np.nan
    return found


def levels_at(levels: Sequence[Any], index: np.ndarray) -> np.ndarray:
    """The levels at these positions, missing ones as NaN."""
    table = np.empty(len(levels) + 1, dtype=object)
    table[:-1] = list(levels)
    table[-1] = np.nan
    return np.take(table, np.where(np.isnan(index), len(levels), index).astype(int))
