"""What fit, explain and evaluate share: the model that was named, the rows, their roles, and the form the model takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aimwise.blackbox import BlackBox
from aimwise.blackbox.named import Asking, by_name
from aimwise.cli.desk import Desk
from aimwise.errors import BadSetting
from aimwise.explainers.saved import CONFIG
from aimwise.features import Columns, Features, Patches, Pixels, Segments, Tokens, Words
from aimwise.io.inputs import Form, types_of
from aimwise.io.opened import opened
from aimwise.io.roles import Given, Roles
from aimwise.io.sources import Source
from aimwise.matched import Said, Saved, matched

PATCHES = 8  # a side, where nothing else is said


@dataclass(frozen=True, eq=False)
class Work:
    """All that is needed to read inputs for a model."""

    box: BlackBox
    source: Source
    roles: Roles
    form: Form


def asking_of(options: argparse.Namespace) -> Asking:
    """How the model that was named is asked."""
    headers = {}
    for one in options.http_header:
        name, found, value = one.partition("=")
        if not found or not name:
            raise BadSetting(f"Got --http-header {one!r}, wanted NAME=env:VARIABLE.")
        headers[name] = value
    return Asking(
        class_names=options.classes,
        batch_size=options.model_batch,
        timeout=options.http_timeout,
        retries=options.http_retries,
        headers=headers,
    )


def model_of(options: argparse.Namespace) -> BlackBox:
    """The model that was named."""
    return by_name(options.model, asking=asking_of(options))


def opened_source(options: argparse.Namespace, places: Sequence[str]) -> Source:
    """The rows of these places, read as the options say."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(options.delimiter or "", options.delimiter)
    return opened(places, format=options.format, delimiter=delimiter)


def prepared(options: argparse.Namespace, box: BlackBox, desk: Desk, fitted: Saved | None) -> Work:
    """The rows with their roles and form, told to the user; wrong columns are refused here."""
    source = opened_source(options, options.data)
    given = Given(options.text_column, options.columns, options.ids_column, options.key, options.label)
    said = Said(options.table_as, options.images_as, options.image_size, options.image_mode)
    roles, made = matched(source, box, given, said, fitted=fitted)
    total = "" if source.total is None else f", {source.total:,} rows"
    desk.note(f"data: {source.called} ({source.format}{total})")
    for line in (*roles.lines(), *form_lines(roles, made)):
        desk.note(f"  {line}")
    return Work(box, source, roles, made)


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
