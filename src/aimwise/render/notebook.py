"""Explanations inside a notebook: HTML without a script or a style sheet, readable where even inline styles are taken out."""

from __future__ import annotations

import math
from html import escape

from aimwise.explanation import Explanation
from aimwise.render.html import breakable, cell, percent, signed, writable
from aimwise.render.text import passage, shade_scale, strongest

ROWS = 5
TOP = 10
CELLS = 20
CLASSES = 8
FOR, AGAINST = "0,114,178", "213,94,0"
SHADE = 0.5  # how opaque the strongest word is
ROW = "margin:12px 0;padding-top:8px;border-top:1px solid rgba(128,128,128,.4)"
CELL = "text-align:left;padding:1px 12px 1px 0;border:0;background:none;white-space:normal"


def inline(explanation: Explanation) -> str:
    """The evidence for the predicted class of the first rows, as HTML that needs nothing around it."""
    rows, d, c = explanation.weights.shape
    reading = explanation.names is None
    what = "" if reading else f", {d:,} features"
    parts = [f"<p>Explanation by <b>{escape(explanation.method)}</b>: {rows:,} row{'s' * (rows != 1)}{what}, {c:,} classes</p>"]
    if reading and rows:
        parts.append(
            f"<p>{word('Blue words', 1.0, 1.0, False)} speak for the class, {word('orange words', -1.0, 1.0, False)} against it. "
            f"The top {TOP} words are <b><u>bold and underlined</u></b>.</p>"
        )
    scale = shade_scale(explanation.weights[:ROWS], explanation.present[:ROWS])
    for i in range(min(rows, ROWS)):
        top = strongest(explanation, i, TOP)
        body = (text(explanation, i, top, scale) if reading else "") + listed(explanation, i, top)
        parts.append(f'<div style="{ROW}">{head(explanation, i)}{body}</div>')
    if rows > ROWS:
        parts.append(f"<p>{rows - ROWS:,} more row{'s' * (rows - ROWS > 1)} not shown; to_html writes a page of them.</p>")
    # Amounts such as $5 are not mathematics: these names tell MathJax to leave them.
    body = "".join(parts)
    return writable(f'<div class="tex2jax_ignore mathjax_ignore" style="max-width:60em;line-height:1.5">{body}</div>')


def head(explanation: Explanation, i: int) -> str:
    """The predicted class and a bar for every class, the most probable ones where there are many."""
    c, probs = int(explanation.prediction[i]), explanation.probs[i].tolist()
    trust = "" if explanation.check is None else f", agreement {float(explanation.check.agreement[i]):.2f}"
    order = range(len(probs)) if len(probs) <= CLASSES else sorted(range(len(probs)), key=lambda k: -probs[k])[:CLASSES]
    body = "".join(
        line(escape(explanation.classes[k]), percent(probs[k]), "128,128,128", CELLS * probs[k], bold=k == c) for k in order
    )
    more = f"<p>and {len(probs) - CLASSES:,} less probable classes</p>" if len(probs) > CLASSES else ""
    said = f"<b><bdi>{escape(explanation.classes[c])}</bdi></b> {escape(percent(probs[c]))}{trust}"
    return f'<p style="margin:0 0 4px">Row {i}: {said}</p>{table(body)}{more}'


def text(explanation: Explanation, i: int, top: list[int], scale: float) -> str:
    """The text of a row with its words shaded for the predicted class."""
    read, weights = passage(explanation, i), explanation.towards()[i].tolist()
    pieces = [broken(piece) if j is None else word(piece, weights[j], scale, j in set(top)) for piece, j in read.pieces()]
    tail = broken(read.tail)
    if read.beyond:
        tail = f'<span style="opacity:.6">{tail}</span>'
    note = f'<p style="opacity:.7"><i>{read.note}.</i></p>' if read.note else ""
    box = "white-space:pre-wrap;max-height:20em;overflow-y:auto;margin:8px 0;line-height:1.7"
    return f'<div dir="auto" style="{box}">{"".join(pieces)}{tail}</div>{note}'


def word(piece: str, weight: float, scale: float, top: bool) -> str:
    """One word on a ground as strong as its weight."""
    share = min(1.0, abs(weight) / scale) if scale and math.isfinite(weight) else 0.0
    ground = f"background-color:rgba({AGAINST if weight < 0 else FOR},{SHADE * share:.2f});border-radius:3px"
    said = f"<b><u>{broken(piece)}</u></b>" if top else broken(piece)
    return f'<span style="{ground}">{said}</span>' if share >= 0.02 else said


def listed(explanation: Explanation, i: int, top: list[int]) -> str:
    """The strongest features with their weights."""
    weights, names = explanation.towards()[i].tolist(), explanation.names
    scale = max((abs(weights[j]) for j in top if math.isfinite(weights[j])), default=0.0)
    if not top:
        return f"<p>This {'text has no words' if names is None else 'row has no features'}.</p>"
    lines = []
    for j in top:
        value = escape(cell(explanation.values[i, j]))
        name = value if names is None else f"{breakable(names[j])} = <bdi>{value}</bdi>"
        length = CELLS * abs(weights[j]) / scale if scale and math.isfinite(weights[j]) else 0.0
        lines.append(line(name, signed(weights[j], scale), AGAINST if weights[j] < 0 else FOR, length))
    said = f"Evidence for <b><bdi>{escape(explanation.classes[int(explanation.prediction[i])])}</bdi></b>"
    return f'<p style="margin:8px 0 4px">{said}</p>{table("".join(lines))}'


def line(name: str, number: str, colour: str, cells: float, *, bold: bool = False) -> str:
    """A name, a number and a bar of block characters, which no sanitiser takes away."""
    bar = "█" * round(cells) if math.isfinite(cells) else ""
    name, number = (f"<b>{said}</b>" if bold else said for said in (f"<bdi>{name}</bdi>", escape(number)))
    return (
        f'<tr style="background:none"><td style="{CELL}">{name}</td>'
        f'<td style="{CELL};text-align:right;white-space:nowrap">{number}</td>'
        f'<td style="{CELL};color:rgb({colour});letter-spacing:-1px;white-space:nowrap">{bar}</td></tr>'
    )


def table(body: str) -> str:
    """Lines under each other, without frames."""
    return f'<table style="border:0;border-collapse:collapse;margin:0"><tbody>{body}</tbody></table>'


def broken(piece: str) -> str:
    """Escaped text whose line breaks hold even where white space does not."""
    return escape(piece).replace("\r\n", "\n").replace("\n", "<br>")
