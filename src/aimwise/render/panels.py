"""Figures of pictures: each input, the evidence for its classes over it, and what is left in a trial; needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aimwise.explanation import Explanation
from aimwise.render.colours import INK, colour
from aimwise.render.overlays import layer, over, painted, speaking
from aimwise.render.say import fitted, loudest, percent, signed
from aimwise.render.sheet import BAD, DOTS, GAP, MARGIN, SMALL, SMALLEST, SOFT, TRACK, Plan, Sheet
from aimwise.render.views import View, shade_scale

SURE = 3  # so many classes have a bar under each picture, and those that the trial made probable
WIDE, TITLE, BAR = 1.3, 0.46, 0.15  # in inches


@dataclass(frozen=True)
class Panel:
    """A picture with a title, for a class on its colour, and what the black box says of it."""

    values: np.ndarray
    name: str
    title: str
    below: str = ""
    about: int | None = None
    wrong: bool = False
    probs: list[float] | None = None


def pictures(plan: Plan) -> Figure:
    """A line of pictures for each row: the input, the evidence for each class, and the two pictures of a trial."""
    e = plan.explanation
    scale = shade_scale(e.weights, e.present)
    lines: list[tuple[int, list[Panel]]] = []
    for i in range(len(e)):
        made = panels(plan, i, scale)
        lines += [(i, made[at : at + plan.columns]) for at in range(0, len(made), plan.columns)]
    assert e.images is not None
    tall = WIDE * min(max(e.images.shape[1] / e.images.shape[2], 0.3), 3.0)
    bars = [probable(e, i) for i in range(len(e))]
    heights = [TITLE + tall + 1.5 * GAP + BAR * len(bars[i]) * any(p.probs for p in each) for i, each in lines]
    width = max(2 * MARGIN + max(len(each) for _, each in lines) * (WIDE + GAP) - GAP, 5.2)
    sheet = Sheet(width, MARGIN + sum(heights) + 0.62 + 0.2 * bool(plan.foot))
    y = MARGIN
    for (i, each), height in zip(lines, heights, strict=True):
        for n, panel in enumerate(each):
            x = MARGIN + n * (WIDE + GAP)
            titled(sheet, panel, x + WIDE / 2, y)
            sheet.picture(x, y + TITLE, WIDE, tall, panel.values, panel.name)
            if panel.probs is not None:
                room = (x, y + TITLE + tall + GAP / 2, WIDE, BAR * len(bars[i]))
                probabilities(sheet.room(*room, f"{panel.name} probabilities"), e, panel.probs, bars[i])
        y += height
    legend(sheet, y, scale, plan)
    return sheet.figure


def panels(plan: Plan, i: int, scale: float) -> list[Panel]:
    """The pictures of one row, in their order."""
    e, trial = plan.explanation, plan.explanation.trial
    assert e.images is not None
    predicted, probs = int(e.prediction[i]), e.probs[i].tolist()
    below, wrong = "", False
    if plan.truths is not None:
        truth, wrong = e.classes[plan.truths[i]], plan.truths[i] != predicted
        below = f"{'✗ ' * wrong}truth: {fitted(truth, 13)}"
    out = [Panel(e.images[i], f"input {i}", f"Row {i}", below, wrong=wrong, probs=None if trial is None else probs)]
    for n, c in enumerate(plan.classes[i]):
        view = replace(View.one(e, c), scale=scale)
        top = speaking(e, i, plan.k, c) if n == 0 else ()
        out.append(Panel(painted(e, i, view, side=DOTS, top=top), f"class {c} of {i}", e.classes[c], percent(probs[c]), c))
    if trial is not None and trial.kept_images is not None and trial.rest_images is not None:
        out += [
            Panel(trial.kept_images[i], f"kept {i}", "Only", f"the top {trial.k}", probs=trial.kept[i].tolist()),
            Panel(trial.rest_images[i], f"rest {i}", "Without", f"the top {trial.k}", probs=trial.rest[i].tolist()),
        ]
    return out


def titled(sheet: Sheet, panel: Panel, x: float, y: float) -> None:
    """The two lines over a picture."""
    if panel.about is None:
        sheet.say(x, y + 0.1, panel.title, ha="center", fontweight="bold")
    else:
        sheet.chip(x, y + 0.1, fitted(panel.title, 18), panel.about, ha="center")
    look = {"color": BAD, "fontweight": "bold"} if panel.wrong else {"color": SOFT}
    sheet.say(x, y + 0.32, panel.below, ha="center", fontsize=SMALL, **look)


def probable(e: Explanation, i: int) -> list[int]:
    """The classes that have a bar: the most probable of the row, and what the trial made of it."""
    if e.trial is None:
        return []
    ranked = e.probs[i].argsort(descending=True, stable=True).tolist()
    return list(dict.fromkeys([*ranked[:SURE], int(e.trial.kept[i].argmax()), int(e.trial.rest[i].argmax())]))


def probabilities(room: Axes, e: Explanation, probs: Sequence[float], classes: Sequence[int]) -> None:
    """A bar for each of some classes, with its name and its number."""
    best = max(range(len(probs)), key=lambda c: probs[c])
    room.set(xlim=(0, 1), ylim=(len(classes) - 0.5, -0.5))
    look: dict[str, Any] = {"fontsize": SMALLEST, "va": "center_baseline", "parse_math": False}
    for n, c in enumerate(classes):
        weight = "bold" if c == best else "normal"
        room.text(0.43, n, fitted(e.classes[c], 11), ha="right", color=INK if c == best else SOFT, fontweight=weight, **look)
        room.barh(n, 0.22, left=0.46, height=0.56, color=TRACK)
        share = probs[c] if math.isfinite(probs[c]) else 0.0
        room.barh(n, 0.22 * share, left=0.46, height=0.56, color=colour(c).light, edgecolor=colour(c).line, linewidth=0.5)
        room.text(1, n, percent(probs[c]), ha="right", color=INK if c == best else SOFT, fontweight=weight, **look)


def legend(sheet: Sheet, y: float, scale: float, plan: Plan) -> None:
    """The scale that all overlays share, and how to read them."""
    wide, x, e = 2.0, MARGIN + 0.1, plan.explanation
    if scale:
        strip = np.tile(np.arange(240), (24, 1))
        values = over(np.full((24, 240, 3), 255), layer(strip, np.linspace(-scale, scale, 240), np.full(240, -1), scale))
        sheet.picture(x, y, wide, 0.18, values, "scale")
        beyond = "≥ " * bool((e.weights.abs() > scale).any())
        for at, tick in ((0, signed(-scale, scale)), (1, "0"), (2, beyond + signed(scale, scale))):
            sheet.say(x + wide * at / 2, y + 0.29, tick, ha="center", fontsize=SMALLEST, color=SOFT)
        x += wide + 0.35
    said = ["Weights, one scale for all: filled speaks for the class, hatched against it."]
    if plan.k:
        said.append(f"Outlined: {loudest(plan.k)} for the first class.")
    if sheet.width - x > 7:
        said = [" ".join(said)]
    for n, each in enumerate(said):
        sheet.say(x, y + 0.1 + 0.16 * n, each, fontsize=SMALL, color=SOFT)
    sheet.say(MARGIN, sheet.height - 0.12, plan.foot, fontsize=SMALL, color=SOFT)
