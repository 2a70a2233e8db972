"""Lines on one axis: a metric against the number of features, and the epochs of a training; this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from aimwise.render.axes import axes
from aimwise.render.colours import INK, PALETTE
from aimwise.render.sheet import RULE, SMALL, SOFT, TRACK

MARKS = "osD^vPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))


@dataclass(frozen=True)
class Line:
    """The values of one method against K, and between which each lies."""

    name: str
    ks: tuple[int, ...]
    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


def curves(lines: Sequence[Line], ax: Axes | None, *, title: str, unit: str) -> Axes:
    """A line with its band for each method, each in a colour, a dash and a mark of its own."""
    ax = axes(ax, 5.2, 3.6)
    for i, line in enumerate(lines):
        tone = PALETTE[i % len(PALETTE)].line
        look = {"marker": MARKS[i % len(MARKS)], "linestyle": DASHES[i // len(PALETTE) % len(DASHES)], "markersize": 5}
        ax.plot(line.ks, line.means, color=tone, label=line.name, **look)
        ax.fill_between(line.ks, line.lows, line.highs, color=tone, alpha=0.15, linewidth=0)
    ax.set_xticks(sorted({k for line in lines for k in line.ks}))
    ax.set_xlabel("K, features", fontsize=SMALL, color=SOFT)
    ax.set_ylabel(unit, fontsize=SMALL, color=SOFT)
    ax.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
    plain(ax)
    made = ax.legend(loc="best", fontsize=SMALL, frameon=False)
    for said in made.get_texts():
        said.set_parse_math(False)
    return ax


def history(epochs: Sequence[Mapping[str, Any]], ax: Axes | None, *, best: int) -> Axes:
    """The agreement on held-out rows of every epoch, the kept one marked, beside what no weights would give, and the loss."""
    ax = axes(ax, 5.6, 3.4)
    numbers = [int(epoch.get("epoch", i)) + 1 for i, epoch in enumerate(epochs)]
    tone, other = PALETTE[1].line, PALETTE[0].line
    values = [float(epoch.get("agreement", np.nan)) for epoch in epochs]
    ax.plot(numbers, values, color=tone, marker="o", markersize=4)
    ax.plot(numbers[best], values[best], marker="o", markersize=10, markerfacecolor="none", color=INK)
    ax.annotate(
        f"kept: {values[best]:.2f}",
        (numbers[best], values[best]),
        (0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=SMALL,
    )
    without = [float(epoch["without"]) for epoch in epochs if "without" in epoch]
    if without:
        ax.axhline(without[-1], color=SOFT, linewidth=1, linestyle=(0, (2, 2)))
        ax.annotate("no weights", (numbers[0], without[-1]), (0, 3), textcoords="offset points", fontsize=SMALL, color=SOFT)
    ax.margins(y=0.18)
    ax.set_xlabel("epoch", fontsize=SMALL, color=SOFT)
    ax.set_ylabel("agreement on held-out rows", fontsize=SMALL, color=tone)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    plain(ax)
    if all("loss" in epoch for epoch in epochs):
        right = ax.twinx()
        right.plot(
            numbers, [float(epoch["loss"]) for epoch in epochs], color=other, linestyle=(0, (5, 1.5)), marker="s", markersize=3
        )
        right.set_ylabel("loss (dashed)", fontsize=SMALL, color=other)
        plain(right)
        right.grid(visible=False)
        right.spines["right"].set_visible(True)
    ax.set_title("Training", loc="left", fontsize=10, color=INK)
    return ax


def plain(ax: Axes) -> None:
    """Pale lines across, and no frame."""
    ax.grid(axis="y", color=TRACK, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL)
    for side in ax.spines.values():
        side.set_color(RULE)
    for name in ("top", "right"):
        ax.spines[name].set_visible(False)
