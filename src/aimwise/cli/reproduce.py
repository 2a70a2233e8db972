"""`aimwise reproduce`: the paper's tables and figures, run again, ours beside the printed ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimwise.cli.options import command, page, positive

if TYPE_CHECKING:
    from aimwise.study.paper.base import Table
    from aimwise.study.paper.methods import Scale

RESULTS = Path("results")
EXAMPLES = """  aimwise reproduce --list                       every table and figure, how far it is, and how long it takes
  aimwise reproduce text-main --quick            minutes on a laptop: small black boxes, few texts, marked as such
  aimwise reproduce text-main --jobs 4           all seeds; after a stop the same command goes on
  aimwise reproduce tabular topk --engine ray    several tables; loky, threading, ray or dask
  aimwise reproduce all --data hatexplain        one data set's share of every table
  aimwise reproduce all --minutes 60             everything, or what an hour is enough for; again to go on
  aimwise reproduce --report results.html        one page of all that is there; docs/results gets it as Markdown with --markdown
  aimwise reproduce --report quick.html --quick  the same of the quick results"""


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "reproduce",
        help="run the paper's tables and figures again, ours beside the printed ones",
        description="Runs the tables and figures of the AIM paper (ICLR 2023) and shows our figures beside the printed ones,\n"
        "and which of the paper's claims hold here. Every cell (data set, black box, method, settings, seed) is kept\n"
        "as a file when it is done; a stopped command goes on, and two that run at once share the work.",
        examples=EXAMPLES,
    )
    made.add_argument("tables", nargs="*", metavar="TABLE", help="which, as --list names them, or all")
    made.add_argument("--list", action="store_true", help="list every table and figure")
    made.add_argument("--quick", action="store_true", help="small data and short trainings: a look, not a result")
    made.add_argument("--report", type=page, metavar="FILE.html", help="write a page of all results that are there")
    made.add_argument("--markdown", type=Path, metavar="FOLDER", help="write the report as Markdown files into a folder")
    group = made.add_argument_group("how it runs")
    group.add_argument("--data", nargs="+", metavar="NAME", help="run these data sets' cells alone (all that a table has)")
    group.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where cells are kept (%(default)s)")
    group.add_argument("--jobs", type=positive, default=1, metavar="N", help="cells at a time (%(default)s)")
    group.add_argument("--minutes", type=positive, metavar="N", help="begin no cell later; the same command goes on")
    group.add_argument("--engine", default="loky", metavar="NAME", help="loky, threading, ray or dask (%(default)s)")
    group.add_argument("--seeds", type=positive, metavar="N", help="initialisations of methods that are trained (5; tuning 3)")
    group.add_argument(
        "--encoder", type=Path, metavar="FOLDER", help="a model of sentence-transformers for IoU (latent semantic analysis)"
    )
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List, run or report."""
    import os

    from aimwise.cli.desk import Desk
    from aimwise.errors import BadSetting
    from aimwise.study.paper.registry import TABLES, table
    from aimwise.study.paper.reproduce import Reproduction
    from aimwise.study.run import FAILED

    desk = Desk(options)
    if not (options.list or options.tables or options.report or options.markdown):
        raise BadSetting("Nothing to do. Name a table, or pass --list, --report FILE.html or --markdown FOLDER.")
    if options.encoder is not None:
        if not options.encoder.is_dir():
            raise BadSetting(f"Got --encoder {options.encoder}, wanted a folder with a model of sentence-transformers.")
        os.environ["AIMWISE_ENCODER"] = str(options.encoder.resolve())
    work = Reproduction(options.results, scale_of(options))
    if options.list:
        return listed(work, desk)
    chosen = list(TABLES.values()) if options.tables == ["all"] else [table(name) for name in options.tables]
    known = dict.fromkeys(cell["data"] for one in chosen for cell in one.cells(work.scale))
    for name in options.data or ():
        if name not in known:
            raise BadSetting(f"Got --data {name}, wanted one of those of the tables: {', '.join(known) or 'name a table first'}.")
    if chosen and work.scale.quick:
        desk.note("a quick look at small black boxes; nothing here is a result")
    done = work.run(
        chosen,
        command=said(options),
        jobs=options.jobs,
        engine=options.engine,
        say=desk.note,
        data=options.data,
        minutes=options.minutes,
    )
    failed = sum(state.state == FAILED for state in done)
    facts = {one.name: summary(work, one, desk) for one in chosen}
    lines = [f"Report: {path}" for path in written(work, options)]
    if failed:
        lines.append(f"{failed} cells failed, as said above; the same command runs them again.")
    return desk.end(1 if failed else 0, lines, {"tables": facts, "results": str(options.results), "failed": failed})


def scale_of(options: argparse.Namespace) -> Scale:
    """How much is run."""
    from dataclasses import replace

    from aimwise.study.paper.methods import FULL, QUICK

    scale = QUICK if options.quick else FULL
    if options.seeds is not None:
        scale = replace(scale, seeds=options.seeds, tuning_seeds=options.seeds)
    return scale if options.encoder is None else replace(scale, encoder=options.encoder.name)


def said(options: argparse.Namespace) -> str:
    """The command that makes these tables, without the places that only this machine has."""
    words = ["aimwise reproduce", *options.tables, "--quick" if options.quick else ""]
    words += [f"--data {' '.join(options.data)}" if options.data else ""]
    words += [f"--seeds {options.seeds}" if options.seeds else "", f"--jobs {options.jobs}" if options.jobs > 1 else ""]
    words += [f"--encoder {options.encoder.name}" if options.encoder else ""]
    return " ".join(word for word in words if word)


def listed(work: Any, desk: Any) -> int:
    """Every table: its place in the paper, how many of its cells are done, and the time they take."""
    from rich.table import Table as Sheet

    from aimwise.study.paper.registry import TABLES
    from aimwise.study.shown import spell

    records = work.store.records()
    sheet = Sheet(title=f"{work.scale.name} results in {work.store.path}", title_justify="left")
    for head in ("table", "in the paper", "what", "cells done", "one after the other"):
        sheet.add_column(head)
    facts = []
    for name, one in TABLES.items():
        seconds, done, cells = work.board(one, records).seconds()
        time = "not measured yet" if seconds is None else spell(seconds)
        sheet.add_row(name, one.place, one.title, f"{done} of {cells}", time)
        facts.append({"table": name, "place": one.place, "title": one.title, "done": done, "cells": cells, "seconds": seconds})
    lines = ["Times are those of the cells that are done, on the machines that ran them. Tables share cells."]
    return int(desk.end(0, lines, {"tables": facts}, shown=sheet))


def summary(work: Any, one: Table, desk: Any) -> dict[str, Any]:
    """Print a table, ours beside theirs, and its claims; and the same as facts."""
    from aimwise.cli.desk import console
    from aimwise.study.shown import as_facts, as_sheets

    board = work.board(one)
    if not desk.json:
        for sheet in as_sheets(board):
            console().print(sheet)
    return as_facts(board)


def written(work: Any, options: argparse.Namespace) -> list[Path]:
    """The reports that were asked for."""
    from aimwise.study.markdown import write_markdown
    from aimwise.study.report import write_report

    paths = []
    if options.report is not None:
        paths.append(write_report(work, options.report))
    if options.markdown is not None:
        paths.append(write_markdown(work, options.markdown))
    return paths
