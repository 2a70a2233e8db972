"""Figures of a few rows for papers, slides and notebooks; this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation, Target
from aimwise.files import write_whole
from aimwise.render.charts import charts
from aimwise.render.panels import pictures
from aimwise.render.sheet import Plan
from aimwise.render.views import checked_truth, kind

ROWS = 12
CLASSES = 6
FORMATS: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def drawn(
    explanation: Explanation,
    *,
    target: Target = None,
    classes: int | Sequence[str | int] | None = None,
    truth: Iterable[Any] | None = None,
    k: int | None = None,
    columns: int | None = None,
) -> Figure:
    """The evidence in the first rows: pictures under overlays, or bars for words and columns."""
    seen, image = explanation[:ROWS], kind(explanation) == "image"
    if not len(seen):
        raise BadSetting("This explanation has no rows, wanted at least one to draw.")
    for name, value, least in (("k", k, 0), ("columns", columns, 1)):
        if value is not None and value < least:
            raise BadSetting(f"{name}={value}, wanted {least} or more.")
    tried = 0 if explanation.trial is None else explanation.trial.k
    plan = Plan(
        seen,
        shown_classes(seen, None if target is None else explanation.classes_of(target)[:ROWS].tolist(), classes),
        (tried if image else 10) if k is None else k,
        (CLASSES + 3 if image else 3) if columns is None else columns,
        None if truth is None else checked_truth(truth, explanation)[:ROWS],
        len(explanation),
    )
    return pictures(plan) if image else charts(plan)


def saved(figure: Figure, path: Path) -> None:
    """Write the figure whole, in the format that the file's name asks for."""
    end = path.suffix.lower()
    write_whole(path, lambda beside: figure.savefig(beside, format=end[1:], dpi=200, metadata=FORMATS[end]))


def checked_path(path: str | Path) -> Path:
    """A path whose ending names a format."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise BadSetting(f"Got the path {str(path)!r}, wanted a name that ends in {', '.join(FORMATS)}.")
    return path


def shown_classes(
    explanation: Explanation, first: list[int] | None, classes: int | Sequence[str | int] | None
) -> list[list[int]]:
    """The classes that are drawn of each row: those asked for, or the most probable; the meant or the predicted one first."""
    ranked: list[list[int]] = explanation.probs.argsort(dim=1, descending=True, stable=True).tolist()
    if isinstance(classes, str):
        raise BadSetting(f"classes={classes!r}, wanted a list of classes or how many. Use classes=[{classes!r}].")
    if classes is not None and not isinstance(classes, int):
        named = [int(explanation[0].classes_of(each)[0]) for each in classes]
        if not named:
            raise BadSetting("classes is empty, wanted at least one class.")
        ranked = [named] * len(explanation)
    most = CLASSES if classes is None else classes if isinstance(classes, int) else len(explanation.classes)
    if most < 1:
        raise BadSetting(f"classes={most}, wanted at least one class.")
    starts = [[]] * len(ranked) if first is None else [[c] for c in first]
    return [list(dict.fromkeys([*start, *order]))[:most] for start, order in zip(starts, ranked, strict=True)]
