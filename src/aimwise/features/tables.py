"""Tables as the black box wants them: read once, mixed with fills column by column, handed back in the same form.

Inside the library a cell is one number: a numeric value, a date in seconds, or the position of a category among
the column's known levels; NaN is a missing value and -1 a level never seen. A mixed table has the container, the column
labels and the dtypes of the table that came in.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from aimwise.errors import BadFeatures, extra

Kind = Literal["number", "integer", "boolean", "date", "ordinal", "category"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELLED = ("ordinal", "category")
MAX_LEVELS = 1000
SECONDS = {"D": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Column:
    """What is known of one column: its name, its kind, the levels of a category, and the dtype it was learned with."""

    name: str
    kind: Kind
    levels: tuple[Any, ...] = ()
    dtype: str = ""


class Table(ABC):
    """Rows in the form they came in, which can be picked and mixed."""

    names: tuple[str, ...]
    dtypes: list[Any]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: np.ndarray, /) -> Table: ...

    @abstractmethod
    def kinds(self) -> list[Kind]:
        """The kind of each column by its dtype."""

    @abstractmethod
    def cells(self, column: int) -> np.ndarray:
        """One column's values as people know them, missing ones as None or NaN."""

    @abstractmethod
    def numbers(self, columns: Sequence[Column]) -> np.ndarray:
        """All cells as numbers, float64 (n, p)."""

    @abstractmethod
    def mixed(self, columns: Sequence[Column], keep: Tensor, fill: Tensor) -> Any:
        """The inputs with the share 1 - keep of every cell replaced by fill, both (n, p)."""


class ArrayTable(Table):
    """A numeric numpy array (n, p)."""

    def __init__(self, values: np.ndarray, names: tuple[str, ...]) -> None:
        self.values, self.names, self.dtypes = values, names, [values.dtype] * values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: np.ndarray, /) -> ArrayTable:
        return ArrayTable(self.values[index], self.names)

    def kinds(self) -> list[Kind]:
        kind: Kind = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}[self.values.dtype.kind]  # type: ignore[assignment]
        return [kind] * self.values.shape[1]

    def cells(self, column: int) -> np.ndarray:
        return self.values[:, column]

    def numbers(self, columns: Sequence[Column]) -> np.ndarray:
        out = self.values.astype(np.float64)
        for j, column in enumerate(columns):
            if column.kind in LEVELLED:
                out[:, j] = positions(self.values[:, j], column.levels)
        return out

    def mixed(self, columns: Sequence[Column], keep: Tensor, fill: Tensor) -> np.ndarray:
        share, other = keep.cpu().numpy(), self._valued(columns, fill.cpu().numpy())
        return np.where(share >= 1, self.values, blend(self.values, share, other))

    def _valued(self, columns: Sequence[Column], fill: np.ndarray) -> np.ndarray:
        levelled = [j for j, column in enumerate(columns) if column.kind in LEVELLED]
        fill = fill.copy() if levelled else fill
        for j in levelled:
            fill[:, j] = levels_at(columns[j].levels, fill[:, j]).astype(np.float64)
        return fill


class TensorTable(Table):
    """A torch tensor (n, p), on any device."""

    def __init__(self, values: Tensor, names: tuple[str, ...]) -> None:
        self.values, self.names, self.dtypes = values, names, [values.dtype] * values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: np.ndarray, /) -> TensorTable:
        return TensorTable(self.values[torch.as_tensor(index, device=self.values.device)], self.names)

    def _array(self) -> ArrayTable:
        return ArrayTable(self.values.detach().cpu().numpy(), self.names)

    def kinds(self) -> list[Kind]:
        return self._array().kinds()

    def cells(self, column: int) -> np.ndarray:
        return self._array().cells(column)

    def numbers(self, columns: Sequence[Column]) -> np.ndarray:
        return self._array().numbers(columns)

    def mixed(self, columns: Sequence[Column], keep: Tensor, fill: Tensor) -> Tensor:
        values, place = self.values, self.values.device
        levelled = any(column.kind in LEVELLED for column in columns)
        if levelled:
            fill = torch.from_numpy(self._array()._valued(columns, fill.cpu().numpy()))
        keep, fill = keep.to(place), fill.to(place)
        if values.is_floating_point():
            part = (keep * values + (1 - keep) * fill).to(values.dtype)
            return torch.where(keep >= 1, values, torch.where(keep <= 0, fill.to(values.dtype), part))
        return torch.where(keep > 0.5, values, fill.round().to(values.dtype))


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


class FrameTable(Table):
    """A pandas DataFrame, or an array of objects: every column has a type of its own."""

    def __init__(self, columns: list[Stored], labels: Sequence[Any], dtypes: list[Any], frame: bool) -> None:
        self.columns, self.labels, self.dtypes, self.frame = columns, labels, dtypes, frame
        self.names = tuple(map(str, labels))

    @classmethod
    def read(cls, frame: Any, *, labels: Sequence[Any] | None = None) -> FrameTable:
        """Every column of a DataFrame, numbers and dates as arrays, all else as positions among its values."""
        columns = [read_column(frame.iloc[:, j], str(label)) for j, label in enumerate(frame.columns)]
        return cls(columns, labels or list(frame.columns), list(frame.dtypes), labels is None)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: np.ndarray, /) -> FrameTable:
        return FrameTable([c[index] for c in self.columns], self.labels, self.dtypes, self.frame)

    def kinds(self) -> list[Kind]:
        return [column_kind(c, dtype) for c, dtype in zip(self.columns, self.dtypes, strict=True)]

    def cells(self, column: int) -> np.ndarray:
        c = self.columns[column]
        if isinstance(c, Coded):
            shown = np.empty(len(c.table) + 1, dtype=object)
            shown[:-1], shown[-1] = list(c.table), None
            return np.take(shown, c.codes)  # the code -1 takes the last, a missing value
        if isinstance(c, Nullable):
            return c.numbers
        if c.dtype.kind in "Mm":
            text: np.ndarray = c.astype(f"{c.dtype.kind}8[s]").astype(str).astype(object)
            text[np.isnat(c)] = None
            return text
        return c

    def numbers(self, columns: Sequence[Column]) -> np.ndarray:
        out = np.empty((len(self), len(columns)))
        for j, (known, column) in enumerate(zip(columns, self.columns, strict=True)):
            out[:, j] = column_numbers(known, column)
        return out

    def mixed(self, columns: Sequence[Column], keep: Tensor, fill: Tensor) -> Any:
        share, other = keep.cpu().numpy(), fill.cpu().numpy()
        made = [
            mixed_column(known, column, dtype, share[:, j], other[:, j])
            for j, (known, column, dtype) in enumerate(zip(columns, self.columns, self.dtypes, strict=True))
        ]
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(made)), copy=False)
        frame.columns = pd.Index(self.labels)
        return frame if self.frame else frame.to_numpy(dtype=object)


def read_table(inputs: Any, names: Sequence[str] | None = None) -> Table:
    """A table from a DataFrame, a numpy array, a torch tensor or a list of rows."""
    if is_dataframe(inputs):
        if not inputs.columns.is_unique:
            twice = inputs.columns[inputs.columns.duplicated()][0]
            raise BadFeatures(f"The table has two columns named {twice!r}. Give every column a name of its own.")
        if inputs.shape[1] == 0:
            raise BadFeatures("The table has no columns. Pass at least one column.")
        return FrameTable.read(inputs)
    if isinstance(inputs, Tensor):
        labels = array_names(inputs.shape, names)
        return TensorTable(inputs.detach(), labels)
    if type(inputs).__module__.startswith("scipy.sparse"):
        raise BadFeatures(
            f"Got a sparse matrix of shape {inputs.shape}, wanted a dense table. Pass X.toarray(), or explain the whole "
            "pipeline over its raw inputs."
        )
    values = np.asarray(inputs)
    if values.dtype.kind in "US" and not isinstance(inputs, np.ndarray):
        values = np.array(inputs, dtype=object)  # numbers beside strings stay numbers
    labels = array_names(values.shape, names)
    if values.dtype.kind in "biuf":
        return ArrayTable(values, labels)
    if values.dtype.kind in "OUS":
        pd = extra("pandas", "table")

        return FrameTable.read(pd.DataFrame(values.astype(object)).infer_objects(), labels=labels)
    raise BadFeatures(f"Cannot read an array of dtype {values.dtype} as a table. Pass numbers, strings or a DataFrame.")


def is_dataframe(inputs: Any) -> bool:
    """Whether this is a pandas DataFrame, without importing pandas to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(inputs, pandas.DataFrame)


def array_names(shape: Sequence[int], names: Sequence[str] | None) -> tuple[str, ...]:
    """Names for the columns of an array, which must be a table."""
    if len(shape) != 2 or shape[1] == 0:
        raise BadFeatures(f"Columns expects a table of shape (n, columns), got {tuple(shape)}. Pass a 2-D array or a DataFrame.")
    if names is None:
        return tuple(f"column {j}" for j in range(shape[1]))
    if len(names) != shape[1]:
        raise BadFeatures(f"Got {len(names)} column names for a table of shape {tuple(shape)}. Give one name per column.")
    return tuple(map(str, names))


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


def as_levels(table: Table, column: int, kind: Kind, kept: np.ndarray) -> tuple[Any, ...]:
    """A category's levels, the most frequent first, the rarest left out unless they are in the kept rows; or in order."""
    pd = extra("pandas", "table")
    cells = table.cells(column)
    raw = table.columns[column] if isinstance(table, FrameTable) else None
    if kind == "ordinal":
        ordered = raw.table if isinstance(raw, Coded) else np.unique(cells[~pd.isna(cells)])
        return tuple(plain(v) for v in ordered)
    counts = pd.Series(cells, dtype=object).value_counts()
    frequent = list(counts.index[:MAX_LEVELS])
    rare = pd.Series(cells[kept], dtype=object).dropna().unique()
    return tuple(dict.fromkeys(plain(v) for v in [*frequent, *rare]))


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
