"""Explanations in the forms that other libraries' viewers take: shap's own object, and what captum's functions want."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from aimwise.errors import extra
from aimwise.explanation import Explanation, Target
from aimwise.render.text import passage
from aimwise.render.views import kind


def for_shap(explanation: Explanation, target: Target) -> Any:
    """A shap.Explanation of every class, or of one."""
    shap = extra("shap", "rivals")
    e, what = explanation, kind(explanation)
    base = e.base.double().numpy()
    weights = np.nan_to_num(e.weights.double().numpy(), posinf=0, neginf=0) * e.present.numpy()[:, :, None]  # (B, d, C)
    bases = np.repeat(base[None], len(e), 0)
    names: list[str] | None = list(e.classes)
    if target is not None:
        classes = e.classes_of(target).numpy()
        weights = np.take_along_axis(weights, classes[:, None, None], 2)[:, :, 0]  # (B, d)
        bases, names = base[classes], None
    more: dict[str, Any] = {"base_values": bases, "output_names": names}
    if what == "image":
        return shap.Explanation(on_pixels(e, weights), data=pictures(e), **more)
    if what == "text":
        words = [np.array(pieces(e, i), dtype=object) for i in range(len(e))]
        here = [weights[i, [j for j, _, _ in passage(e, i).places]] for i in range(len(e))]
        return shap.Explanation(ragged(here), data=ragged(words), feature_names=ragged(words), **more)
    return shap.Explanation(weights, data=numbers(e), display_data=e.values, feature_names=list(e.names or ()), **more)


def for_captum(explanation: Explanation, target: Target) -> Any:
    """What captum's viewers take of one class: arrays of images, records of texts, an array of columns."""
    e, what = explanation, kind(explanation)
    weights = np.nan_to_num(e.towards(target).double().numpy(), posinf=0, neginf=0) * e.present.numpy()  # (B, d)
    if what == "image":
        return on_pixels(e, weights), pictures(e)
    if what == "table":
        return weights
    extra("captum", "rivals")
    from captum.attr import visualization

    classes, out = e.classes_of(target).tolist(), []
    for i in range(len(e)):
        places = passage(e, i).places
        said = weights[i, [j for j, _, _ in places]]
        c, p = classes[i], int(e.prediction[i])
        size = float(np.abs(said).max(initial=0.0)) or 1.0  # captum's colours go from -1 to 1
        words = [str(e.values[i, j]) for j, _, _ in places]
        unknown, left = "", float("nan")
        if e.check is not None:
            left = 1 - float(e.check.agreement[i])
        record = visualization.VisualizationDataRecord(
            torch.from_numpy(said / size),
            float(e.probs[i, p]),
            e.classes[p],
            unknown,
            e.classes[c],
            float(said.sum()),
            words,
            left,
        )
        out.append(record)
    return out


def on_pixels(e: Explanation, weights: np.ndarray) -> np.ndarray:
    """The weight of every pixel's region, shared out over its pixels: (B, h, w, 1) and the classes, if there are several."""
    assert e.regions is not None
    out = []
    for i in range(len(e)):
        regions = e.regions[i if len(e.regions) > 1 else 0]
        sizes = np.bincount(regions.ravel(), minlength=weights.shape[1]).clip(1)
        share = (weights[i].T / sizes).T  # what is added up over the pixels is the weight again
        out.append(share[regions][:, :, None])
    return np.stack(out) if out else np.zeros((0, *e.regions.shape[1:], 1, *weights.shape[2:]))


def pictures(e: Explanation) -> np.ndarray:
    """The inputs as images with a last axis of colours, (B, h, w, 1) or (B, h, w, 3), of 0 to 1."""
    assert e.images is not None
    images = e.images if e.images.ndim == 4 else e.images[..., None]
    return images / 255.0


def pieces(e: Explanation, i: int) -> list[str]:
    """The words of a text, each with what stands before the next one."""
    out: list[str] = []
    for piece, j in passage(e, i).pieces():
        if j is not None:
            out.append(piece)
        elif out:
            out[-1] += piece
    return out


def ragged(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as an array of objects."""
    out = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        out[i] = row
    return out


def numbers(e: Explanation) -> np.ndarray:
    """The values of a table, as floats where all are numbers."""
    try:
        return e.values.astype(np.float64)
    except (TypeError, ValueError):
        return e.values
