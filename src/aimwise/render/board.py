"""A table of scores inside a notebook: HTML without a script or a style sheet, readable even without its inline styles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from aimwise.render.say import writable

Cell = tuple[float, float, float, bool] | None  # mean, low, high, whether none is better
HEAD = "padding:4px 12px 4px 0;border:0;border-bottom:1px solid rgba(128,128,128,.5);background:none;font-weight:normal"
CELL = "padding:3px 12px 3px 0;border:0;background:none"


def board(methods: Sequence[str], lines: Sequence[tuple[tuple[str, str, str], str, str, Sequence[Cell]]], note: str = "") -> str:
    """A line for each metric, K and fill, a column for each method; the best of each line is bold and marked."""
    heads = "".join(head(name, "left" if n in (0, 2) else "right") for n, name in enumerate(("metric", "K", "fill", *methods)))
    body, before = "", ""
    for (metric, better, unit), k, fill, cells in lines:
        arrow = "↑" if better == "higher" else "↓"
        name = f"{escape(metric)}&nbsp;{arrow} <small>{escape(unit)}</small>" if metric != before else ""
        before = metric
        row = cell(name, "left") + cell(escape(k), "right") + cell(escape(fill), "left")
        body += f'<tr style="background:none">{row}{"".join(cell(score(each), "right") for each in cells)}</tr>'
    said = "<p>★ and bold: none is better. ± is half the width of the 95 % interval. ↑ more is better, ↓ less is better."
    said += f" {escape(note)}</p>"
    table = (
        '<table style="border:0;border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums">'
        f'<thead><tr style="background:none">{heads}</tr></thead><tbody>{body}</tbody></table>'
    )
    return writable(f'<div class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto;line-height:1.5">{table}{said}</div>')


def head(name: str, align: str) -> str:
    """A column's name."""
    return f'<th style="{HEAD};text-align:{align}">{escape(name)}</th>'


def cell(said: str, align: str) -> str:
    """One cell."""
    return f'<td style="{CELL};text-align:{align};white-space:nowrap">{said}</td>'


def score(found: Cell) -> str:
    """A mean with half the width of its interval."""
    if found is None or not math.isfinite(found[0]):
        return "" if found is None else "-"
    mean, low, high, best = found
    spread = (high - low) / 2
    said = f"{mean:.3f}"
    said = f"<b>★ {said}</b>" if best else said
    return said + (f" <small>±{spread:.3f}</small>" if math.isfinite(spread) else "")
