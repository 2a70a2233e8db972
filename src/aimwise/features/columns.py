"""Columns of a table as features."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadFeatures, BadSetting, unknown
from aimwise.features.base import Features
from aimwise.features.cells import Column
from aimwise.features.facts import TableFacts, learn_facts, scaled
from aimwise.features.fills import FILLS
from aimwise.features.tables import ArrayTable, Table, is_dataframe, read_table

KEPT = 0.5  # of its features a row made of others has from one of them


@dataclass(frozen=True)
class TableLayout:
    """What networks for tables are built from."""

    owner: Tensor  # (p,) the feature each column belongs to
    numeric: Tensor  # (p,) whether the column is read as a number
    edges: Tensor  # (p, EDGES) quantiles of the scaled numbers
    codes: Tensor  # (p,) how many codes a category may have: missing, unseen, and its levels
    features: int


@dataclass(eq=False)
class Columns(Features):
    """One feature per column, or per named group of columns.

    fill: what stands in for an absent column: "background" (the values of a random training row: right for
    correlated columns), "mean" (most frequent level for categories), "median", "noise" (uniform in [-1, 1] after
    scaling; a random level for categories) or "constant" (`value`, one for all columns or one per column name).
    groups: {"job": ["job_cook", "job_nurse"]}, several columns as one feature, such as the dummies of one category.
    kinds: {"zip": "category"}, to read a column as number, integer, boolean, date, ordinal or category whatever its dtype.
    column_names: names for tables that have none. background: how many training rows the background keeps.
    """

    kind: ClassVar[str] = "table"

    fill: str = "background"
    value: Any = None
    groups: Mapping[str, Sequence[Any]] | None = None
    kinds: Mapping[Any, str] | None = None
    column_names: Sequence[str] | None = None
    background: int = 1000
    facts_: TableFacts = field(init=False, repr=False)

    def fit(self, inputs: Any) -> Columns:
        """A copy that has learned names, scales and fills from this table."""
        self._check_settings()
        table = read_table(inputs, self.column_names)
        new = copy.copy(self)
        new.facts_ = learn_facts(table, groups=self.groups, kinds=self.kinds, value=self.value, background=self.background)
        return new

    def _check_settings(self) -> None:
        if self.fill not in FILLS:
            raise unknown("fill", self.fill, FILLS)
        if self.fill == "constant" and self.value is None:
            raise BadSetting('fill="constant" needs a value. Pass value=0, or value={"column": 0} for each column.')
        if self.background < 1:
            raise BadSetting(f"background={self.background}, wanted at least one row.")

    @property
    def fitted(self) -> bool:
        return "facts_" in self.__dict__

    @property
    def names(self) -> tuple[str, ...]:
        return self.facts_.features

    @property
    def soft(self) -> Bool[Tensor, " d"]:
        return self.facts_.soft

    @property
    def fills(self) -> tuple[str, ...]:
        return self.fill, "background" if self.fill == "mean" else "mean"

    @property
    def random(self) -> bool:
        return self.fill in ("background", "noise")

    @property
    def layout(self) -> TableLayout:
        columns = self.facts_.columns
        return TableLayout(
            owner=torch.from_numpy(self.facts_.owner),
            numeric=torch.tensor([c.kind != "category" for c in columns]),
            edges=torch.from_numpy(self.facts_.edges).float(),
            codes=torch.tensor([len(c.levels) + 2 if c.kind == "category" else 0 for c in columns]),
            features=len(self.names),
        )

    def encode(self, inputs: Any) -> Batch:
        table = self._matching(inputs)
        facts = self.facts_
        numbers = table.numbers(facts.columns)
        x = scaled(numbers, facts.center, facts.scale)
        for j, column in enumerate(facts.columns):
            if column.kind == "category":
                x[:, j] = np.where(np.isnan(numbers[:, j]), 0, numbers[:, j] + 2)
        present = torch.ones(len(table), len(self.names), dtype=torch.bool)
        return Batch(torch.from_numpy(x).float(), present, table)

    def _matching(self, inputs: Any) -> Table:
        names, framed = [c.name for c in self.facts_.columns], self.facts_.framed
        is_frame = is_dataframe(inputs)
        if is_frame != framed:
            made, got = ("a DataFrame", "an array") if framed else ("an array", "a DataFrame")
            raise BadFeatures(f"The explainer was fitted on {made}, got {got}. Pass the table in the form used for fit.")
        if is_frame:
            return read_table(as_learned(in_order(inputs, names), self.facts_.columns))
        shape = tuple(np.shape(inputs))
        if len(shape) != 2 or shape[1] != len(names):
            raise BadFeatures(
                f"Columns expects a table of shape (n, {len(names)}), got {shape}. Pass the columns that were used for fit."
            )
        table = read_table(inputs, names)
        if (
            isinstance(table, ArrayTable)
            and table.values.dtype.kind in "biu"
            and self.facts_.columns[0].dtype.startswith("float")
        ):
            return ArrayTable(table.values.astype(self.facts_.columns[0].dtype), table.names)
        return table

    def dim(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Any:
        keep = torch.where(self.soft.to(z.device), z, (z > 0.5).to(z.dtype))  # (B, d)
        fill = self.facts_.fills.draw(self.fill, len(z), rng)  # (B, p)
        return rows_of(batch).mixed(self.facts_.columns, self.spread(batch, keep), fill)

    def drawn(self, rng: torch.Generator) -> Columns:
        if not self.random:
            return self
        new, fills = copy.copy(self), self.facts_.fills
        new.facts_ = replace(self.facts_, fills=replace(fills, constant=fills.draw(self.fill, 1, rng)[0]))
        new.fill = "constant"
        return new

    def enlarged(self, batch: Batch, more: int, rng: torch.Generator) -> Batch:
        there, d = len(batch), len(self.names)
        rows = torch.cat([torch.arange(there), torch.randint(there, (more,), generator=rng)])
        keep = torch.cat([torch.ones(there, d), (torch.rand(more, d, generator=rng) < KEPT).float()])
        other = self.facts_.fills.draw("background", there + more, rng)  # (n, p)
        each = torch.rand(there + more, d, generator=rng).argsort(0)[:, torch.from_numpy(self.facts_.owner)]  # (n, p)
        made = rows_of(batch.pick(rows)).mixed(self.facts_.columns, self.spread(batch, keep), other.gather(0, each))
        return self.encode(made).to(batch.x.device)

    def numbers(self, batch: Batch) -> np.ndarray:
        """Every cell as a number, (B, p): see `aimwise.features.cells`."""
        return rows_of(batch).numbers(self.facts_.columns)

    def changed(self, batch: Batch, keep: Bool[Tensor, "B p"], numbers: Float[Tensor, "B p"]) -> Any:
        """The rows with these numbers for cells where they are not kept, in the form the black box takes."""
        whole = torch.where(self.facts_.fills.rounded > 0, numbers.round(), numbers)
        return rows_of(batch).mixed(self.facts_.columns, keep.to(numbers.dtype), whole)

    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B p"]:
        return z[..., torch.from_numpy(self.facts_.owner).to(z.device)]

    def values(self, batch: Batch) -> np.ndarray:
        table, facts = rows_of(batch), self.facts_
        cells = [table.cells(j) for j in range(len(facts.columns))]
        if len(self.names) == len(cells) and len({c.dtype for c in cells}) == 1:
            return np.stack(cells, axis=1)
        out = np.empty((len(table), len(self.names)), dtype=object)
        for f in range(len(self.names)):
            members = facts.members(f)
            names, own = [facts.columns[j].name for j in members], [cells[j] for j in members]
            if len(members) == 1:
                out[:, f] = own[0]
            else:
                out[:, f] = hot_names(names, own) if tuple(members) in facts.one_hot else joined(names, own)
        return out

    def config(self) -> dict[str, Any]:
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        settings["groups"] = {k: list(map(str, v)) for k, v in self.groups.items()} if self.groups is not None else None
        settings["kinds"] = {str(k): v for k, v in self.kinds.items()} if self.kinds is not None else None
        settings["column_names"] = list(self.column_names) if self.column_names is not None else None
        return {"settings": settings, "facts": self.facts_.config()}

    def tensors(self) -> dict[str, Tensor]:
        return self.facts_.tensors()

    @classmethod
    def restore(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Columns:
        new = cls(**config["settings"])
        new._check_settings()
        new.facts_ = TableFacts.restore(config["facts"], tensors)
        return new


def rows_of(batch: Batch) -> Table:
    """The raw table of a batch that `encode` made."""
    assert isinstance(batch.raw, Table)
    return batch.raw


def as_learned(frame: Any, columns: Sequence[Column]) -> Any:
    """A DataFrame whose columns have the types they were learned with, as far as their cells allow."""
    frame = frame.copy(deep=False)
    for j, (column, dtype) in enumerate(zip(columns, frame.dtypes, strict=True)):
        if str(dtype) != column.dtype and "category" not in (str(dtype), column.dtype):
            series = frame.iloc[:, j]
            no_place_for_missing = column.dtype.startswith(("int", "uint", "bool")) and series.isna().any()
            try:
                frame.isetitem(j, series.astype("float64" if no_place_for_missing else column.dtype))
            except (TypeError, ValueError):
                continue  # read as it is, or named where it cannot be
    return frame


def in_order(frame: Any, names: Sequence[str]) -> Any:
    """A DataFrame's columns in the order they were learned in, or an error that names those that differ."""
    here = [str(c) for c in frame.columns]
    lacking, more = [n for n in names if n not in here], [n for n in here if n not in names]
    if lacking or more:
        raise BadFeatures(
            f"Columns expects {len(names)} columns; missing: {', '.join(lacking) or 'none'}; "
            f"not known: {', '.join(more) or 'none'}. Pass the columns that were used for fit."
        )
    return frame if here == list(names) else frame.iloc[:, [here.index(n) for n in names]]


def hot_names(names: Sequence[str], cells: Sequence[np.ndarray]) -> np.ndarray:
    """For each row the name of the one column that is on."""
    on = np.stack([np.asarray(c, dtype=float) for c in cells], axis=1)  # (n, m)
    return np.where(on.max(1) > 0, np.array(names, dtype=object)[on.argmax(1)], "none")


def joined(names: Sequence[str], cells: Sequence[np.ndarray]) -> np.ndarray:
    """For each row its values as 'a=1, b=2'."""
    out = np.empty(len(cells[0]), dtype=object)
    out[:] = [", ".join(f"{n}={v}" for n, v in zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    return out
