"""What each column is for: the text or the features, the keys by which rows are known again, the label; given or detected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aimwise.errors import BadFeatures
from aimwise.io.loose import FOLDER, SIZE, TIME
from aimwise.io.sources import FILE, TEXT, Source

KEYS = re.compile(r"(id|key|uuid|guid|url|file|filename|index|unnamed: 0|.*_(id|key|uuid)|.*Id)", re.IGNORECASE)
LABELS = ("label", "labels", "target", "class", "y", "truth", "category", "sentiment", FOLDER)
TEXTS = ("text", "body", "content", "sentence", "review", "comment", "message", "document", "abstract", "description", "title")
PROSE = 4.0  # words that cells of a text have at least, on average


@dataclass(frozen=True)
class Roles:
    """What each column of a source is for. kind: "text", "table", "image" or "ids"."""

    kind: str
    inputs: tuple[str, ...]
    """The column of the texts or of the ids, the columns that are features, or the files of images."""
    keys: tuple[str, ...] = ()
    label: str | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """All columns that are read."""
        label = () if self.label is None else (self.label,)
        return tuple(dict.fromkeys((*self.inputs, *self.keys, *label)))

    def lines(self) -> list[str]:
        """The roles in words, for people to see before work starts."""
        what = {"text": "text", "table": "features", "image": "images", "ids": "token ids"}[self.kind]
        shown = (FILE,) if self.kind == "image" else self.inputs
        many = f" ({len(shown)})" if len(shown) > 1 else ""
        said = [f"{what}{many}: {', '.join(shown[:12])}{', ...' * (len(shown) > 12)}"]
        said += [f"keys: {', '.join(self.keys)}"] if self.keys else ["keys: none, rows are known by their number"]
        return said + ([f"label: {self.label}"] if self.label is not None else [])

    def config(self) -> dict[str, Any]:
        """The roles as JSON values."""
        return {"kind": self.kind, "inputs": list(self.inputs), "keys": list(self.keys), "label": self.label}

    @classmethod
    def restored(cls, config: Mapping[str, Any]) -> Roles:
        """The roles that `config` was taken from."""
        label = config["label"]
        return cls(str(config["kind"]), tuple(config["inputs"]), tuple(config["keys"]), None if label is None else str(label))


@dataclass(frozen=True)
class Given:
    """What the user says of the columns; None is not said."""

    text: str | None = None
    columns: tuple[str, ...] | None = None
    ids: str | None = None
    keys: tuple[str, ...] | None = None
    label: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Every column that is named."""
        return tuple(n for n in (self.text, *(self.columns or ()), self.ids, *(self.keys or ()), self.label) if n is not None)


@dataclass(frozen=True)
class Hints:
    """What is known beside the data. kind: what the explainer or the model takes. columns: those it was trained on.

    before: the roles with which the explainer was fitted.
    """

    kind: str | None = None
    columns: tuple[str, ...] | None = None
    before: Roles | None = None


def roles_of(source: Source, given: Given, hints: Hints) -> Roles:
    """The role of every column: as given, as when the explainer was fitted, or else as the names and first rows tell."""
    source.require(given.named)
    if source.format == "images":
        label = given.label or (FOLDER if FOLDER in source.columns else None)
        return Roles("image", (FILE, SIZE, TIME), given.keys or (FILE,), label)
    if source.format in ("lines", "texts"):
        keys = given.keys if given.keys is not None else (FILE,) if FILE in source.columns else ()
        return Roles("text", (TEXT,), keys, given.label or (FOLDER if FOLDER in source.columns else None))
    kind, inputs = inputs_of(source, given, hints)
    free = [name for name in source.columns if name not in inputs and name not in given.named]
    label, before = given.label, hints.before
    if label is None:
        known = (before.label,) if before is not None and before.label is not None else LABELS
        label = next((name for name in free if name in known or name.lower() in known), None)
    keys = tuple(name for name in free if name != label and KEYS.fullmatch(name))
    if before is not None:
        keys = tuple(name for name in before.keys if name in source.columns) or keys
    return Roles(kind, inputs, keys if given.keys is None else given.keys, label)


def inputs_of(source: Source, given: Given, hints: Hints) -> tuple[str, tuple[str, ...]]:
    """The kind of inputs and the columns that hold them."""
    chosen = [("text", given.text), ("ids", given.ids), ("table", given.columns)]
    said = [(kind, (name,) if isinstance(name, str) else tuple(name)) for kind, name in chosen if name]
    if len(said) > 1:
        raise BadFeatures(
            "Got more than one of --text-column, --ids-column and --columns. Say what the inputs are by one of them."
        )
    if said:
        return said[0]
    before = hints.before
    if before is not None:
        source.require(before.inputs)
        return before.kind, before.inputs
    if hints.columns is not None and hints.kind in (None, "table"):
        lacking = [name for name in hints.columns if name not in source.columns]
        if lacking:
            named = f"column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking[:10]))}"
            raise BadFeatures(
                f"The model takes the {named}, which {source.called} has not; "
                f"it has {', '.join(map(repr, source.columns[:20]))}. Rename them, or say --columns."
            )
        return "table", hints.columns
    head = source.head()
    prose = text_column(head, used=(*(given.keys or ()), given.label))
    features = feature_columns(source, given)
    if hints.kind == "text":
        if prose is None:
            raise BadFeatures(
                f"Cannot tell which column of {source.called} holds the texts: {', '.join(map(repr, source.columns))}. "
                "Say it: --text-column NAME."
            )
        return "text", (prose,)
    if hints.kind == "ids":
        raise BadFeatures("The explainer takes token ids. Say which column holds them: --ids-column NAME.")
    if hints.kind is None and prose is not None and set(features) <= {prose, *strings_of(head)}:
        return "text", (prose,)
    if not features:
        raise BadFeatures(f"{source.called} has no columns left for features. Say which: --columns a,b or --text-column NAME.")
    return "table", features


def feature_columns(source: Source, given: Given) -> tuple[str, ...]:
    """All columns but keys and the label."""
    keys = given.keys if given.keys is not None else tuple(n for n in source.columns if KEYS.fullmatch(n))
    label = given.label or next((n for n in source.columns if n.lower() in LABELS), None)
    return tuple(name for name in source.columns if name not in keys and name != label)


def strings_of(head: Any) -> list[str]:
    """The columns of a frame whose cells are strings, as far as one sees."""
    return [str(name) for name in head.columns if any(isinstance(v, str) for v in head[name].dropna().head(50))]


def words_of(column: Any) -> float:
    """How many words the cells of a column have, on average."""
    cells = [v for v in column.dropna().head(200) if isinstance(v, str)]
    return sum(len(v.split()) for v in cells) / len(cells) if cells else 0.0


def text_column(head: Any, used: Sequence[str | None]) -> str | None:
    """The column of texts: the one whose name says so, or the only one of prose; None where that is not certain."""
    strings = [name for name in strings_of(head) if name not in used]
    named = [name for wanted in TEXTS for name in strings if name.lower() == wanted]
    if named:
        return named[0]
    prose = [name for name in strings if words_of(head[name]) >= PROSE]
    return prose[0] if len(prose) == 1 else None
