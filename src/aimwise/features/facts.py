"""What is learned from a table once: its columns, which feature each belongs to, scales and fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimwise.errors import BadFeatures, BadFile, BadSetting, unknown
from aimwise.features.cells import KINDS, LEVELLED, Column
from aimwise.features.fills import Fills, background_rows, learn_fills
from aimwise.features.tables import FrameTable, Table, as_levels

EDGES = 17


@dataclass(frozen=True)
class TableFacts:
    """A learned table of p columns and d features."""

    framed: bool
    features: tuple[str, ...]
    columns: tuple[Column, ...]
    one_hot: tuple[tuple[int, ...], ...]  # the columns of each group that are one category together
    owner: np.ndarray  # (p,) the feature each column belongs to
    center: np.ndarray  # (p,)
    scale: np.ndarray  # (p,)
    edges: np.ndarray  # (p, EDGES) quantiles of the scaled numbers
    fills: Fills

    @property
    def soft(self) -> Tensor:
        """Which features may be kept by a share: those of numeric columns only, and not a category in disguise."""
        number = np.array([c.kind == "number" for c in self.columns])
        number[[j for group in self.one_hot for j in group]] = False
        hard = np.bincount(self.owner, weights=~number, minlength=len(self.features))
        return torch.from_numpy(hard == 0)

    def members(self, feature: int) -> np.ndarray:
        """The columns of a feature."""
        return np.flatnonzero(self.owner == feature)

    def config(self) -> dict[str, Any]:
        """The facts that are no numbers, as JSON values."""
        columns = [asdict(c) | {"levels": list(c.levels)} for c in self.columns]
        return {
            "framed": self.framed,
            "features": list(self.features),
            "columns": columns,
            "one_hot": [list(group) for group in self.one_hot],
        }

    def tensors(self) -> dict[str, Tensor]:
        """The facts that are numbers."""
        arrays = {"owner": self.owner, "center": self.center, "scale": self.scale, "edges": self.edges}
        own = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return own | {f"fill.{f.name}": getattr(self.fills, f.name) for f in fields(self.fills)}

    @classmethod
    def restore(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TableFacts:
        """The facts that `config` and `tensors` were taken from, checked against each other."""
        columns = tuple(Column(str(c["name"]), c["kind"], tuple(c["levels"]), str(c["dtype"])) for c in config["columns"])
        p, d = len(columns), len(config["features"])
        fills = Fills(**{f.name: tensors[f"fill.{f.name}"] for f in fields(Fills)})
        owner = tensors["owner"].numpy()
        shapes = [tensors[n].shape[:1] for n in ("owner", "center", "scale", "edges")]
        shapes += [getattr(fills, f.name).shape[-1:] for f in fields(Fills)]
        groups = tuple(tuple(int(j) for j in group) for group in config["one_hot"])
        inside = all(0 <= j < p for group in groups for j in group) and owner.min() >= 0 and owner.max() < d
        if not inside or any(tuple(s) != (p,) for s in shapes) or any(c.kind not in KINDS for c in columns):
            raise BadFile("the columns and the numbers learned for them do not fit together")
        return cls(
            framed=bool(config["framed"]),
            features=tuple(map(str, config["features"])),
            columns=columns,
            one_hot=groups,
            owner=owner,
            center=tensors["center"].numpy(),
            scale=tensors["scale"].numpy(),
            edges=tensors["edges"].numpy(),
            fills=fills,
        )


def learn_facts(
    table: Table,
    *,
    groups: Mapping[str, Sequence[Any]] | None,
    kinds: Mapping[Any, str] | None,
    value: Any,
    background: int,
) -> TableFacts:
    """Everything a table's columns are explained with, from its rows and the user's wishes."""
    if len(table) < 2:
        raise BadFeatures(f"Columns learns scales and fills from rows, got {len(table)}. Pass at least two rows.")
    if len(set(table.names)) < len(table.names):
        twice = next(n for n in table.names if table.names.count(n) > 1)
        raise BadFeatures(f"Two columns are called {twice!r} when written as text. Give every column a name of its own.")
    features, owner = grouped(table.names, groups)
    kept = background_rows(len(table), background)
    columns = read_columns(table, kinds or {}, kept)
    numbers = table.numbers(columns)  # (n, p)
    members = [np.flatnonzero(owner == f) for f in range(len(features))]
    one_hot = [m for m in members if len(m) > 1 and is_one_hot(numbers[:, m])]
    constant, columns = constants(value, columns)
    fills = learn_fills(numbers, columns, one_hot, constant, kept)
    center, scale = fills.median.numpy(), standard_deviation(numbers)
    return TableFacts(
        framed=isinstance(table, FrameTable) and table.frame,
        features=features,
        columns=tuple(columns),
        one_hot=tuple(tuple(int(j) for j in m) for m in one_hot),
        owner=owner,
        center=center,
        scale=scale,
        edges=quantiles(scaled(numbers, center, scale)),
        fills=fills,
    )


def read_columns(table: Table, wanted: Mapping[Any, str], kept: np.ndarray) -> list[Column]:
    """Every column's kind, by its dtype or as the user wants it, and its levels."""
    kinds = table.kinds()
    for name, kind in ((str(n), k) for n, k in wanted.items()):
        if name not in table.names:
            raise unknown("column", name, table.names)
        if kind not in KINDS:
            raise unknown("kind of column", kind, KINDS)
        kinds[table.names.index(name)] = KINDS[KINDS.index(kind)]
    return [
        Column(name, kind, as_levels(table, j, kind, kept) if kind in LEVELLED else (), str(table.dtypes[j]))
        for j, (name, kind) in enumerate(zip(table.names, kinds, strict=True))
    ]


def grouped(names: Sequence[str], groups: Mapping[str, Sequence[Any]] | None) -> tuple[tuple[str, ...], np.ndarray]:
    """Feature names, and for every column the feature it belongs to; a group stands where its first column stood."""
    group_of: dict[str, str] = {}
    for group, members in (groups or {}).items():
        if group in names and group not in members:
            raise BadSetting(f"The group {group!r} has the name of a column outside it. Choose another name.")
        for name in map(str, members):
            if name not in names:
                raise unknown(f"column (in group {group!r})", name, names)
            if name in group_of:
                raise BadSetting(f"Column {name!r} is in the groups {group_of[name]!r} and {group!r}. Leave it in one.")
            group_of[name] = group
    of_column = [group_of.get(name, name) for name in names]
    features = tuple(dict.fromkeys(of_column))
    place = {f: i for i, f in enumerate(features)}
    return features, np.array([place[f] for f in of_column], dtype=np.int64)


def is_one_hot(numbers: np.ndarray) -> bool:
    """Whether the columns hold 0 and 1 only, at most one 1 in a row."""
    return bool(np.isin(numbers, (0, 1)).all() and (numbers.sum(1) <= 1).all())


def constants(value: Any, columns: list[Column]) -> tuple[np.ndarray, list[Column]]:
    """The user's stand-ins in number form, and the columns with levels added that only the user named."""
    out = np.full(len(columns), np.nan)
    if value is None:
        return out, columns
    given = {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {c.name: value for c in columns}
    names = [c.name for c in columns]
    for name in given:
        if name not in names:
            raise unknown("column (in value)", name, names)
    columns = list(columns)
    for j, c in enumerate(columns):
        if c.name not in given:
            raise BadSetting(f"value has no entry for column {c.name!r}. Give one for each column, or one for all.")
        v = given[c.name]
        if v is None:
            continue
        if c.kind in LEVELLED:
            if v not in c.levels:
                columns[j] = c = replace(c, levels=(*c.levels, v))
            out[j] = c.levels.index(v)
            continue
        try:
            out[j] = np.datetime64(v, "s").astype(np.int64) if c.kind == "date" else float(v)
        except (TypeError, ValueError) as e:
            raise BadSetting(f"value for column {c.name!r} is {v!r}, wanted a {c.kind} ({e}).") from e
    return out, columns


def standard_deviation(numbers: np.ndarray) -> np.ndarray:
    """The standard deviation of each column's finite values, 1 where there is none."""
    finite = [column[np.isfinite(column)] for column in numbers.T]
    spread = np.array([column.std() if len(column) else 0.0 for column in finite])
    return np.where(spread > 0, spread, 1.0)


def scaled(numbers: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Numbers as the networks read them; a missing one stays NaN, an infinite one infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        out: np.ndarray = (numbers - center) / scale
    return out


def quantiles(table: np.ndarray) -> np.ndarray:
    """EDGES increasing edges for each column, distinct values only, the last one repeated to fill up: (p, EDGES)."""
    out = np.zeros((table.shape[1], EDGES))
    for j, column in enumerate(table.T):
        seen = column[np.isfinite(column)]
        if len(seen):
            edges = np.unique(np.quantile(seen, np.linspace(0, 1, EDGES)))
            out[j] = np.concatenate([edges, np.full(EDGES - len(edges), edges[-1])])
    return out
