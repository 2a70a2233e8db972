"""Tables as the black box wants them: read once, mixed with fills column by column, handed back in the same form.

A mixed table has the container, the column labels and the dtypes of the table that came in.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimwise.errors import BadFeatures, extra
from aimwise.features.cells import (
    LEVELLED,
    Coded,
    Column,
    Kind,
    Nullable,
    Stored,
    blend,
    column_kind,
    column_numbers,
    levels_at,
    mixed_column,
    plain,
    positions,
    read_column,
)

MAX_LEVELS = 1000


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

    def mixed(self, columns: Sequence[Column], keep: Tensor, fill: Tensor) -> np.ndarray | Tensor:
        if keep.requires_grad:
            return traced(self.values, self.names).mixed(columns, keep, fill)
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
        if keep.requires_grad:
            return along(values, keep, fill)
        if values.is_floating_point():
            part = (keep * values + (1 - keep) * fill).to(values.dtype)
            return torch.where(keep >= 1, values, torch.where(keep <= 0, fill.to(values.dtype), part))
        return torch.where(keep > 0.5, values, fill.round().to(values.dtype))


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
        if keep.requires_grad:
            return traced(self.numbers(columns), self.names).mixed(columns, keep, fill)
        share, other = keep.cpu().numpy(), fill.cpu().numpy()
        made = [
            mixed_column(known, column, dtype, share[:, j], other[:, j])
            for j, (known, column, dtype) in enumerate(zip(columns, self.columns, self.dtypes, strict=True))
        ]
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(made)), copy=False)
        frame.columns = pd.Index(self.labels)
        return frame if self.frame else frame.to_numpy(dtype=object)


def traced(values: np.ndarray, names: tuple[str, ...]) -> TensorTable:
    """The table as a tensor, through which gradients flow."""
    return TensorTable(torch.from_numpy(values.astype(np.float64)), names)


def along(values: Tensor, keep: Tensor, fill: Tensor) -> Tensor:
    """The point at the share `keep` of the way from fill to values, and beyond them too, with its gradient.

    Whole cells and whole fills are exact, and a missing one stands still.
    """
    values, share = values.double(), keep.detach().double()
    way = values - fill
    there = torch.where(share == 1, values, torch.where(share == 0, fill, fill + share * way))
    return there + (keep - keep.detach()) * torch.where(way.isfinite(), way, 0.0)


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
