"""Explanations inside a notebook: HTML without a script or a style sheet, readable where even inline styles are taken out."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.colours import INK, NEUTRAL, Colour, channels, colour, cue, mixed
from aimwise.render.overlays import enlarged, painted, shrunk, speaking
from aimwise.render.png import uri
from aimwise.render.say import breakable, cell, largest, loudest, percent, signed, writable
from aimwise.render.text import passage
from aimwise.render.views import View, kind

ROWS = 5
TOP = 10
CELLS = 20
CLASSES = 8
SURE = 3  # classes beside a picture
DOTS, SIDE = 192, 104  # of a picture's longer side: as it is drawn, and as it is seen
PALE = 0.3  # how opaque a ground may be under text whose colour is not known
FAINT = 0.05  # less than this share of the full strength is not shown
LINES = ("", "solid", "double", "wavy")  # a second mark for classes whose colour was used before
ROW = "margin:12px 0;padding-top:8px;border-top:1px solid rgba(128,128,128,.4)"
CELL = "text-align:left;padding:1px 12px 1px 0;border:0;background:none;white-space:normal"


def inline(explanation: Explanation) -> str:
    """The evidence for the predicted class of the first rows, often also for all classes, as HTML that needs nothing else."""
    rows, d, c = explanation.weights.shape
    image, reading = kind(explanation) == "image", kind(explanation) == "text"
    what = "" if reading else f", {d:,} {'regions' if image else 'features'}"
    parts = [f"<p>Explanation by <b>{escape(explanation.method)}</b>: {rows:,} row{'s' * (rows != 1)}{what}, {c:,} classes</p>"]
    if explanation.check is not None and rows:
        agreement, without = float(explanation.check.agreement.mean()), float(explanation.check.without.mean())
        parts.append(f"<p>Agreement with the black box {agreement:.2f}, {without:.2f} with no weights; 1 is perfect.</p>")
    view, every = View.one(explanation[:ROWS]), View.all(explanation[:ROWS])
    if reading and rows:
        parts.append(legend(view))
    if image and rows:
        parts.append(pictures(explanation, view, every))
    for i in range(0 if image else min(rows, ROWS)):
        body = (text(explanation, i, view) if reading else "") + listed(explanation, i, view)
        if reading and c > 1 and every.strongest(i, 1):
            body += f"<details><summary>All classes at once</summary>{coloured(explanation, i, every)}</details>"
        parts.append(f'<div style="{ROW}">{head(explanation, i)}{body}</div>')
    if rows > ROWS:
        parts.append(f"<p>{rows - ROWS:,} more row{'s' * (rows - ROWS > 1)} not shown; to_html writes a page of them.</p>")
    # Amounts such as $5 are not mathematics: these names tell MathJax to leave them.
    body = "".join(parts)
    return writable(f'<div class="tex2jax_ignore mathjax_ignore" style="max-width:60em;line-height:1.5">{body}</div>')


def legend(view: View) -> str:
    """How to read the words of the predicted class, and the scale."""
    filled, dashed = (word(said, weight, 1.0, NEUTRAL) for said, weight in (("filled", 1.0), ("dashed", -1.0)))
    full = f" Full strength: a weight of {signed(view.scale, view.scale).lstrip('+')} and more." if view.scale else ""
    return (
        f"<p>Words in the colour of the predicted class: {filled} speak for it, {dashed} against it, <b>bold</b> are "
        f"{largest(TOP, 'weight')}.{full}</p>"
    )


def head(explanation: Explanation, i: int) -> str:
    """The predicted class and a bar for every class, the most probable ones where there are many."""
    c, probs = int(explanation.prediction[i]), explanation.probs[i].tolist()
    trust = "" if explanation.check is None else f", agreement {float(explanation.check.agreement[i]):.2f}"
    order = range(len(probs)) if len(probs) <= CLASSES else sorted(range(len(probs)), key=lambda k: -probs[k])[:CLASSES]
    body = "".join(line(escape(explanation.classes[k]), percent(probs[k]), k, CELLS * probs[k], bold=k == c) for k in order)
    more = f"<p>and {len(probs) - CLASSES:,} less probable classes</p>" if len(probs) > CLASSES else ""
    said = f"<b><bdi>{escape(explanation.classes[c])}</bdi></b> {escape(percent(probs[c]))}{trust}"
    return f'<p style="margin:0 0 4px">Row {i}: {said}</p>{table(body)}{more}'


def text(explanation: Explanation, i: int, view: View) -> str:
    """The text of a row, its words marked as the view has them."""
    read, weights, classes = passage(explanation, i), view.weights[i].tolist(), view.classes[i].tolist()
    top = set(view.strongest(i, TOP))
    pieces = []
    for piece, j in read.pieces():
        if j is None:
            pieces.append(broken(piece))
            continue
        again = LINES[cue(classes[j])] if view.every else ""
        pieces.append(word(piece, weights[j], view.scale, colour(classes[j]), top=j in top, again=again))
    tail = broken(read.tail)
    if read.beyond:
        tail = f'<span style="opacity:.6">{tail}</span>'
    note = f'<p style="opacity:.7"><i>{read.note}.</i></p>' if read.note and not view.every else ""
    box = "white-space:pre-wrap;max-height:20em;overflow-y:auto;margin:8px 0;line-height:1.7"
    return f'<div dir="auto" style="{box}">{"".join(pieces)}{tail}</div>{note}'


def coloured(explanation: Explanation, i: int, view: View) -> str:
    """The text of a row, each word in the colour of the class that it speaks most for, and these classes."""
    here = [j for j, there in enumerate(view.present[i].tolist()) if there and float(view.weights[i, j]) > 0]
    chips = " ".join(
        f"<bdi>{word(explanation.classes[k], 1.0, 1.0, colour(k), again=LINES[cue(k)])}</bdi>"
        for k in sorted(set(view.classes[i, here].tolist()))
    )
    full = signed(view.scale, view.scale).lstrip("+")
    said = (
        f"<p>A word has the colour of the class that it speaks most for: {chips}. Full strength: a margin of {full} and more "
        f"over the mean weight for the other classes. <b>Bold</b> are {largest(TOP, 'margin')}.</p>"
    )
    return said + text(explanation, i, view)


def word(piece: str, weight: float, scale: float, colour: Colour, *, top: bool = False, again: str = "") -> str:
    """One word: on a ground as strong as its weight, or over dashes where it speaks against the class."""
    share = min(1.0, abs(weight) / scale) if scale and math.isfinite(weight) else 0.0
    said = f"<b>{broken(piece)}</b>" if top else broken(piece)
    if share < FAINT * (1 + (weight < 0)):
        return said
    if weight < 0:
        line = f"text-decoration:underline dashed {1 + 1.5 * share:.1f}px {rgba(colour.line, min(1.0, 1.6 * share))}"
        return f'<u style="{line};text-underline-offset:3px">{said}</u>'
    # The paper may be light or dark: pale grounds let it through, strong ones bring the colour of their text along.
    fill = f"background:{rgba(colour.light, 2 * PALE * share)}"
    if share >= 0.5:
        fill = f"background:{mixed(colour.light, '#ffffff', share)};color:{INK}"
    again = f";text-decoration:underline {again} 2px" if again else ""
    return f'<span style="{fill};border-radius:3px{again}">{said}</span>'


def rgba(colour: str, share: float) -> str:
    """A colour that lets through what is behind it."""
    return f"rgba({','.join(map(str, channels(colour)))},{share:.2f})"


def listed(explanation: Explanation, i: int, view: View) -> str:
    """The strongest features with their weights."""
    weights, names, top = view.weights[i].tolist(), explanation.names, view.strongest(i, TOP)
    scale = max((abs(weights[j]) for j in top if math.isfinite(weights[j])), default=0.0)
    if not top:
        return f"<p>This {'text has no words' if names is None else 'row has no features'}.</p>"
    lines, c = [], int(explanation.prediction[i])
    for j in top:
        value = escape(cell(explanation.values[i, j]))
        name = value if names is None else f"{breakable(names[j])} = <bdi>{value}</bdi>"
        length = CELLS * abs(weights[j]) / scale if scale and math.isfinite(weights[j]) else 0.0
        lines.append(line(name, signed(weights[j], scale), c, length, block="▒" if weights[j] < 0 else "█"))
    said = f"Evidence for <b><bdi>{escape(explanation.classes[c])}</bdi></b>"
    return f'<p style="margin:8px 0 4px">{said}</p>{table("".join(lines))}'


def pictures(explanation: Explanation, view: View, every: View) -> str:
    """A line for each of the first rows: the picture, the evidence over it, and what is left of it in a trial."""
    trial, several = explanation.trial, len(explanation.classes) > 1
    k = min(TOP, explanation.weights.shape[1]) if trial is None else trial.k
    heads = ["", "Picture", "Predicted class", *["All classes"] * several]
    if trial is not None and trial.kept_images is not None:
        heads += [f"Only the top {k}", f"Without the top {k}"]
    lines = [pictured(explanation, i, view, every, k) for i in range(min(len(explanation), ROWS))]
    cells = [[f'<th style="{CELL};font-weight:normal">{each}</th>' for each in heads]]
    cells += [[f'<td style="{CELL};vertical-align:top;padding-bottom:6px">{each}</td>' for each in line] for line in lines]
    said = f"Filled regions speak for the class, hatched ones against it; outlined are {loudest(k)} for the predicted class."
    if several:
        said += " Seen for all classes, a region has the colour of the class that it speaks most for."
    if view.scale:
        said += f" Full strength: a weight of {signed(view.scale, view.scale).lstrip('+')} and more."
    return f"<p>{said}</p>" + table("".join(f'<tr style="background:none">{"".join(line)}</tr>' for line in cells))


def pictured(explanation: Explanation, i: int, view: View, every: View, k: int) -> list[str]:
    """The cells of one row."""
    e, trial = explanation, explanation.trial
    assert e.images is not None
    out = [
        sure(e, i),
        picture(shrunk(e.images[i], DOTS), f"Row {i}"),
        picture(painted(e, i, view, side=DOTS, top=speaking(e, i, k)), f"Row {i}: evidence for the predicted class"),
    ]
    if len(e.classes) > 1:
        out.append(picture(painted(e, i, every, side=DOTS), f"Row {i}: evidence for all classes"))
    if trial is not None and trial.kept_images is not None and trial.rest_images is not None:
        for images, probs, name in ((trial.kept_images, trial.kept, "only"), (trial.rest_images, trial.rest, "without")):
            best = int(probs[i].argmax())
            said = f"<br>{chip(e, best)} {escape(percent(float(probs[i, best])))}"
            out.append(picture(shrunk(images[i], DOTS), f"Row {i}: {name} the top {k}") + said)
    return out


def picture(values: np.ndarray, name: str) -> str:
    """A picture inside the text, its few pixels as squares."""
    height, width = values.shape[:2]
    values = enlarged(values, max(1, round(DOTS / max(height, width))))
    high, wide = (round(SIDE * n / max(height, width)) for n in (height, width))
    return f'<img src="{uri(values)}" alt="{escape(name)}" width="{wide}" height="{high}" style="margin:0">'


def sure(explanation: Explanation, i: int) -> str:
    """The most probable classes of a row."""
    probs = explanation.probs[i]
    order = probs.argsort(descending=True, stable=True).tolist()[:SURE]
    lines = [f"{chip(explanation, c)} {escape(percent(float(probs[c])))}" for c in order]
    trust = [] if explanation.check is None else [f"agreement {float(explanation.check.agreement[i]):.2f}"]
    return "<br>".join([f"Row {i}", f"<b>{lines[0]}</b>", *lines[1:], *trust])


def chip(explanation: Explanation, c: int) -> str:
    """The name of a class on its colour."""
    return f"<bdi>{word(explanation.classes[c], 1.0, 1.0, colour(c), again=LINES[cue(c)])}</bdi>"


def line(name: str, number: str, c: int, cells: float, *, bold: bool = False, block: str = "█") -> str:
    """A name, a number and a bar of block characters in the colour of a class, which no sanitiser takes away."""
    bar = block * round(cells) if math.isfinite(cells) else ""
    name, number = (f"<b>{said}</b>" if bold else said for said in (f"<bdi>{name}</bdi>", escape(number)))
    return (
        f'<tr style="background:none"><td style="{CELL}">{name}</td>'
        f'<td style="{CELL};text-align:right;white-space:nowrap">{number}</td>'
        f'<td style="{CELL};color:{colour(c).line};letter-spacing:-1px;white-space:nowrap">{bar}</td></tr>'
    )


def table(body: str) -> str:
    """Lines under each other, without frames."""
    return f'<table style="border:0;border-collapse:collapse;margin:0"><tbody>{body}</tbody></table>'


def broken(piece: str) -> str:
    """Escaped text whose line breaks hold even where white space does not."""
    return escape(piece).replace("\r\n", "\n").replace("\n", "<br>")
