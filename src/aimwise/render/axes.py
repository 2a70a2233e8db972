"""Plots of a data set on one axis: bars, a swarm of points, a heat map; this module needs matplotlib."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from aimwise.explanation import Explanation, Target
from aimwise.render.colours import INK, NEUTRAL, Colour, colour
from aimwise.render.dataset import Feature, called, leading, meant
from aimwise.render.overlays import shrunk, thinned
from aimwise.render.say import fitted
from aimwise.render.sheet import RULE, SMALL, SOFT, TRACK
from aimwise.render.views import kind

LETTERS = 28  # of a name
SIGNED = LinearSegmentedColormap.from_list("aimwise", ["#1f4e9e", "#8fb4ea", "#f7f7f4", "#f3b26a", "#a04a00"])
STRENGTH = "cividis"  # from low to high, the same order for eyes of every kind
BINS = 70  # of the width of a swarm, within which points stand above each other
SIDE = 320  # pixels of a mean picture's longer side


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axis that was given, or one on a new figure of pyplot."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    made: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return made


def bar(explanation: Explanation, ax: Axes | None, *, target: Target, top: int) -> Axes:
    """A bar for the mean weight of each leading feature, over a pale one for its mean size."""
    features, c = leading(explanation, target, top=top), meant(explanation, target)
    ax = axes(ax, 6.4, 0.9 + 0.3 * len(features))
    tone = NEUTRAL if c is None else colour(c)
    places = np.arange(len(features))
    sizes = [f.size for f in features]
    if len(explanation) > 1:
        ax.barh(places, sizes, height=0.74, color=TRACK, edgecolor=RULE, linewidth=0.5, zorder=1)
        ax.barh(places, [-s for s in sizes], height=0.74, color=TRACK, edgecolor=RULE, linewidth=0.5, zorder=1)
    for place, f in zip(places, features, strict=True):
        ax.barh(place, f.mean, height=0.5, zorder=2, **signed_look(f.mean, tone))
    named(ax, explanation, features)
    unit = "weight" if len(explanation) == 1 else "mean weight where present; pale: mean size"
    titled(ax, called(explanation, target), unit)
    ax.axvline(0, color=INK, linewidth=0.8, zorder=3)
    return ax


def beeswarm(explanation: Explanation, ax: Axes | None, *, target: Target, top: int) -> Axes:
    """A point for every row's weight of each leading feature, shaded by the feature's value where that is a number."""
    from matplotlib.cm import ScalarMappable

    features, c = leading(explanation, target, top=top), meant(explanation, target)
    ax = axes(ax, 6.8, 1.0 + 0.36 * len(features))
    tone = NEUTRAL if c is None else colour(c)
    span = max((float(np.abs(f.weights).max(initial=0)) for f in features), default=0.0) or 1.0
    shaded = False
    for place, f in enumerate(features):
        shades = f.shades() if kind(explanation) == "table" else None
        look: dict[str, Any] = {"color": tone.line}
        if shades is not None:
            shaded = True
            look = {"c": shades, "cmap": STRENGTH, "vmin": 0, "vmax": 1, "plotnonfinite": True}
        ax.scatter(f.weights, place + lifts(f.weights, span), s=9, linewidths=0, zorder=2, **look)
    named(ax, explanation, features)
    ax.grid(axis="y", color=TRACK, linewidth=0.8, zorder=0)
    titled(ax, called(explanation, target), "weight in each row")
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    if shaded:
        strip = ax.figure.colorbar(ScalarMappable(cmap=STRENGTH), ax=ax, aspect=30, pad=0.02)
        strip.set_ticks([0, 1], labels=["low", "high"])
        strip.ax.tick_params(labelsize=SMALL, length=0)
        strip.set_label("value of the feature", fontsize=SMALL, color=SOFT, labelpad=-12)
        strip.outline.set_visible(False)
    return ax


def heatmap(explanation: Explanation, ax: Axes | None, *, target: Target, top: int) -> Axes:
    """The weights of the leading features in every row, surest rows first; of images the mean over their pixels."""
    if kind(explanation) == "image":
        return mean_picture(explanation, ax, target=target)
    features = leading(explanation, target, top=top)
    ax = axes(ax, 1.6 + 0.34 * len(features), 4.6)
    chance = explanation.probs.gather(1, explanation.classes_of(target)[:, None])[:, 0].numpy()
    place = np.empty(len(explanation), dtype=np.int64)
    place[np.argsort(-chance, kind="stable")] = np.arange(len(explanation))
    sums, counts = np.zeros((2, len(explanation), len(features)))
    for j, f in enumerate(features):
        np.add.at(sums[:, j], place[f.rows], f.weights)  # a word that comes twice in a text
        np.add.at(counts[:, j], place[f.rows], 1)
    values = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    drawn(ax, values, aspect="auto")
    ax.set_xticks(range(len(features)), [fitted(f.name, LETTERS) for f in features], rotation=40, ha="right", fontsize=SMALL)
    for label in ax.get_xticklabels():
        label.set(parse_math=False, rotation_mode="anchor")
    ax.set_ylabel(f"{len(explanation):,} rows, the surest first", fontsize=SMALL, color=SOFT)
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.tick_params(axis="y", labelsize=SMALL, colors=SOFT)
    titled(ax, called(explanation, target), "")
    return ax


def mean_picture(explanation: Explanation, ax: Axes | None, *, target: Target) -> Axes:
    """The mean weight of every pixel over all rows."""
    assert explanation.regions is not None
    weights = np.nan_to_num(explanation.towards(target).double().numpy(), posinf=0, neginf=0) * explanation.present.numpy()
    total: np.ndarray | float = 0.0
    for i in range(len(explanation)):
        regions = explanation.regions[i if len(explanation.regions) > 1 else 0]
        total = total + weights[i][thinned(regions, SIDE)] / len(explanation)
    ax = axes(ax, 4.4, 3.8)
    drawn(ax, np.asarray(total), aspect="equal")
    if explanation.images is not None:
        mean = explanation.images.astype(np.float64).mean(0)
        mean = shrunk(np.rint(mean if mean.ndim == 2 else mean.mean(-1)).astype(np.uint8), SIDE)
        if mean.min() < mean.max():
            ax.contour(mean, levels=[float(mean.min()) / 2 + float(mean.max()) / 2], colors=[INK], linewidths=0.8)
    ax.set_xticks([])
    ax.set_yticks([])
    titled(ax, called(explanation, target), f"mean over {len(explanation):,} rows; the line is their mean picture")
    return ax


def drawn(ax: Axes, values: np.ndarray, *, aspect: Literal["equal", "auto"]) -> None:
    """Weights in two colours that differ for eyes of every kind, with their scale; what is not there stays grey."""
    scale = float(np.nanpercentile(np.abs(values), 99)) if np.isfinite(values).any() else 0.0
    shown = ax.imshow(
        values,
        cmap=SIGNED.with_extremes(bad="#e2e2dc"),
        vmin=-scale or -1,
        vmax=scale or 1,
        aspect=aspect,
        interpolation="nearest",
    )
    strip = ax.figure.colorbar(shown, ax=ax, aspect=30, pad=0.02)
    strip.ax.tick_params(labelsize=SMALL, colors=SOFT)
    strip.set_label("against, weight, for", fontsize=SMALL, color=SOFT)
    strip.outline.set_visible(False)
    for side in ax.spines.values():
        side.set_visible(False)


def lifts(weights: np.ndarray, span: float) -> np.ndarray:
    """How far above or below its line each point stands, so that points of like weight stand beside each other."""
    bins = np.round(weights / span * BINS / 2).astype(np.int64)
    out = np.zeros(len(weights))
    most = max(np.unique(bins, return_counts=True)[1], default=1)
    step = min(0.09, 0.8 / most)
    for each in np.unique(bins):
        where = np.flatnonzero(bins == each)
        ranks = np.arange(len(where))
        out[where] = step * np.where(ranks % 2, (ranks + 1) // 2, -(ranks // 2))
    return out


def signed_look(weight: float, tone: Colour) -> dict[str, Any]:
    """A bar filled where it speaks for the class, hatched where against it."""
    fill: dict[str, Any] = {"color": tone.light} if weight >= 0 else {"facecolor": "white", "hatch": "//////"}
    return {**fill, "edgecolor": tone.line, "linewidth": 0.6}


def named(ax: Axes, explanation: Explanation, features: list[Feature]) -> None:
    """The features' names down the side, words with their number."""
    several = explanation.names is None and len(explanation) > 1
    names = [fitted(f.name, LETTERS) + (f"  ×{len(f.weights):,}" if several else "") for f in features]
    ax.set_yticks(range(len(features)), names)
    ax.set_ylim(len(features) - 0.4, -0.6)
    for label in ax.get_yticklabels():
        label.set(parse_math=False, fontsize=8.5, color=INK)
    ax.tick_params(axis="y", length=0)


def titled(ax: Axes, name: str, unit: str) -> None:
    """A title to the left, the unit below, and no frame."""
    ax.set_title(f"Evidence for {fitted(name, 40)}", loc="left", fontsize=10, color=INK, parse_math=False)
    if unit:
        ax.set_xlabel(unit, fontsize=SMALL, color=SOFT)
    ax.tick_params(axis="x", labelsize=SMALL)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(RULE)
