"""`aimwise demo`: what the library does, on data that comes with it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from aimwise.cli.options import command


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "demo",
        help="explain forests on three tables and a network on images, and write a report",
        description="Trains an explainer on breast cancer, wine, a generated table and handwritten digits, prints how faithful\n"
        "it is beside a random order and a forest's own importances, and writes a page to look at. Under two minutes\n"
        "on two cores.",
        examples="  aimwise demo\n  aimwise demo --out report.html",
    )
    made.add_argument("--out", type=Path, default=Path("aimwise-demo.html"), help="where to write the page (%(default)s)")
    made.add_argument("--seed", type=int, default=0, help="seed of models and explainers (%(default)s)")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tables of the demo and write its page."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from aimwise import demo
    from aimwise.cli.desk import Desk, console
    from aimwise.io.parts import check_folder

    desk, results = Desk(options), []
    check_folder(options.out)
    for result in demo.run(seed=options.seed):
        results.append(result)
        if desk.json:
            continue
        shown = Table(title=result.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in result.table.header:
            shown.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for row in result.table.rows:
            shown.add_row(*row)
        console().print(shown)
        console().print(result.table.caption + "\n", style="dim")
    path = demo.report(results, options.out)
    tables = {r.data.name: [dict(zip(r.table.header, row, strict=True)) for row in r.table.rows] for r in results}
    return desk.end(0, [f"Report: {path.resolve()}"], {"out": str(path), "tables": tables})
