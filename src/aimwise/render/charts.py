"""Figures of words and columns: a chart of bars for each class of each row; this module needs matplotlib."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aimwise.explanation import Explanation
from aimwise.render.axes import signed_look
from aimwise.render.colours import INK, colour
from aimwise.render.say import cell, fitted, largest, percent, signed
from aimwise.render.sheet import BAD, GAP, MARGIN, RULE, SMALL, SMALLEST, SOFT, Plan, Sheet
from aimwise.render.views import View

NAME, BARS, NUMBER, LINE, TITLE, HEAD = 1.35, 1.35, 0.5, 0.2, 0.32, 0.42  # in inches
WIDE = NAME + BARS + NUMBER
LETTERS = 22  # of a name


@dataclass(frozen=True)
class Chart:
    """The strongest features of a row for one class, the largest first."""

    row: int
    about: int
    bars: list[tuple[str, float]]


def charts(plan: Plan) -> Figure:
    """A heading for each row, and under it the features that speak for and against its classes, all on one scale."""
    e = plan.explanation
    made = [[chart(e, i, c, plan.k) for c in classes] for i, classes in enumerate(plan.classes)]
    sizes = [abs(w) for row in made for each in row for _, w in each.bars if math.isfinite(w)]
    scale = max(sizes, default=0.0)
    lines = [[row[at : at + plan.columns] for at in range(0, len(row), plan.columns)] for row in made]
    heights = [[TITLE + LINE * max(1, *(len(each.bars) for each in line)) + GAP for line in row] for row in lines]
    width = 2 * MARGIN + max(len(line) for row in lines for line in row) * (WIDE + 2 * GAP) - 2 * GAP
    foot = 0.3 + 0.2 * bool(plan.foot)
    sheet = Sheet(max(width, 5.2), MARGIN + sum(HEAD + sum(row) + GAP for row in heights) + foot)
    y = MARGIN
    for i, (row, tall) in enumerate(zip(lines, heights, strict=True)):
        heading(sheet, plan, i, y)
        y += HEAD
        for line, height in zip(row, tall, strict=True):
            for n, each in enumerate(line):
                x = MARGIN + n * (WIDE + 2 * GAP)
                sheet.chip(x + NAME + BARS / 2, y + 0.08, fitted(e.classes[each.about], 18), each.about, ha="right")
                said = percent(float(e.probs[i, each.about]))
                sheet.say(x + NAME + BARS / 2 + 0.1, y + 0.08, said, fontsize=SMALL, color=SOFT)
                size = LINE * max(1, len(each.bars))
                bars(sheet.room(x, y + TITLE, WIDE, size, f"class {each.about} of {i}"), each, scale)
            y += height
        y += GAP
    said = f"Filled speaks for the class, hatched against it; one scale for all: each class has {largest(plan.k, 'weight')}."
    sheet.say(MARGIN, y + 0.04, said, fontsize=SMALL, color=SOFT)
    sheet.say(MARGIN, sheet.height - 0.12, plan.foot, fontsize=SMALL, color=SOFT)
    return sheet.figure


def chart(e: Explanation, i: int, c: int, k: int) -> Chart:
    """The k features of a row with the largest weights for a class, of either sign."""
    view, names = View.one(e, c), e.names
    top = view.strongest(i, k)
    values = [fitted(cell(e.values[i, j]), LETTERS if names is None else LETTERS // 2) for j in top]
    if names is not None:
        values = [f"{fitted(names[j], LETTERS - 3 - len(v))} = {v}" for j, v in zip(top, values, strict=True)]
    return Chart(i, c, [(said, float(view.weights[i, j])) for said, j in zip(values, top, strict=True)])


def bars(room: Axes, chart: Chart, scale: float) -> None:
    """A bar for each feature, to the right where it speaks for the class, to the left where against it."""
    room.set(xlim=(0, WIDE), ylim=(max(1, len(chart.bars)) - 0.5, -0.5))
    middle, tone = NAME + BARS / 2, colour(chart.about)
    look: dict[str, Any] = {"fontsize": SMALL, "va": "center_baseline", "parse_math": False}
    for n, (name, weight) in enumerate(chart.bars):
        room.text(NAME - 0.06, n, name, ha="right", color=INK, **look)
        length = BARS / 2 * weight / scale if scale and math.isfinite(weight) else 0.0
        room.barh(n, length, left=middle, height=0.62, **signed_look(weight, tone))
        room.text(WIDE, n, signed(weight, scale), ha="right", color=SOFT, **{**look, "fontsize": SMALLEST})
    room.plot([middle, middle], [-0.5, max(1, len(chart.bars)) - 0.5], color=RULE, linewidth=0.8)
    if not chart.bars:
        room.text(middle + 0.08, 0, "no features", color=SOFT, **look)


def heading(sheet: Sheet, plan: Plan, i: int, y: float) -> None:
    """The predicted class of a row, the true one, and what a trial found."""
    e = plan.explanation
    c = int(e.prediction[i])
    sheet.say(MARGIN, y + 0.08, f"Row {i}: {fitted(e.classes[c], 30)} {percent(float(e.probs[i, c]))}", fontweight="bold")
    if plan.truths is not None:
        wrong = plan.truths[i] != c
        said = f"{'✗ ' * wrong}truth: {fitted(e.classes[plan.truths[i]], 24)}"
        look = {"color": BAD, "fontweight": "bold"} if wrong else {"color": SOFT}
        sheet.say(sheet.width - MARGIN, y + 0.08, said, ha="right", fontsize=SMALL, **look)
    if e.trial is not None:
        tried = []
        for what, probs in (("Only", e.trial.kept[i]), ("without", e.trial.rest[i])):
            best = int(probs.argmax())
            tried.append(f"{what} the top {e.trial.k}: {fitted(e.classes[best], 18)} {percent(float(probs[best]))}")
        sheet.say(MARGIN, y + 0.26, ", ".join(tried), fontsize=SMALL, color=SOFT)
