"""One self-contained HTML page of explanations: no server, no outside request, readable without a script."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from torch import Tensor

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation
from aimwise.render import colours, gallery
from aimwise.render import text as texts
from aimwise.render.codec import packed, signs_for
from aimwise.render.plots import ALL_CLASSES, FIRST, PREDICTED, TOP, overall
from aimwise.render.say import MINUS, cell, paragraphs, writable
from aimwise.render.trust import panel
from aimwise.render.views import checked_truth, kind

# How many words, regions or features stand out before the slider is moved, at most, and what they are called.
STAND_OUT = {"text": (10, 30, "words"), "image": (5, 100, "regions"), "table": (TOP, 30, "features")}
SCRIPTS = ("say.js", "codec.js", "pictures.js", "legend.js", "rows.js", "page.js")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "script-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
SECTION = re.compile(r'<section class="set" id="(aim-[0-9a-f]{16})" data-title="([^"]*)"')
NUMBER = re.compile(rf"[\s+\-{MINUS}±<>≤≥~]*\d")


@dataclass(frozen=True)
class Table:
    """A small table of results that stands above the explanations of a data set."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise BadSetting(
                    f"Row {i} of the table has {len(row)} cells, the header has {len(self.header)}; make them equal."
                )


def section(
    title: str,
    explanation: Explanation,
    *,
    truth: Iterable[Any] | None = None,
    note: str = "",
    table: Table | None = None,
    most: int = 100,
) -> str:
    """The HTML of one data set's explanations, to be put into a `page`."""
    if most < 1:
        raise BadSetting(f"most={most}, wanted at least one row to show.")
    truths = None if truth is None else checked_truth(truth, explanation)
    what = kind(explanation)
    shown = min(most, len(explanation), gallery.room(explanation) if what == "image" else most)
    data = as_json(record(explanation[:shown], None if truths is None else truths[:shown]))
    key = "aim-" + hashlib.sha256((title + "\0" + data).encode("utf-8", "replace")).hexdigest()[:16]
    parts = (
        f'<section class="set" id="{key}" data-title="{escape(title)}" data-kind="{what}" aria-labelledby="{key}-title">',
        f'<header><h2 id="{key}-title" dir="auto">{escape(title)}</h2>{paragraphs(note, "note")}</header>',
        facts(explanation, truths, shown),
        panel(explanation),
        "" if table is None else results(table),
        noscript(what),
        switch(explanation, key, what),
        gallery.gallery(explanation) if what == "image" else overall(explanation),
        rows(explanation, truths, shown, key),
        f'<script type="application/json" class="data">{data}</script>',
        "</section>",
    )
    return writable("\n".join(part for part in parts if part))


def page(title: str, sections: Sequence[str], *, intro: str = "") -> str:
    """The whole HTML document around sections, with its styles and its script inside."""
    bodies, contents = [], []
    for i, body in enumerate(sections, start=1):
        head = SECTION.search(body)
        if head is not None:
            body = body.replace(head[1], f"set-{i}")
            contents.append(f'<li><a href="#set-{i}" dir="auto">{head[2]}</a></li>')
            if len(sections) == 1 and head[2] == escape(title):
                body = body.replace('class="set"', 'class="set alone"', 1)
        bodies.append(body)
    toc = ""
    if len(contents) > 1:
        toc = f'<nav class="contents" aria-label="Contents"><ol role="list">{"".join(contents)}</ol></nav>'
    parts = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{asset('page.css')}{colours.css()}</style>",
        "</head>",
        "<body>",
        '<a class="skip" href="#set-1-rows">To the rows</a>' if contents else "",
        f'<header class="top"><h1 dir="auto">{escape(title)}</h1>{paragraphs(intro, "intro")}{toc}</header>',
        "<main>",
        *bodies,
        "</main>",
        "<footer><p>Made with aimwise. All of this page is inside this one file; it asks no server for anything.</p></footer>",
        f"<script>\n{''.join(map(asset, SCRIPTS))}</script>",
        "</body>",
        "</html>",
    )
    return writable("\n".join(parts) + "\n")


def noscript(what: str) -> str:
    """What a reader without a script must know."""
    here = "the plot below still shows what speaks for and against the first class; the other classes and the single rows need"
    if what == "image":
        here = "the pictures below still show where the evidence for each class lies; the single rows need"
    return f"<noscript><p class='aside'>This page was opened without JavaScript: {here} JavaScript.</p></noscript>"


def facts(explanation: Explanation, truths: list[int] | None, shown: int) -> str:
    """What these explanations are and how far they can be trusted, in one line."""
    total, d, c = explanation.weights.shape
    what, features = kind(explanation), ("Features", f"{d:,}", "")
    if what == "image":
        features = ("Regions of a picture", f"{d:,}", "at most" if explanation.names is None else "")
    elif what == "text":
        left = 0 if explanation.unexplained is None else int(explanation.unexplained.sum())
        features = ("Words", f"{int(explanation.present.sum()):,}", f"{left:,} more were not explained" if left else "")
    items = [
        ("Method", explanation.method, ""),
        ("Rows", f"{total:,}", f"{shown:,} shown below" if shown < total else ""),
        features,
        ("Classes", f"{c:,}", ""),
    ]
    if truths is not None and total:
        right = sum(int(p) == t for p, t in zip(explanation.prediction.tolist(), truths, strict=True))
        items.append(("Predicted right", f"{right / total:.1%}", f"{right:,} of {total:,}"))
    if explanation.check is not None and total:
        agreement, without = float(explanation.check.agreement.mean()), float(explanation.check.without.mean())
        items.append(("Agreement with the black box", f"{agreement:.2f}", f"{without:.2f} with no weights; 1 is perfect"))
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd><b>{escape(value)}</b>{f' <small>{escape(more)}</small>' if more else ''}</dd></div>"
        for name, value, more in items
    )
    return f'<dl class="facts">{cells}</dl>'


def results(table: Table) -> str:
    """A table of results; columns of numbers stand to the right."""
    numeric = [all(NUMBER.match(row[j]) for row in table.rows) for j in range(len(table.header))]
    align = [' class="number"' if number and j else "" for j, number in enumerate(numeric)]
    head = "".join(f'<th scope="col"{a}>{escape(cell)}</th>' for a, cell in zip(align, table.header, strict=True))
    body = ""
    for row in table.rows:
        first = "".join(f'<th scope="row" dir="auto">{escape(cell)}</th>' for cell in row[:1])
        others = "".join(f"<td{a}>{escape(cell)}</td>" for a, cell in zip(align[1:], row[1:], strict=True))
        body += f"<tr>{first}{others}</tr>"
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    label = escape(table.caption or "Results")
    return (
        f'<div class="results" role="region" tabindex="0" aria-label="{label}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def switch(explanation: Explanation, key: str, what: str) -> str:
    """The buttons that choose whose evidence is shown, and how many words or regions stand out; hidden until the script runs."""
    radios = ""
    for i, name in enumerate(["all classes", "predicted class", *explanation.classes], start=ALL_CLASSES):
        colour, dot = (f' class="{colours.marks(i)}"', '<i class="dot"></i>') if i >= FIRST else ("", "")
        radios += (
            f'<label{colour}><input type="radio" name="{key}-class" value="{i}" autocomplete="off"'
            f'{" checked" * (i == PREDICTED)}><span dir="auto">{dot}<span class="name">{escape(name)}</span></span></label>'
        )
    first, most, named = STAND_OUT[what]
    tried = [trial.k for trial in explanation.trials]
    first = tried[-1] if tried and what == "image" else first
    most = max(min(most, explanation.weights.shape[1]), *tried, first if what != "table" else 1)
    first = min(first, most)
    marks = "".join(f'<option value="{k}"></option>' for k in tried)
    slider = (
        f'<div class="slider"><label for="{key}-top">Top {named}</label>'
        f'<input id="{key}-top" type="range" min="0" max="{most}" value="{first}" list="{key}-tried" autocomplete="off">'
        f'<datalist id="{key}-tried">{marks}</datalist><output for="{key}-top">{first}</output></div>'
    )
    return f'<fieldset class="switch" hidden><legend>Evidence for</legend><div class="options">{radios}</div>{slider}</fieldset>'


def rows(explanation: Explanation, truths: list[int] | None, shown: int, key: str) -> str:
    """The place where the script draws a card for every row, and the means to find one."""
    total = len(explanation)
    said = f"These are the first {shown:,} of {total:,} rows. " if shown < total else ""
    what = kind(explanation)
    scale = "All pictures share one scale." if what == "image" else "Within one card, bars share one scale over all classes."
    count = int(explanation.present[:shown].sum()) if what == "text" else explanation.weights[:shown, :, 0].numel()
    if signs_for(count * len(explanation.classes)) == 1:
        scale += " So that the page stays small, weights are rounded to a 31st of the largest of their row."
    lead = f'<p class="lead">{said}{scale}</p><div class="legend"></div>'
    hint = {"image": "row or class", "text": "word or class", "table": "feature, value or class"}[what]
    orders = {"row": "row number", "sure": "most probable first", "unsure": "least probable first"}
    if explanation.check is not None:
        orders["agreement"] = "lowest agreement first"
    wrong = ""
    if truths is not None:
        missed = sum(int(p) != t for p, t in zip(explanation.prediction.tolist()[:shown], truths[:shown], strict=True))
        wrong = f'<label class="wrong"><input type="checkbox" autocomplete="off"> Wrong predictions only ({missed:,})</label>'
        orders["wrong"] = f"wrong predictions first ({missed:,})"
    options = "".join(f'<option value="{value}">{said}</option>' for value, said in orders.items())
    return (
        f'<div class="rows" id="{key}-rows" tabindex="-1" hidden><h3>Row by row</h3>'
        f"{lead if total else '<p class=lead>There are no rows.</p>'}"
        f'<div class="find"><label class="search" for="{key}-search">Search rows</label>'
        f'<input id="{key}-search" type="search" placeholder="{hint}" autocomplete="off" spellcheck="false">'
        f'<label class="sort" for="{key}-sort">Sort by</label>'
        f'<select id="{key}-sort" autocomplete="off">{options}</select>'
        f'{wrong}<p class="count" role="status"></p></div><div class="cards"></div></div>'
    )


def record(explanation: Explanation, truths: list[int] | None) -> dict[str, object]:
    """What the script needs to draw the rows."""
    what = kind(explanation)
    return {
        "kind": what,
        "classes": list(explanation.classes),
        "marks": [colours.marks(c) for c in range(len(explanation.classes))],
        **(
            gallery.record(explanation)
            if what == "image"
            else texts.record(explanation)
            if explanation.names is None
            else columns(explanation, explanation.names)
        ),
        "probs": shares(explanation.probs),
        "predicted": explanation.prediction.tolist(),
        "truth": truths,
        "agreement": None if explanation.check is None else [digits(a, 4) for a in explanation.check.agreement.tolist()],
        "trials": [{"k": t.k, "kept": shares(t.kept, 4), "rest": shares(t.rest, 4)} for t in explanation.trials],
    }


def columns(explanation: Explanation, names: Sequence[str]) -> dict[str, object]:
    """What the script needs of features that have names; the value of an absent feature is null."""
    present, values = explanation.present.tolist(), explanation.values.tolist()
    weights = np.where(explanation.present.numpy()[:, :, None], explanation.weights.double().numpy(), np.nan)
    return {
        "names": list(names),
        "values": [
            [cell(v) if here else None for v, here in zip(*row, strict=True)] for row in zip(values, present, strict=True)
        ],
        **packed(list(weights), signs_for(weights.size)),
    }


def as_json(data: object) -> str:
    """JSON text that can stand inside a script element whatever it holds."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def shares(probs: Tensor, count: int = 6) -> list[list[float | None]]:
    """Probabilities as the script reads them, with so many digits."""
    return [[digits(p, count) for p in row] for row in probs.tolist()]


def digits(number: float, count: int) -> float | None:
    """A number with so many significant digits, or null where it is none."""
    return float(f"{number:.{count}g}") if math.isfinite(number) else None


def asset(name: str) -> str:
    """The text of a file that lies beside this module."""
    return files("aimwise.render").joinpath(name).read_text(encoding="utf-8")
