"""What fit, explain and evaluate share: the model that was named, the rows, their roles, and the form the model takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aimwise.blackbox import BlackBox, OnnxBox, SklearnBox, TextBox, TorchBox
from aimwise.blackbox.named import Asking, by_name
from aimwise.cli.desk import Desk
from aimwise.errors import BadFeatures, BadFile, BadSetting, extra
from aimwise.explainers.base import Explainer
from aimwise.explainers.saved import CONFIG, load
from aimwise.features import Columns, Features, Patches, Pixels, Segments, Tokens, Words
from aimwise.files import read_json
from aimwise.io.inputs import Form, types_of
from aimwise.io.loose import FilesSource
from aimwise.io.opened import opened
from aimwise.io.roles import Given, Hints, Roles, roles_of
from aimwise.io.sources import Source

ROLES = "roles.json"
PATCHES = 8  # a side, where nothing else is said


@dataclass(frozen=True, eq=False)
class Work:
    """All that is needed to read inputs for a model."""

    box: BlackBox
    source: Source
    roles: Roles
    form: Form


def model_of(options: argparse.Namespace) -> BlackBox:
    """The model that was named."""
    headers = {}
    for one in options.http_header:
        name, found, value = one.partition("=")
        if not found or not name:
            raise BadSetting(f"Got --http-header {one!r}, wanted NAME=env:VARIABLE.")
        headers[name] = value
    return by_name(
        options.model,
        asking=Asking(
            class_names=options.classes,
            batch_size=options.model_batch,
            timeout=options.http_timeout,
            retries=options.http_retries,
            headers=headers,
        ),
    )


def loaded(options: argparse.Namespace, box: BlackBox) -> tuple[Explainer, Roles | None, Form | None]:
    """A saved explainer, and the roles and the form it was fitted with if the command line fitted it."""
    explainer = load(options.explainer, box)
    kept = Path(options.explainer) / ROLES
    if not kept.is_file():
        return explainer, None, None
    about = read_json(kept)
    try:
        return explainer, Roles.restored(about["roles"]), Form.restored(about["form"])
    except (KeyError, TypeError, ValueError) as e:
        raise BadFile(f"{kept} is damaged ({type(e).__name__}: {e}). Fit the explainer again.") from e


def opened_source(options: argparse.Namespace, places: Sequence[str]) -> Source:
    """The rows of these places, read as the options say."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(options.delimiter or "", options.delimiter)
    return opened(places, format=options.format, delimiter=delimiter)


def prepared(
    options: argparse.Namespace, box: BlackBox, desk: Desk, explainer: Explainer | None, before: Roles | None, form: Form | None
) -> Work:
    """The rows with their roles and form, told to the user; wrong columns are refused here."""
    source = opened_source(options, options.data)
    given = Given(options.text_column, options.columns, options.ids_column, options.key, options.label)
    features = explainer.box_.features if explainer is not None else None
    roles = roles_of(source, given, hints_of(box, features, before))
    if features is not None and suited(features) != roles.kind:
        raise BadFeatures(
            f"The explainer was fitted on {suited(features)} inputs, and {source.called} holds {roles.kind} inputs."
        )
    made = form_of(options, box, source, roles, form)
    if isinstance(features, Columns):
        made, roles = fitted_form(features, made), fitted_columns(features, source, roles)
    total = "" if source.total is None else f", {source.total:,} rows"
    desk.note(f"data: {source.called} ({source.format}{total})")
    for line in (*roles.lines(), *form_lines(roles, made)):
        desk.note(f"  {line}")
    return Work(box, source, roles, made)


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


def form_of(options: argparse.Namespace, box: BlackBox, source: Source, roles: Roles, before: Form | None) -> Form:
    """How the model takes its inputs: as said, as when the explainer was fitted, or as its kind usually does."""
    if before is None:
        floats = isinstance(box, TorchBox) or (isinstance(box, OnnxBox) and box.takes == "table")
        flat = (
            isinstance(box, SklearnBox) and not hasattr(box.model, "feature_names_in_") and hasattr(box.model, "n_features_in_")
        )
        before = Form(table="array" if floats or flat else "frame", precision="float32" if floats else "float64")
        if roles.kind == "image":
            before = picture_form(box, source, before)
    said = {
        "table": options.table_as,
        "pictures": options.images_as,
        "size": options.image_size,
        "mode": options.image_mode,
    }
    return replace(before, **{name: value for name, value in said.items() if value is not None})


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


def learned_types(form: Form, source: Source, roles: Roles, frame: Any) -> Form:
    """Types for the columns of a format that has none."""
    if roles.kind != "table" or not source.untyped:
        return form
    types = types_of(frame, roles.inputs)
    if form.table == "array":
        types = dict.fromkeys(types, "float64")
    return replace(form, types=types)


def form_lines(roles: Roles, form: Form) -> list[str]:
    """The form in words."""
    if roles.kind == "table":
        return [f"handed over as: {'a DataFrame' if form.table == 'frame' else f'an array of {form.precision}'}"]
    if roles.kind == "image" and form.size is not None:
        kinds = {"array": "whole numbers", "chw": "floats, channels first", "hwc": "floats, channels last", "pil": "PIL images"}
        colour = "grey" if form.mode == "L" else "colour"
        return [f"handed over as: {form.size[0]}x{form.size[1]} {colour}, {kinds[form.pictures]}"]
    return []


def features_of(name: str | None, fill: str | None, work: Work) -> Features:
    """The features that were named as words, columns, patches:7, pixels, segments:50 or tokens, or the usual ones."""
    kind, form = work.roles.kind, work.form
    usual = {"text": "words", "table": "columns", "image": "patches", "ids": "tokens"}[kind]
    what, _, number = (name or usual).partition(":")
    fits = {"words": "text", "columns": "table", "patches": "image", "pixels": "image", "segments": "image", "tokens": "ids"}
    if what not in fits or (number and not number.isdigit()) or (number and what not in ("patches", "segments")):
        raise BadSetting(f"Got --features {name}, wanted words, columns, patches:7, pixels, segments:50 or tokens.")
    if fits[what] != kind:
        raise BadSetting(
            f"Got --features {name}, but the inputs are of the kind {kind!r}. Leave it out, or say what the inputs are."
        )
    given: dict[str, Any] = {} if fill is None else {"fill": fill}
    if what == "words":
        return Words(**{"fill": work.box.word_fill, **given})
    if what == "tokens":
        return Tokens(pad=form.pad, **given)
    if what == "columns":
        return Columns(column_names=work.roles.inputs if form.table == "array" else None, **given)
    axes = {"array": "HW" if form.mode == "L" else "HWC", "chw": "CHW", "hwc": "HWC", "pil": None}[form.pictures]
    shown = dict(given, axes=axes) if axes is not None else given
    if what == "pixels":
        return Pixels(**shown)
    if what == "segments":
        return Segments(int(number or 50), **shown)
    side = int(number) if number else max(1, round(min(form.size or (56, 56)) / PATCHES))
    return Patches(side, **shown)


def fingerprint(options: argparse.Namespace, work: Work) -> dict[str, Any]:
    """What a run must have in common with one that it goes on with."""
    from aimwise.files import sha256

    return {
        "explainer": sha256(Path(options.explainer) / CONFIG),
        "model": options.model,
        "classes": options.classes,
        "data": [str(Path(p).absolute()) if p != "-" else p for p in options.data],
        "format": work.source.format,
        "roles": work.roles.config(),
        "form": work.form.config(),
    }
