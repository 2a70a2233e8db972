"""One page of all results: tables with ours beside the printed figures, claims, plots, black boxes, and what made them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from aimwise.files import write_text
from aimwise.study.cells import Facts
from aimwise.study.paper.base import Board, Panel, of_seed
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.paper.choices import CHOICES, PRINTED_ACCURACY
from aimwise.study.paper.registry import TABLES
from aimwise.study.paper.reproduce import Reproduction
from aimwise.study.plotted import svg
from aimwise.study.shown import MISSING, best_rows, boxes_of, made_of, ours, spell, theirs, verdict

OFFENSIVE = ("hatexplain",)
WARNING = "Posts of HateXplain are hateful and offensive. They are covered; nothing of them is shown before you ask for it."
QUICK = (
    "A quick look. The black boxes for texts are small networks trained on a few thousand short texts, methods learn from 1,500 "
    "of them for a few epochs, and 10 to 100 texts are explained. Nothing on this page is a result about the paper."
)


def write_report(work: Reproduction, path: Path) -> Path:
    """Write the page."""
    records = work.store.records()
    boards = [work.board(table, records) for table in TABLES.values()]
    write_text(path, page(boards, records))
    return path


def page(boards: Sequence[Board], records: list[Facts]) -> str:
    """The whole page, with nothing outside it."""
    css, js = (files("aimwise.study").joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    links = "".join(f'<li><a href="#{b.table.name}">{escape(b.table.name)}</a></li>' for b in boards)
    quick = f'<p class="quick">{QUICK}</p>' if boards and boards[0].scale.quick else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The AIM paper, reproduced</title><style>{css}</style></head><body>"
        "<h1>The AIM paper, reproduced</h1>"
        "<p>An Additive Instance-wise Approach to Multi-class Model Interpretation (ICLR 2023): every table and figure, ours "
        "beside the printed. In each field: our mean ± deviation over the seeds; below, the printed figure and how far ours is "
        "from it. "
        f"Bold is best in its column. What was not run is said to be missing.</p>{quick}<nav><ul>{links}</ul></nav>"
        f"{overview(boards)}{boxes(records)}{choices()}{''.join(section(board) for board in boards)}"
        f"<script>{js}</script></body></html>\n"
    )


def overview(boards: Sequence[Board]) -> str:
    """How many claims hold, and which do not."""
    found = [(board, claim, board.holds(claim)) for board in boards for claim in board.table.claims]
    counts = [sum(state is wanted for _, _, state in found) for wanted in (True, False, None)]
    not_held = "".join(
        f'<li class="no"><b>{escape(c.text)}</b> ({escape(c.place)}, <a href="#{b.table.name}">{escape(b.table.name)}</a>): '
        "does not hold here</li>"
        for b, c, state in found
        if state is False
    )
    return (
        f"<h2>Claims</h2><p>Of {len(found)} claims {counts[0]} hold here, {counts[1]} do not, and {counts[2]} are not known yet "
        f'because cells are missing.</p><ul class="claims">{not_held}</ul>'
    )


def boxes(records: list[Facts]) -> str:
    """The black boxes and how accurate they are."""
    rows = []
    for box in boxes_of(records):
        printed = PRINTED_ACCURACY.get(box["data"])
        said = "" if printed is None else f"{printed:.1f}"
        rows.append(
            f"<tr><th>{escape(CLEAN[box['data']])}</th><td>{escape(str(box['network']))}</td><td>{100 * box['accuracy']:.1f}</td>"
            f"<td>{said}</td><td><code>{box['sha256'][:12]}</code></td></tr>"
        )
    if not rows:
        return "<h2>Black boxes</h2><p>No cell is there yet.</p>"
    head = "<tr><th>data set</th><th>network</th><th>test accuracy %</th><th>printed %</th><th>sha256</th></tr>"
    return f'<h2>Black boxes</h2><div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def choices() -> str:
    """What the paper leaves open."""
    rows = "".join(f'<tr><td class="words">{escape(a)}</td><td class="words">{escape(b)}</td></tr>' for a, b in CHOICES)
    head = '<tr><th class="words">the paper</th><th class="words">here</th></tr>'
    return f'<h2>What the paper leaves open</h2><div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def section(board: Board) -> str:
    """One table of the paper."""
    table = board.table
    claims = "".join(
        f'<li class="{ {True: "yes", False: "no", None: "open"}[board.holds(c)] }">{escape(c.text)} ({escape(c.place)}): '
        f"<b>{verdict(board, c)}</b></li>"
        for c in table.claims
    )
    drawn = "".join(figure(svg(plot), plot.title) for plot in table.plots(board) if plot.curves)
    notes = "".join(f"<p class=soft>{escape(note)}</p>" for note in table.notes)
    more = examples(board) if table.kind == "examples" else pictures(board) if table.kind == "pictures" else ""
    return (
        f'<section id="{table.name}"><h2>{escape(table.title)} <small>{escape(table.place)}, '
        f"<code>aimwise reproduce {table.name}{' --quick' * board.scale.quick}</code></small></h2>"
        f'<ul class="claims">{claims}</ul>'
        f'<div class="panels">{"".join(panel_table(board, panel) for panel in board.panels)}</div>'
        f"{drawn}{more}{notes}{making(board)}</section>"
    )


def panel_table(board: Board, panel: Panel) -> str:
    """One panel: rows of methods, columns of figures."""
    heads = "".join(f"<th>{escape(column.head)}</th>" for column in panel.columns)
    top = [best_rows(board, panel, column) for column in panel.columns]
    lines = []
    for row in panel.rows:
        fields = []
        for column, first in zip(panel.columns, top, strict=True):
            value = board.value(panel, row, column)
            mine, other = escape(ours(value, column)), escape(theirs(value, column))
            shown = f"<b>{mine}</b>" if row.name in first else mine
            fields.append(f"<td{' class=lack' if mine == MISSING else ''}>{shown}{f'<i>{other}</i>' if other else ''}</td>")
        lines.append(f"<tr><th>{escape(row.name)}</th>{''.join(fields)}</tr>")
    note = f" {escape(panel.note)}." if panel.note else ""
    return (
        f'<div class="wide"><table><caption><strong>{escape(panel.title)}</strong>{note}</caption>'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def figure(image: str, title: str) -> str:
    """A plot inside the page."""
    data = base64.b64encode(image.encode()).decode()
    return f'<figure><img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}"></figure>'


def making(board: Board) -> str:
    """What made a table."""
    made = made_of(board)
    if not made["cells"]:
        return "<p>No cell of this table is there yet.</p>"
    facts = {
        "seeds": ", ".join(map(str, made["seeds"])),
        "hardware": "; ".join(made["device"]),
        "time of all cells": spell(made["seconds"]),
        "commit": ", ".join(made["commit"]) or "not known",
        "command": "; ".join(made["command"]),
        "torch, Python": f"{', '.join(made['torch'])}; {', '.join(made['python'])}",
    }
    if made["encoder"]:
        facts["semantic neighbours"] = ", ".join(made["encoder"])
    if made["missing"]:
        facts["missing"] = "; ".join(made["missing"])
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()) + "</dl>"


def examples(board: Board) -> str:
    """The drawn texts with their key words, those of HateXplain behind a cover."""
    made = []
    for panel in board.panels:
        records = [(row.name, of_seed(board.found(row), 0)) for row in panel.rows]
        known = [(name, record["examples"]) for name, record in records if record and "examples" in record]
        if not known:
            made.append(f"<h3>{escape(panel.title)}</h3><p>{MISSING}</p>")
            continue
        told = "".join(example(known, n) for n in range(len(known[0][1])))
        if panel.data in OFFENSIVE:
            told = covered(told)
        made.append(f"<h3>{escape(panel.title)}</h3>{told}")
    return "".join(made)


def example(known: Sequence[tuple[str, list[Facts]]], n: int) -> str:
    """One text: the first method's words marked in it, and every method's words for every class that it explains."""
    first = known[0][1][n]
    marked = highlighted(first["text"], [(a, b) for _, a, b in first["words"][first["model"]]])
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="words">{escape(c)}</td><td class="words">'
        f"{escape(', '.join(word for word, _, _ in words))}</td></tr>"
        for name, texts in known
        for c, words in texts[n]["words"].items()
    )
    head = '<tr><th></th><th class="words">class</th><th class="words">key words</th></tr>'
    wrong = "" if first["truth"] == first["model"] else " (a mistake of the black box)"
    return (
        f"<p>Truth: <strong>{escape(first['truth'])}</strong>, black box: <strong>{escape(first['model'])}</strong>{wrong}. "
        f'Marked by {escape(known[0][0])}:</p><blockquote dir="auto">{marked}</blockquote>'
        f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    )


def highlighted(text: str, places: Sequence[tuple[int, int]]) -> str:
    """A text with some of its words marked."""
    out, at = [], 0
    for start, end in sorted(places):
        out += [escape(text[at:start]), f"<mark>{escape(text[start:end])}</mark>"]
        at = end
    return "".join([*out, escape(text[at:])])


def covered(content: str) -> str:
    """Content that is not shown before the reader asks; without scripts and in print it stays covered."""
    return (
        f'<div class="cover"><p>{WARNING} Without JavaScript, and in print, they stay covered.</p>'
        f'<button type="button" hidden>Show what is covered</button><template>{content}</template></div>'
    )


def pictures(board: Board) -> str:
    """The pictures of superpixels."""
    made = []
    for panel in board.panels:
        for row in panel.rows[:3]:
            record = of_seed(board.found(row), 0)
            for picture in (record or {}).get("pictures", []):
                said = f"{panel.title}, {row.name}: truth {picture['truth']}, black box {picture['model']}"
                image = f'<img alt="{escape(said)}" src="data:image/png;base64,{picture["png"]}">'
                made.append(f"<figure>{image}<figcaption><small>{escape(said)}</small></figcaption></figure>")
    return "".join(made) or f"<p>Pictures: {MISSING}</p>"
