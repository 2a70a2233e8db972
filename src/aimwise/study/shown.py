"""A table in words: figures with their deviation, the printed ones beside them, what is missing, and which claims hold."""

from __future__ import annotations

from typing import Any

from aimwise.study.cells import Facts
from aimwise.study.paper.base import Board, Claim, Column, Panel, Value

MISSING = "missing"
VERDICTS = {True: "holds here", False: "does not hold here", None: "not known yet: cells are missing"}
MARKS = {True: "✓", False: "✗", None: "–"}


def verdict(board: Board, claim: Claim) -> str:
    """Whether a claim holds here, in words."""
    state = board.holds(claim)
    return VERDICTS[state] + (
        " in this quick look, which shows nothing about the paper" if board.scale.quick and state is not None else ""
    )


def ours(value: Value, column: Column) -> str:
    """Our figure: mean ± deviation, how many seeds where some are missing, and collapses."""
    said = []
    if value.mean is None:
        if not value.collapsed:
            return MISSING
    else:
        digits = column.digits
        said.append(f"{value.mean:.{digits}f}" + (f" ± {value.deviation:.{digits}f}" if value.deviation is not None else ""))
    left = value.wanted - value.seeds - value.collapsed
    if left > 0 and value.mean is not None:
        said.append(f"({value.seeds} of {value.wanted} seeds)")
    if value.collapsed:
        said.append(f"({value.collapsed} collapsed)")
    return " ".join(said)


def theirs(value: Value, column: Column) -> str:
    """The printed figure and how far ours is from it; empty where the paper prints none."""
    if value.printed is None:
        return ""
    spread = "" if value.printed.deviation is None else f" ± {value.printed.deviation:.{column.digits}f}"
    far = "" if value.difference is None else f" ({value.difference:+.{column.digits}f})"
    return f"{value.printed.mean:.{column.digits}f}{spread}{far}"


def best_rows(board: Board, panel: Panel, column: Column) -> set[str]:
    """The rows that are best in a column."""
    found = {row.name: board.value(panel, row, column).mean for row in panel.rows}
    known = [value for value in found.values() if value is not None]
    if not column.better or len(known) < 2:
        return set()
    top = max(known) if column.better == "higher" else min(known)
    return {name for name, value in found.items() if value is not None and abs(value - top) < 1e-9}


def spell(seconds: int | float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def as_sheets(board: Board) -> list[Any]:
    """The panels for a terminal, and the claims."""
    from rich.table import Table as Sheet

    made: list[Any] = []
    for panel in board.panels:
        mark = " (quick look: small black boxes, no result)" if board.scale.quick else ""
        sheet = Sheet(
            title=f"{board.table.place}: {panel.title}{mark}", title_justify="left", caption=f"(printed) {panel.note}".strip()
        )
        sheet.add_column("")
        for column in panel.columns:
            sheet.add_column(column.head, justify="right")
        for row in panel.rows:
            values = [(board.value(panel, row, column), column) for column in panel.columns]
            sheet.add_row(row.name, *("\n".join(filter(None, (ours(*v), shortly(*v)))) for v in values))
        made.append(sheet)
    claims = [f"{MARKS[board.holds(c)]} {c.text} ({c.place}): {verdict(board, c)}" for c in board.table.claims]
    return [*made, "\n".join(claims)] if claims else made


def shortly(value: Value, column: Column) -> str:
    """The printed figure in a few signs."""
    return "" if value.printed is None else f"({value.printed.mean:.{column.digits}f})"


def as_facts(board: Board) -> Facts:
    """The table for machines."""
    rows = []
    for panel in board.panels:
        for row in panel.rows:
            for column in panel.columns:
                value = board.value(panel, row, column)
                rows.append(
                    {
                        "panel": panel.title,
                        "data": panel.data,
                        "row": row.name,
                        "figure": column.head,
                        "mean": value.mean,
                        "deviation": value.deviation,
                        "seeds": value.seeds,
                        "wanted": value.wanted,
                        "collapsed": value.collapsed,
                        "printed": None if value.printed is None else value.printed.mean,
                        "difference": value.difference,
                    }
                )
    claims = [{"claim": claim.text, "place": claim.place, "holds": board.holds(claim)} for claim in board.table.claims]
    return {"place": board.table.place, "quick": board.scale.quick, "figures": rows, "claims": claims}


def made_of(board: Board) -> Facts:
    """What made the cells that are there: machines, commits, commands, versions, seeds, seconds; and what is missing."""
    found: dict[str, Facts] = {}
    missing: list[str] = []
    for panel in board.panels:
        for row in panel.rows:
            records = board.found(row)
            found |= {str(id(record)): record for record in records}
            seeds = {record["seed"] for record in records}
            lacking = [cell["seed"] for cell in row.cells if cell["seed"] not in seeds]
            if lacking:
                missing.append(f"{panel.title}, {row.name}: seed{'s' * (len(lacking) > 1)} {', '.join(map(str, lacking))}")
    records = list(found.values())

    def several(name: str) -> list[str]:
        return sorted({str(record[name]) for record in records if record.get(name) not in (None, "")})

    return {
        "cells": len(records),
        "seconds": sum((float(record["seconds"]) for record in records), 0.0),
        "missing": missing,
        **{name: several(name) for name in ("device", "commit", "command", "torch", "python", "encoder")},
        "seeds": sorted({int(record["seed"]) for record in records}),
    }


def boxes_of(records: list[Facts]) -> list[Facts]:
    """The black boxes that cells are about: data set, network, accuracy and the sha256 of the weights."""
    found = {(r["data"], r["box"]): r for r in records if "box_accuracy" in r}
    return [
        {"data": data, "network": record["box_network"], "accuracy": record["box_accuracy"], "sha256": box}
        for (data, box), record in sorted(found.items())
    ]
