"""The report as Markdown: one file for each table, and one that leads to them."""

from __future__ import annotations

import base64
from pathlib import Path

from aimwise.files import write_text, write_whole
from aimwise.study.cells import Facts
from aimwise.study.paper.base import Board, Panel, of_seed
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.paper.choices import CHOICES, PRINTED_ACCURACY
from aimwise.study.paper.registry import TABLES
from aimwise.study.paper.reproduce import Reproduction
from aimwise.study.plotted import svg
from aimwise.study.report import OFFENSIVE, QUICK
from aimwise.study.shown import MARKS, MISSING, best_rows, boxes_of, made_of, ours, spell, theirs, verdict


def write_markdown(work: Reproduction, folder: Path) -> Path:
    """Write all files into a folder and return the first to read."""
    records = work.store.records()
    boards = [work.board(table, records) for table in TABLES.values()]
    for board in boards:
        write_text(folder / f"{board.table.name}.md", page(board, folder))
    write_text(folder / "README.md", index(boards, records, command(work, folder)))
    return folder / "README.md"


def command(work: Reproduction, folder: Path) -> str:
    """How these files are made, and of what; folders by their names where their place is of one machine only."""
    into, cells = (path.name if path.is_absolute() else path.as_posix() for path in (folder, work.store.path))
    return f"Made by `aimwise reproduce{' --quick' * work.scale.quick} --markdown {into}`; the cells are in `{cells}/cells`."


def index(boards: list[Board], records: list[Facts], made: str) -> str:
    """What there is, the black boxes, and what the paper leaves open."""
    out = ["# The AIM paper, reproduced", ""]
    out += [f"**{QUICK}**", ""] if boards[0].scale.quick else []
    out += [made, ""]
    lines = []
    for board in boards:
        states = [board.holds(claim) for claim in board.table.claims]
        _, done, cells = board.seconds()
        link = f"[{board.table.name}]({board.table.name}.md)"
        counts = (states.count(True), states.count(False), states.count(None))
        lines.append([link, board.table.place, board.table.title, f"{done} of {cells}", *map(str, counts)])
    out += grid(["table", "in the paper", "what", "cells done", "claims that hold", "that do not", "not known yet"], lines)
    rows = []
    for box in boxes_of(records):
        printed = PRINTED_ACCURACY.get(box["data"])
        said = "" if printed is None else f"{printed:.1f}"
        rows.append([CLEAN[box["data"]], box["network"], f"{100 * box['accuracy']:.1f}", said, f"`{box['sha256'][:12]}`"])
    out += ["## Black boxes", "", *grid(["data set", "network", "test accuracy %", "printed %", "sha256"], rows)]
    out += ["## What the paper leaves open", "", *grid(["the paper", "here"], [list(pair) for pair in CHOICES])]
    return "\n".join(out)


def page(board: Board, folder: Path) -> str:
    """One table of the paper."""
    table, made = board.table, made_of(board)
    out = [f"# {table.title}", "", f"{table.place}. `aimwise reproduce {table.name}{' --quick' * board.scale.quick}`", ""]
    out += [f"**{QUICK}**", ""] if board.scale.quick else []
    out += [f"- {MARKS[board.holds(c)]} {c.text} ({c.place}): **{verdict(board, c)}**" for c in table.claims]
    out += ["", "In each field: ours, mean ± deviation over the seeds; then the printed figure and how far ours is from it.", ""]
    for panel in board.panels:
        out += [f"## {panel.title}", "", *([panel.note + ".", ""] if panel.note else []), *panel_grid(board, panel)]
    for n, plot in enumerate(plot for plot in table.plots(board) if plot.curves):
        name = f"{table.name}-{n}.svg"
        write_text(folder / name, svg(plot))
        out += [f"![{plot.title}]({name})", ""]
    out += examples(board) if table.kind == "examples" else pictures(board, folder) if table.kind == "pictures" else []
    out += [f"{note}\n" for note in table.notes]
    if made["cells"]:
        out += [
            f"- seeds: {', '.join(map(str, made['seeds']))}",
            f"- hardware: {'; '.join(made['device'])}",
            f"- time of all cells: {spell(made['seconds'])}",
            f"- commit: {', '.join(made['commit']) or 'not known'}",
            f"- command: {'; '.join(f'`{c}`' for c in made['command'])}",
        ]
    out += [f"- missing: {line}" for line in made["missing"]]
    return "\n".join([*out, ""])


def panel_grid(board: Board, panel: Panel) -> list[str]:
    """One panel."""
    top = [best_rows(board, panel, column) for column in panel.columns]
    lines = []
    for row in panel.rows:
        line = [row.name]
        for column, first in zip(panel.columns, top, strict=True):
            value = board.value(panel, row, column)
            mine, other = ours(value, column), theirs(value, column)
            line.append((f"**{mine}**" if row.name in first else mine) + (f"<br>{other}" if other else ""))
        lines.append(line)
    return grid(["", *(column.head for column in panel.columns)], lines)


def grid(heads: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table."""
    rows = [heads, ["---"] * len(heads), *lines]
    return [*("| " + " | ".join(field.replace("|", "\\|") for field in row) + " |" for row in rows), ""]


def examples(board: Board) -> list[str]:
    """Key words of the drawn texts; those of HateXplain are left out, for nothing covers them in a file of plain text."""
    out: list[str] = []
    for panel in board.panels:
        out += [f"## {panel.title}: key words", ""]
        if panel.data in OFFENSIVE:
            out += ["Hateful and offensive, so not shown here; the HTML report has them behind a cover.", ""]
            continue
        records = [(row.name, of_seed(board.found(row), 0)) for row in panel.rows]
        known = [(name, record["examples"]) for name, record in records if record and "examples" in record]
        if not known:
            out += [MISSING, ""]
            continue
        for n, first in enumerate(known[0][1]):
            out += [f"Truth: {first['truth']}, black box: {first['model']}", "", "> " + plain(first["text"]), ""]
            lines = [
                [name, c, plain(", ".join(word for word, _, _ in words))]
                for name, texts in known
                for c, words in texts[n]["words"].items()
            ]
            out += grid(["", "class", "key words"], lines)
    return out


def pictures(board: Board, folder: Path) -> list[str]:
    """Pictures of superpixels as files beside."""
    out: list[str] = []
    for panel in board.panels:
        for at, row in enumerate(panel.rows[:3]):
            record = of_seed(board.found(row), 0)
            for n, picture in enumerate((record or {}).get("pictures", [])):
                name, png = f"{board.table.name}-{panel.data}-{at}-{n}.png", base64.b64decode(picture["png"])
                write_bytes(folder / name, png)
                said = f"{panel.title}, {row.name}: truth {picture['truth']}, black box {picture['model']}"
                out += [f"![{said}]({name})", "", said, ""]
    return out or [f"Pictures: {MISSING}", ""]


def write_bytes(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    write_whole(path, write)


def plain(text: str) -> str:
    """A text in which nothing is Markdown."""
    flat = " ".join(text.split()).replace("\\", "\\\\")
    for sign in "*_`<>[]#|":
        flat = flat.replace(sign, f"\\{sign}")
    return flat
