"""A sheet of paper for figures, measured in inches, and what a figure is to show; this module needs matplotlib."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from aimwise.explanation import Explanation
from aimwise.render.colours import INK, colour

SOFT, BAD, RULE, TRACK = "#5a6270", "#8a2766", "#b9bcc2", "#f0f0eb"
SIZE, SMALL, SMALLEST = 9.0, 7.5, 7.0  # of letters, in points
MARGIN, GAP = 0.2, 0.16  # in inches
DOTS = 320  # of a picture's longer side


class Drawn(Figure):
    """A figure that a notebook shows, whether or not it has set up matplotlib."""

    def _repr_png_(self) -> bytes:
        held = io.BytesIO()
        self.savefig(held, format="png", dpi=144)
        return held.getvalue()


class Sheet:
    """A figure on which things are placed in inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Drawn(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(self.figure)

    def room(self, x: float, y: float, width: float, height: float, name: str) -> Axes:
        """Axes without lines, which are called by this name."""
        place = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        made = self.figure.add_axes(place, label=name)
        made.set_axis_off()
        return made

    def say(self, x: float, y: float, text: str, **look: Any) -> None:
        """Text, the middle of whose height is there; nothing in it is taken for mathematics."""
        look = {"color": INK, "fontsize": SIZE, "va": "center_baseline", "parse_math": False, **look}
        self.figure.text(x / self.width, 1 - y / self.height, text, **look)

    def chip(self, x: float, y: float, name: str, c: int, **look: Any) -> None:
        """The name of a class on its colour."""
        box = {"boxstyle": "round,pad=0.28", "facecolor": colour(c).light, "edgecolor": "none"}
        self.say(x, y, name, bbox=box, **look)

    def picture(self, x: float, y: float, width: float, height: float, values: np.ndarray, name: str) -> Axes:
        """A picture in a thin frame, its pixels sharp where there are few."""
        room = self.room(x, y, width, height, name)
        room.set_axis_on()
        room.set_xticks([])
        room.set_yticks([])
        for side in room.spines.values():
            side.set(color=RULE, linewidth=0.6)
        few = max(values.shape[:2]) <= DOTS
        room.imshow(values, cmap="gray", vmin=0, vmax=255, aspect="auto", interpolation="nearest" if few else "antialiased")
        return room


@dataclass(frozen=True)
class Plan:
    """What is drawn of each row: its classes, the first of them first, and how many features stand out."""

    explanation: Explanation
    classes: list[list[int]]
    k: int
    columns: int
    truths: list[int] | None
    total: int

    @property
    def foot(self) -> str:
        """What the reader must know of the rows that are not drawn."""
        rows = len(self.explanation)
        return f"The first {rows} of {self.total:,} rows." if rows < self.total else ""
