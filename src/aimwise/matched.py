"""What brings rows, a model and a saved explainer together: which columns are its inputs, and in which form it takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aimwise.blackbox import BlackBox, OnnxBox, SklearnBox, TextBox, TorchBox
from aimwise.errors import BadFeatures, BadFile, extra
from aimwise.explainers.base import Explainer
from aimwise.explainers.saved import load
from aimwise.features import Columns, Features, Tokens, Words
from aimwise.files import read_json
from aimwise.io.inputs import Form
from aimwise.io.loose import FilesSource
from aimwise.io.roles import Given, Hints, Roles, roles_of
from aimwise.io.sources import Source
from aimwise.io.written import Layout

ROLES = "roles.json"
NUMBERS = ("int", "uint", "float", "bool")


@dataclass(frozen=True)
class Said:
    """What the user says of the form in which the model takes its inputs; None is not said."""

    table: str | None = None
    pictures: str | None = None
    size: tuple[int, int] | None = None
    mode: str | None = None


@dataclass(frozen=True, eq=False)
class Saved:
    """A saved explainer with its model, and the roles and the form it was fitted with if the command line fitted it."""

    explainer: Explainer
    roles: Roles | None = None
    form: Form | None = None


def saved(folder: str | Path, box: BlackBox) -> Saved:
    """The explainer of a folder for a model."""
    explainer = load(folder, box)
    kept = Path(folder) / ROLES
    if not kept.is_file():
        return Saved(explainer)
    about = read_json(kept)
    try:
        return Saved(explainer, Roles.restored(about["roles"]), Form.restored(about["form"]))
    except (KeyError, TypeError, ValueError) as e:
        raise BadFile(f"{kept} is damaged ({type(e).__name__}: {e}). Fit the explainer again.") from e


def matched(source: Source, box: BlackBox, given: Given, said: Said, *, fitted: Saved | None = None) -> tuple[Roles, Form]:
    """The roles of a source's columns and the form of its inputs; wrong columns are refused here."""
    features = fitted.explainer.box_.features if fitted is not None else None
    roles = roles_of(source, given, hints_of(box, features, fitted.roles if fitted is not None else None))
    if features is not None and suited(features) != roles.kind:
        raise BadFeatures(
            f"The explainer was fitted on {suited(features)} inputs, and {source.called} holds {roles.kind} inputs."
        )
    form = form_of(said, box, source, roles, fitted.form if fitted is not None else None)
    if isinstance(features, Columns):
        return fitted_columns(features, source, roles), fitted_form(features, form)
    return roles, form


def layout_of(explainer: Explainer, keys: dict[str, str], *, wide: bool, top: int | None) -> Layout:
    """The layout of a file of what an explainer says, whatever the rows are."""
    features = explainer.box_.features
    names = features.names
    numbers = names is not None
    if isinstance(features, Columns):
        columns = features.facts_.columns
        numbers = len(features.names) == len(columns) and all(c.dtype.lower().startswith(NUMBERS) for c in columns)
    return Layout(
        keys=keys,
        classes=explainer.classes_,
        method=explainer.method,
        base=tuple(explainer.base_.tolist()),
        names=names,
        numbers=numbers,
        spans=isinstance(features, Words),
        wide=wide,
        top=top,
    )


def suited(features: Features) -> str:
    """The kind of inputs that features are taken from."""
    return "ids" if isinstance(features, Tokens) else features.kind


def hints_of(box: BlackBox, features: Features | None, before: Roles | None) -> Hints:
    """What the explainer and the model tell of the columns."""
    if before is not None:
        return Hints(before.kind, None, before)
    if isinstance(features, Columns):
        named = not all(c.name.startswith("column ") for c in features.facts_.columns)
        return Hints("table", tuple(c.name for c in features.facts_.columns) if named else None)
    if features is not None:
        return Hints(suited(features))
    if isinstance(box, TextBox):
        return Hints("text")
    if isinstance(box, OnnxBox):
        kind = {"texts": "text", "ids": "ids", "images": "image"}.get(box.takes, "table")
        return Hints(kind, tuple(one.name for one in box.inputs) if box.takes == "columns" else None)
    learned = getattr(box.model, "feature_names_in_", None) if isinstance(box, SklearnBox) else None
    return Hints("table", tuple(map(str, learned))) if learned is not None else Hints()


def form_of(said: Said, box: BlackBox, source: Source, roles: Roles, before: Form | None) -> Form:
    """How the model takes its inputs: as said, as when the explainer was fitted, or as its kind usually does."""
    if before is None:
        floats = isinstance(box, TorchBox) or (isinstance(box, OnnxBox) and box.takes == "table")
        flat = (
            isinstance(box, SklearnBox) and not hasattr(box.model, "feature_names_in_") and hasattr(box.model, "n_features_in_")
        )
        before = Form(table="array" if floats or flat else "frame", precision="float32" if floats else "float64")
        if roles.kind == "image":
            before = picture_form(box, source, before)
    given: dict[str, Any] = {"table": said.table, "pictures": said.pictures, "size": said.size, "mode": said.mode}
    return replace(before, **{name: value for name, value in given.items() if value is not None})


def picture_form(box: BlackBox, source: Source, form: Form) -> Form:
    """Images in the size and mode of the first, as the model usually takes them."""
    opener = extra("PIL.Image", "image")
    assert isinstance(source, FilesSource)
    try:
        with opener.open(source.paths[0]) as first:
            size, mode = (first.height, first.width), "L" if first.mode in ("1", "L", "I", "F", "I;16") else "RGB"
    except OSError as e:
        raise BadFile(
            f"{source.paths[0]} is not an image that can be read. Remove it, or say --image-size and --image-mode."
        ) from e
    taken = "chw" if isinstance(box, TorchBox) else "array"
    if isinstance(box, OnnxBox):
        size = box.size or size
        taken = ("hwc" if box.channels_last else "chw") if box.floats else "array"
        channels = box.inputs[0].shape[3 if box.channels_last else 1] if len(box.inputs[0].shape) == 4 else 1
        mode = {1: "L", 3: "RGB"}.get(channels, mode) if isinstance(channels, int) else mode
    return replace(form, size=size, mode=mode, pictures=taken)


def fitted_form(features: Columns, form: Form) -> Form:
    """Tables in the types that the explainer learned."""
    columns = features.facts_.columns
    table = "frame" if features.facts_.framed else "array"
    precision = form.precision if features.facts_.framed or not columns[0].dtype else columns[0].dtype
    return replace(form, table=table, precision=precision, types={c.name: c.dtype for c in columns})


def fitted_columns(features: Columns, source: Source, roles: Roles) -> Roles:
    """The columns that the explainer was fitted on, in their order; an array of as many is taken as it is."""
    names = tuple(c.name for c in features.facts_.columns)
    if features.facts_.framed:
        source.require(names)
        return replace(roles, inputs=names)
    if len(roles.inputs) != len(names):
        raise BadFeatures(
            f"The explainer was fitted on {len(names)} columns, got {len(roles.inputs)}: {', '.join(roles.inputs[:20])}. "
            "Say which: --columns a,b."
        )
    return roles
