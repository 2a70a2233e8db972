"""Explanations of batches of rows, for engines that cut a table into batches and hand them to many processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.blackbox.named import Asking
from aimwise.errors import BadFeatures, BadSetting, extra
from aimwise.io.inputs import Form, read
from aimwise.io.roles import Given, Roles
from aimwise.io.sources import FrameSource, Portion
from aimwise.io.written import KEY_TYPES, Layout, as_table, key_types
from aimwise.matched import Said, Saved, layout_of, matched
from aimwise.scale.loading import KEPT_HERE, Loading
from aimwise.scale.portion import Patience, explained, together

ERROR = "error"
FIXED = {
    "prediction": "STRING",
    "probability": "FLOAT",
    "feature": "STRING",
    "value": "STRING",
    "place": "INT",
    "start": "INT",
    "end": "INT",
    "class": "STRING",
    "class_probability": "FLOAT",
    "weight": "FLOAT",
    "rank": "INT",
    ERROR: "STRING",
}
ARROW = {"STRING": "string", "FLOAT": "float32", "INT": "int32"}
KINDS = {"bool": "BOOLEAN", "int64": "BIGINT", "float64": "DOUBLE", "string": "STRING"}
PARTITION = 33  # bits of a row's number inside its partition, as in Spark's monotonically_increasing_id


def schema(keys: Mapping[str, str] | None = None) -> str:
    """The columns of `explain_in_pandas` in Spark's words: those of `SCHEMA`, and key columns of these types behind the first.

    keys: {"id": "int64"}, or with Spark's own types as in dict(spark_df.select("id").dtypes).
    """
    own = {name: KINDS.get(kind, kind) for name, kind in (keys or {}).items()}
    return ", ".join(f"`{name}` {kind}" for name, kind in ({"row": "BIGINT"} | own | FIXED).items())


SCHEMA = schema()
"""The columns that `explain_in_pandas` yields when no keys are kept."""


class Explain:
    """A function from batches of rows to Arrow tables of weights, for Ray Data's map_batches and all that works like it.

    It is small and may be sent to other processes; each of them loads the explainer and the model once. A batch is a frame, an
    Arrow table or a dict of arrays. The result has one line for every row, feature and class, as `aimwise explain` writes it, and
    a last column `error`: a row that could not be explained has one line with the reason. `row` counts from 0 in each batch.
    """

    def __init__(
        self,
        explainer: str | Path,
        *,
        model: Any,
        keys: Sequence[str] | Mapping[str, str] | None = None,
        text_column: str | None = None,
        columns: Sequence[str] | None = None,
        ids_column: str | None = None,
        top: int | None = None,
        wide: bool = False,
        rows: int = 1024,
        classes: Sequence[str] | None = None,
        model_batch: int | None = None,
    ) -> None:
        """explainer: the folder that save() or `aimwise fit` wrote. model: its name as the command line takes it, or the model.

        keys: columns that are written out beside the weights, if you like with their types ("int64", "float64", "bool" or
        "string"); by default those whose names say that they are keys. text_column, columns, ids_column: what the inputs are,
        where that is not known from the fit. top: only the features of so many first ranks. wide: one line a row, with arrays.
        rows: how many are explained at once. classes: names of the classes. model_batch: how many inputs the model is asked about
        at once.
        """
        for name, value in (("top", top), ("rows", rows), ("model_batch", model_batch)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise BadSetting(f"{name}={value!r}, wanted a whole number of at least 1.")
        self.loading = Loading(str(explainer), model, Asking(None if classes is None else tuple(map(str, classes)), model_batch))
        self.loading.check()
        self.types = dict(keys) if isinstance(keys, Mapping) else None
        for name, kind in (self.types or {}).items():
            if kind not in KINDS:
                raise BadSetting(f"keys has the type {kind!r} for {name!r}, wanted one of {', '.join(KINDS)}.")
        self.given = Given(
            text_column, None if columns is None else tuple(columns), ids_column, None if keys is None else tuple(keys)
        )
        self.top, self.wide, self.rows = top, wide, rows

    def __repr__(self) -> str:
        model = self.loading.model if isinstance(self.loading.model, str) else type(self.loading.model).__name__
        return f"Explain({self.loading.explainer!r}, model={model!r})"

    def __call__(self, batch: Any) -> Any:
        """The weights of a batch's rows as an Arrow table."""
        return self.table(as_frame(batch))

    def table(self, frame: Any, first: int = 0) -> Any:
        """The same for a frame whose first row has this number."""
        pa = extra("pyarrow", "table")
        kept = KEPT_HERE.get(self.loading)
        with kept.lock:
            roles, form, layout = self._matched(kept.saved, frame)
            wanted = layout.schema().append(pa.field(ERROR, pa.string()))
            numbers = np.arange(first, first + len(frame))
            cells = frame[list(roles.wanted)].reset_index(drop=True)
            portion = Portion(first, first + len(frame), numbers, cells, {})
            made = [
                piece_of(kept.saved, kept.patience, piece, roles, form, layout, wanted) for piece in portion.pieces(self.rows)
            ]
        return pa.concat_tables([wanted.empty_table(), *made])

    def _matched(self, saved: Saved, frame: Any) -> tuple[Roles, Form, Layout]:
        """What the columns are, how the model takes them, and what is written of them."""
        box = saved.explainer.box_
        if box.features.kind == "image":
            raise BadFeatures(
                "A batch holds tables, texts or token ids, and this explainer was fitted on images. Name their files instead: "
                "aimwise explain ... --data FOLDER --engine ray."
            )
        source = FrameSource("the batch", frame=frame)
        roles, form = matched(source, box.blackbox, self.given, Said(), fitted=saved)
        types = self.types if self.types is not None else batch_types(frame, roles.keys)
        return replace(roles, label=None), form, layout_of(saved.explainer, types, wide=self.wide, top=self.top)


def batch_types(frame: Any, names: Sequence[str]) -> dict[str, str]:
    """The type of each key column: that of the column where it has one, else that of its cells."""
    told = {name: KEY_TYPES.get(getattr(frame[name].dtype, "kind", "O")) for name in names}
    return {name: kind or key_types(frame, [name], untyped=False)[name] for name, kind in told.items()}


def piece_of(saved: Saved, patience: Patience, piece: Portion, roles: Roles, form: Form, layout: Layout, wanted: Any) -> Any:
    """The lines of some rows, with one line for each that failed, in the order of the rows."""
    pa = extra("pyarrow", "table")
    rows, failed = read(piece, roles, form), dict[int, str]()
    found = list(explained(saved.explainer, rows, {}, failed, patience))
    failed |= rows.broken
    lines = [wanted.empty_table()]
    if found:
        good, made = together(found, rows)
        table = as_table(made, layout, good.numbers, good.keys)
        lines.append(table.append_column(wanted.field(ERROR), pa.nulls(len(table), pa.string())))
    if failed:
        lines.append(failures(piece, failed, roles, wanted))
    table = pa.concat_tables(lines)
    return table.take(np.argsort(table["row"].to_numpy(), kind="stable")) if failed else table


def failures(piece: Portion, failed: Mapping[int, str], roles: Roles, wanted: Any) -> Any:
    """One line for each row that failed: its number, its keys and the reason."""
    pa = extra("pyarrow", "table")
    numbers = np.array(sorted(failed))
    at = np.searchsorted(piece.numbers, numbers)
    known: dict[str, Any] = {"row": numbers, ERROR: [failed[n] for n in numbers.tolist()]}
    for name in roles.keys:
        cells = piece.frame[name].iloc[at].tolist()
        known[name] = [None if c is None or c != c else str(c) if wanted.field(name).type == pa.string() else c for c in cells]
    none = {name: pa.nulls(len(numbers), wanted.field(name).type) for name in wanted.names if name not in known}
    return pa.table([pa.array(known[n], wanted.field(n).type) if n in known else none[n] for n in wanted.names], schema=wanted)


def as_frame(batch: Any) -> Any:
    """A batch as a frame of plain types, as a file of it would be read."""
    pa, pd = extra("pyarrow", "table"), extra("pandas", "table")
    if isinstance(batch, pa.Table | pa.RecordBatch):
        return batch.to_pandas()
    if isinstance(batch, Mapping):
        return pd.DataFrame({name: list(v) if np.ndim(v) > 1 else v for name, v in batch.items()})
    if not isinstance(batch, pd.DataFrame):
        raise BadFeatures(f"Got a batch of {type(batch).__name__}, wanted a frame, an Arrow table or a dict of arrays.")
    if any(isinstance(dtype, pd.ArrowDtype) for dtype in batch.dtypes):
        return pa.Table.from_pandas(batch, preserve_index=False).replace_schema_metadata().to_pandas()
    return batch


def explain_frame(
    frame: Any,
    explainer: str | Path,
    *,
    model: Any,
    keys: Sequence[str] | Mapping[str, str] | None = None,
    text_column: str | None = None,
    columns: Sequence[str] | None = None,
    ids_column: str | None = None,
    top: int | None = None,
    wide: bool = False,
    rows: int = 1024,
    classes: Sequence[str] | None = None,
    model_batch: int | None = None,
) -> Any:
    """The weights of a frame's rows as a frame; what is said beside is what `Explain` takes."""
    explain = Explain(
        explainer,
        model=model,
        keys=keys,
        text_column=text_column,
        columns=columns,
        ids_column=ids_column,
        top=top,
        wide=wide,
        rows=rows,
        classes=classes,
        model_batch=model_batch,
    )
    return explain(frame).to_pandas()


@dataclass(frozen=True, eq=False)
class InPandas:
    """A function of an iterator of frames, as Spark's mapInPandas wants it, with the columns of `SCHEMA`."""

    explain: Explain
    keys: tuple[str, ...] = ()

    def __call__(self, frames: Iterable[Any]) -> Iterator[Any]:
        """The weights of every frame's rows; they are numbered over the whole partition, and partitions apart."""
        first = partition() << PARTITION
        for frame in frames:
            yield fixed(self.explain.table(as_frame(frame), first), self.keys).to_pandas()
            first += len(frame)


def explain_in_pandas(
    explainer: str | Path,
    *,
    model: Any,
    keys: Sequence[str] = (),
    text_column: str | None = None,
    columns: Sequence[str] | None = None,
    ids_column: str | None = None,
    top: int | None = None,
    rows: int = 1024,
    classes: Sequence[str] | None = None,
    model_batch: int | None = None,
) -> InPandas:
    """A function for Spark's mapInPandas, with `SCHEMA`, or with schema({"id": "int64"}) where keys=["id"] are kept.

    `row` is what monotonically_increasing_id() gives a row before it is explained. The rest is as `Explain` takes it.
    """
    explain = Explain(
        explainer,
        model=model,
        keys=tuple(keys),
        text_column=text_column,
        columns=columns,
        ids_column=ids_column,
        top=top,
        rows=rows,
        classes=classes,
        model_batch=model_batch,
    )
    return InPandas(explain, tuple(keys))


def partition() -> int:
    """The number of the partition that this process is working on, 0 outside of Spark."""
    if "pyspark" not in sys.modules:
        return 0
    task = sys.modules["pyspark"].TaskContext.get()
    return 0 if task is None else int(task.partitionId())


def fixed(table: Any, keys: Sequence[str]) -> Any:
    """A table with the columns of `SCHEMA`: values as strings, places in a text empty where there is no text."""
    pa = extra("pyarrow", "table")
    made = {name: table[name] for name in ("row", *keys)}
    for name, kind in FIXED.items():
        wanted = getattr(pa, ARROW[kind])()
        made[name] = table[name].cast(wanted) if name in table.column_names else pa.nulls(len(table), wanted)
    return pa.table(made).combine_chunks()  # Spark takes no columns of several pieces
