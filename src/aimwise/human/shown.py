"""What participants see of an input: its key words, its top columns with their values, or its kept patches with the rest grey."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.overlays import scene
from aimwise.render.png import uri
from aimwise.render.views import kind as kind_of

GREY = 128
MOST = 480  # pixels of a picture's longer side


def shown(explanation: Explanation, k: int, *, target: int | None = None) -> Any:
    """The k features of one input that speak most for the predicted class, or for the one given, the strongest first."""
    order = explanation.order(target)[0]
    chosen = [int(i) for i in order[:k] if explanation.present[0, i]]
    what = kind_of(explanation)
    if what == "image":
        return uri(kept(explanation, chosen))
    if what == "text":
        return [str(explanation.values[0, i]) for i in chosen]
    assert explanation.names is not None
    return [[explanation.names[i], cell(explanation.values[0, i])] for i in chosen]


def kept(explanation: Explanation, chosen: list[int]) -> np.ndarray:
    """The picture of one input where only some of its parts are seen."""
    seen = scene(explanation, 0, most=MOST)
    inside = np.isin(seen.regions, chosen)
    out: np.ndarray = np.where(inside if seen.picture.ndim == 2 else inside[..., None], seen.picture, GREY).astype(np.uint8)
    return out


def cell(value: Any) -> str:
    """A value of a table as people read it."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "missing"
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)
