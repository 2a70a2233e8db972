"""What clients send, read as inputs of an explainer: texts, rows of a table, or lists of token ids; images stand in `pictures`.

An item is checked by itself when it comes, so that its sender hears what is wrong with it; items of many clients are then put
together into the form that the explainer was fitted on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

import numpy as np
import torch

from aimwise.errors import BadFeatures, extra
from aimwise.features import Columns, Tokens
from aimwise.features.cells import LEVELLED, Column

SHOWN = 60  # characters of a wrong value that are told
WHOLE = 2**63  # whole numbers are smaller


class Reader(ABC):
    """How one kind of inputs comes in."""

    kind: ClassVar[str]
    field: ClassVar[str]
    """The field of a request that holds them."""

    @abstractmethod
    def read(self, one: Any) -> Any:
        """One item, checked; `BadFeatures` says what is wrong with it."""

    @abstractmethod
    def together(self, items: Sequence[Any]) -> Any:
        """Several items as inputs of the explainer."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What a form for such an input must know, as JSON values."""


@dataclass(frozen=True)
class TextReader(Reader):
    """Texts of at most so many characters."""

    kind: ClassVar[str] = "text"
    field: ClassVar[str] = "texts"

    most: int

    def read(self, one: Any) -> str:
        if not isinstance(one, str):
            raise BadFeatures(f"Got {shown(one)}, wanted a text.")
        if len(one) > self.most:
            raise BadFeatures(f"Got a text of {len(one):,} characters, wanted at most {self.most:,}. Cut it.")
        return written(one)

    def together(self, items: Sequence[Any]) -> list[str]:
        return list(items)

    def about(self) -> dict[str, Any]:
        return {"most_characters": self.most}


@dataclass(frozen=True)
class IdsReader(Reader):
    """Lists of token ids, for models with a tokenizer of their own."""

    kind: ClassVar[str] = "ids"
    field: ClassVar[str] = "rows"

    features: Tokens
    most: int

    def read(self, one: Any) -> list[int]:
        top = self.features.count_
        fine = isinstance(one, list) and 0 < len(one) <= self.most
        if not fine or not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < top for i in one):
            raise BadFeatures(f"Got {shown(one)}, wanted a list of 1 to {self.most:,} token ids from 0 to {top - 1}.")
        return list(one)

    def together(self, items: Sequence[Any]) -> np.ndarray:
        made = np.full((len(items), max(map(len, items))), self.features.pad, dtype=np.int64)
        for i, ids in enumerate(items):
            made[i, : len(ids)] = ids
        return made

    def about(self) -> dict[str, Any]:
        return {"ids": self.features.count_, "most_ids": self.most}


class RowReader(Reader):
    """Rows of a table: objects by the names of the columns, or lists in their order."""

    kind: ClassVar[str] = "table"
    field: ClassVar[str] = "rows"

    def __init__(self, features: Columns) -> None:
        self.features, self.columns = features, features.facts_.columns
        self.names = [column.name for column in self.columns]
        self.known = set(self.names)
        if features.facts_.framed:
            extra("pandas", "table")

    def read(self, one: Any) -> list[Any]:
        if isinstance(one, Mapping):
            if one.keys() != self.known:
                lacking, more = [n for n in self.names if n not in one], [n for n in one if n not in self.known]
                raise BadFeatures(
                    f"Got a row of {len(one)} columns; missing: {listed(lacking)}; not known: {listed(more)}. "
                    "Send a value for every column, null where it is missing."
                )
            cells = [one[name] for name in self.names]
        elif isinstance(one, list) and len(one) == len(self.names):
            cells = one
        else:
            raise BadFeatures(f"Got {shown(one)}, wanted an object with the {len(self.names)} columns {listed(self.names)}.")
        return [cell(column, value) for column, value in zip(self.columns, cells, strict=True)]

    def together(self, items: Sequence[Any]) -> Any:
        if self.features.facts_.framed:
            pd = extra("pandas", "table")
            columns = zip(self.columns, zip(*items, strict=True), strict=True)
            return pd.DataFrame({column.name: self._series(pd, column, cells) for column, cells in columns})
        dtype = self.columns[0].dtype
        if dtype.startswith("torch."):
            rows = [[math.nan if v is None else float(v) for v in row] for row in items]
            return torch.tensor(rows, dtype=torch.float64).to(getattr(torch, dtype.removeprefix("torch.")))
        if any(column.dtype != dtype for column in self.columns) or dtype == "object":
            made = np.empty((len(items), len(self.names)), dtype=object)
            made[:] = [list(row) for row in items]
            return made
        rows = [[math.nan if v is None else v for v in row] for row in items]
        missing = any(v is None for row in items for v in row)
        return np.array(rows, dtype="float64" if missing and not dtype.startswith("float") else dtype)

    @staticmethod
    def _series(pd: Any, column: Column, cells: Sequence[Any]) -> Any:
        if column.dtype == "category":
            levels = list(column.levels)
            more = [v for v in dict.fromkeys(cells) if v is not None and v not in levels]
            return pd.Series(pd.Categorical(cells, categories=levels + more, ordered=column.kind == "ordinal" and not more))
        if column.kind != "date":
            return pd.Series(list(cells))
        if column.dtype.startswith("timedelta"):
            return pd.Series(pd.to_timedelta(list(cells), unit="s")).astype(column.dtype)
        moments = pd.Series(pd.to_datetime(list(cells), utc=True))
        zoned = "," in column.dtype
        return (moments if zoned else moments.dt.tz_localize(None)).astype(column.dtype)

    def about(self) -> dict[str, Any]:
        middle = self.features.facts_.fills.median.tolist()
        groups = self.features.names
        owner = self.features.facts_.owner.tolist()
        return {
            "columns": [
                {
                    "name": column.name,
                    "kind": "span" if column.dtype.startswith("timedelta") else column.kind,
                    "levels": list(column.levels) if column.kind in LEVELLED else None,
                    "example": example(column, middle[j]),
                    "feature": groups[owner[j]],
                }
                for j, column in enumerate(self.columns)
            ]
        }


def cell(column: Column, value: Any) -> Any:
    """One cell, checked by the kind of its column; None is a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if column.kind in LEVELLED:
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < WHOLE):
            return written(value) if isinstance(value, str) else value
        raise wrong(column, value, "a string, a number, true or false")
    if column.kind == "boolean":
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise wrong(column, value, "true or false")
    if column.kind == "date":
        return span(column, value) if column.dtype.startswith("timedelta") else moment(column, value)
    if not number or not abs(value) < (WHOLE if column.kind == "integer" else math.inf):
        raise wrong(column, value, "a number")
    if column.kind == "integer":
        if value != int(value):
            raise wrong(column, value, "a whole number")
        return fitting(column, int(value))
    if isinstance(value, int) and abs(value) > 1 << 1000:
        raise wrong(column, value, "a smaller number")
    return float(value)


def fitting(column: Column, value: int) -> int:
    """A whole number that its column can hold."""
    name = column.dtype.removeprefix("torch.").lower()
    try:
        limits = np.iinfo(name)
    except (TypeError, ValueError):
        return value
    if not limits.min <= value <= limits.max:
        raise wrong(column, value, f"a whole number from {limits.min} to {limits.max}")
    return value


def moment(column: Column, value: Any) -> str:
    """A date or a moment, as ISO 8601 writes it, in UTC where nothing else is said."""
    try:
        if not isinstance(value, str):
            raise ValueError
        found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        if not 1700 <= found.year <= 2200:  # what nanoseconds can count
            raise ValueError
    except ValueError:
        raise wrong(column, value, "a date such as 2024-05-31 or 2024-05-31T12:00:00") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)).isoformat()


def span(column: Column, value: Any) -> float:
    """A time in seconds."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 9e9:
        raise wrong(column, value, "a number of seconds")
    return float(value)


def example(column: Column, middle: float) -> Any:
    """A usual value of a column, for a form to start from."""
    if not math.isfinite(middle):
        return None
    if column.kind in LEVELLED:
        return column.levels[int(middle)] if 0 <= middle < len(column.levels) else None
    if column.kind == "date" and not column.dtype.startswith("timedelta"):
        return datetime.fromtimestamp(middle, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    if column.kind == "boolean":
        return bool(round(middle))
    return round(middle) if column.kind == "integer" else float(f"{middle:.4g}")


def wrong(column: Column, value: Any, wanted: str) -> BadFeatures:
    """The error for a cell that is not of its column's kind."""
    return BadFeatures(f"Column {column.name!r} is {shown(value)}, wanted {wanted}.")


def written(text: str) -> str:
    """A text that can be written down; half a character cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadFeatures("Got a text with half a character in it (a lone surrogate). Send whole characters.") from None
    return text


def shown(value: Any) -> str:
    """A value in few characters, for an error."""
    if isinstance(value, list | dict):
        return f"a list of {len(value):,}" if isinstance(value, list) else f"an object of {len(value):,}"
    if isinstance(value, int) and abs(value) >= WHOLE:
        return "a very large number"
    said = repr(value)
    said = said if len(said) <= SHOWN else said[:SHOWN] + "..."
    return said.encode("ascii", "backslashreplace").decode("ascii") if not said.isprintable() else said


def listed(names: Sequence[str]) -> str:
    """Names in a row, the first ten of many."""
    return (", ".join(shown(str(n)) for n in names[:10]) + ", ..." * (len(names) > 10)) or "none"
