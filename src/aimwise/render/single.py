"""Plots of one input on one axis: its words, its picture, and how its score comes about; this module needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation
from aimwise.render.axes import LETTERS, axes, signed_look, titled
from aimwise.render.colours import INK, NEUTRAL, colour, mixed
from aimwise.render.dataset import only_row
from aimwise.render.overlays import painted, speaking
from aimwise.render.say import cell, fitted, percent, signed
from aimwise.render.sheet import DOTS, RULE, SMALL, SOFT
from aimwise.render.text import passage
from aimwise.render.views import View, kind

WORD = 9.0  # points of a word
LEADING = 1.75  # of its lines


def waterfall(explanation: Explanation, ax: Axes | None, *, target: str | int | None, top: int) -> Axes:
    """From where sums begin, feature by feature, to the score of the class: log-odds that add up."""
    e = only_row(explanation, "waterfall")
    if top < 1:
        raise BadSetting(f"top={top}, wanted at least one feature.")
    c, view = int(e.classes_of(target)[0]), View.one(e, target)
    weights = np.nan_to_num(view.weights[0].double().numpy(), posinf=0, neginf=0) * e.present[0].numpy()
    order = view.strongest(0, top)
    steps = [(name(e, j), float(weights[j])) for j in order]
    left = int(e.present[0].sum()) - len(order)
    if left:
        steps.append((f"{left:,} other{'s' * (left > 1)}", float(weights.sum()) - sum(w for _, w in steps)))
    ax, tone = axes(ax, 6.4, 1.2 + 0.32 * len(steps)), colour(c)
    at = start = float(e.base[c])
    scale = max((abs(w) for _, w in steps), default=0.0)
    ends = [at]
    for place, (_, weight) in enumerate(steps):
        ax.barh(place, weight, left=at, height=0.6, zorder=2, **signed_look(weight, tone if place < len(order) else NEUTRAL))
        ax.plot([at, at], [place - 1 if place else -0.7, place], color=RULE, linewidth=0.8, zorder=1)
        at += weight
        ends.append(at)
    room = (max(ends) - min(ends)) or 1.0
    for place, (_, weight) in enumerate(steps):
        right = weight >= 0
        edge = ends[place + 1] + (0.012 if right else -0.012) * room
        ax.text(edge, place, signed(weight, scale), va="center", ha="left" if right else "right", fontsize=SMALL, color=INK)
    ax.plot([at, at], [len(steps) - 1, len(steps) - 0.3], color=INK, linewidth=1)
    ax.set_yticks(range(len(steps)), [said for said, _ in steps])
    for label in ax.get_yticklabels():
        label.set(parse_math=False, fontsize=8.5, color=INK)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(steps) - 0.2, -0.8)
    ax.set_xlim(min(ends) - 0.14 * room, max(ends) + 0.14 * room)
    said = f"log-odds: no feature {start:.2f}, all of them {at:.2f}; the black box says {percent(float(e.probs[0, c]))}"
    titled(ax, e.classes[c], said)
    return ax


def name(e: Explanation, j: int) -> str:
    """A feature as it is called in a plot of one row."""
    value = cell(e.values[0, j])
    if e.names is None:
        return fitted(value, LETTERS)
    if kind(e) == "image":
        return fitted(e.names[j], LETTERS)
    value = fitted(value, LETTERS // 2)
    return f"{fitted(e.names[j], max(4, LETTERS - 3 - len(value)))} = {value}"


def image(explanation: Explanation, ax: Axes | None, *, target: str | int | None, k: int) -> Axes:
    """The picture in pale grey under the evidence for a class, filled for it, hatched against it, the top k outlined."""
    e = only_row(explanation, "image")
    if kind(e) != "image":
        raise BadSetting(f"plots.image wants an explanation of images, got features of the kind {kind(e)!r}.")
    c = int(e.classes_of(target)[0])
    ax = axes(ax, 3.4, 3.6)
    ax.imshow(painted(e, 0, View.one(e, c), side=DOTS, top=speaking(e, 0, k, c)), interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    titled(ax, e.classes[c], f"filled speaks for it, hatched against it; probability {percent(float(e.probs[0, c]))}")
    for side in ax.spines.values():
        side.set(visible=True, color=RULE, linewidth=0.6)
    return ax


def text(explanation: Explanation, ax: Axes | None, *, target: str | int | None, top: int) -> Axes:
    """The text with its words on grounds as strong as their weight, dashed under where they speak against the class."""
    e = only_row(explanation, "text")
    if kind(e) != "text":
        raise BadSetting(f"plots.text wants an explanation of texts, got features of the kind {kind(e)!r}.")
    c, view, read = int(e.classes_of(target)[0]), View.one(e, target), passage(e, 0)
    lines = max(2, len(read.text) // 85 + 2)
    ax = axes(ax, 7.0, 0.7 + lines * WORD * LEADING / 72)
    titled(ax, e.classes[c], "")
    ax.set_axis_off()
    first, weights = set(view.strongest(0, top)), view.weights[0].tolist()
    pen = Pen(ax, colour(c).light, colour(c).line)
    for piece, j in read.pieces():
        if j is None:
            pen.gap(piece)
        else:
            share = min(1.0, abs(weights[j]) / view.scale) if view.scale and np.isfinite(weights[j]) else 0.0
            pen.word(piece, share, against=weights[j] < 0, bold=j in first)
    pen.gap(read.tail)
    if read.note:
        pen.word(f"[{read.note}]", 0.0, soft=True)
    return ax


class Pen:
    """Writes words into an axis, line under line, and leaves off where it is full."""

    def __init__(self, ax: Axes, ground: str, line: str) -> None:
        self.ax, self.ground, self.line = ax, ground, line
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.draw_without_rendering()  # a layout moves axes only then
        self.box: Bbox = ax.get_window_extent()
        self.dot = ax.figure.dpi / 72
        self.x, self.y = 0.0, 0.0  # in dots from the upper left corner
        self.space = 0.28 * WORD * self.dot
        self.full = False

    def gap(self, between: str) -> None:
        """What stands between two words; a line break breaks the line."""
        said = between.strip()
        if "\n" in between and not said:
            self.down()
        for piece in said.split():
            self.word(piece, 0.0, close=not between[:1].isspace())
        if between[-1:].isspace():
            self.x += self.space

    def down(self) -> None:
        self.x, self.y = 0.0, self.y + WORD * LEADING * self.dot
        self.full = self.full or self.y > self.box.height - WORD * self.dot

    def word(
        self, said: str, share: float, *, against: bool = False, bold: bool = False, close: bool = False, soft: bool = False
    ) -> None:
        """One word with its ground, or dashes under it."""
        if self.full:
            return
        look: dict[str, Any] = {"fontsize": WORD, "va": "baseline", "parse_math": False, "color": SOFT if soft else INK}
        node = self.ax.text(0, 0, said, fontweight="bold" if bold else "normal", transform=None, **look)
        wide = node.get_window_extent().width
        if self.x + wide > self.box.width and self.x > 0:
            self.down()
        if self.full:
            node.set_text("…")
        x, y = self.box.x0 + self.x, self.box.y1 - self.y - WORD * self.dot
        place = self.ax.transAxes.inverted().transform((x, y))
        node.set(position=place, transform=self.ax.transAxes)
        if share > 0.05 and not self.full:
            self.mark(place, wide / self.box.width, share, against)
        self.x += wide

    def mark(self, place: np.ndarray, wide: float, share: float, against: bool) -> None:
        """The ground of a word, or the dashes under it."""
        x, y = place
        unit = self.dot / self.box.height
        if against:
            dashes: dict[str, Any] = {
                "color": self.line,
                "linewidth": 0.8 + share,
                "linestyle": (0, (3, 2)),
                "alpha": min(1.0, 0.35 + share),
            }
            self.ax.plot([x, x + wide], [y - 2.4 * unit] * 2, transform=self.ax.transAxes, clip_on=False, **dashes)
            return
        from matplotlib.patches import Rectangle

        box = (x, y - 2.6 * unit), wide, WORD * 1.32 * unit
        self.ax.add_patch(
            Rectangle(*box, color=mixed(self.ground, "#ffffff", share), linewidth=0, transform=self.ax.transAxes, zorder=0.5)
        )
