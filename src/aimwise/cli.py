"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it went well, 1 if it could not be done, 2 if it was not understood, 130 after Ctrl-C."""
    options = parser().parse_args(arguments)
    from aimwise.errors import AimwiseError

    try:
        return int(options.run(options))
    except AimwiseError as e:
        sys.stderr.write(f"aimwise: {e}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("aimwise: stopped\n")
        return 130


def parser() -> argparse.ArgumentParser:
    """The commands and what they take."""
    from aimwise.data.command import add as add_data

    top = argparse.ArgumentParser(prog="aimwise", description="Explain any black-box model in one pass, for every class.")
    commands = top.add_subparsers(dest="command", required=True)
    show = commands.add_parser(
        "demo",
        help="explain forests on three tables and a network on images, and write a report",
        description="Trains an explainer on breast cancer, wine, a generated table and handwritten digits, prints how "
        "faithful it is beside a random order and a forest's own importances, and writes a page to look at. "
        "Under two minutes on two cores.",
        epilog="example: aimwise demo --out report.html",
    )
    show.add_argument("--out", type=Path, default=Path("aimwise-demo.html"), help="where to write the page (%(default)s)")
    show.add_argument("--seed", type=int, default=0, help="seed of models and explainers (%(default)s)")
    show.set_defaults(run=demo)
    add_data(commands)
    return top


def demo(options: argparse.Namespace) -> int:
    """Print the tables of the demo and write its page."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from aimwise.demo import report, run

    console, results = Console(), []
    for result in run(seed=options.seed):
        results.append(result)
        shown = Table(title=result.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in result.table.header:
            shown.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for row in result.table.rows:
            shown.add_row(*row)
        console.print(shown)
        console.print(result.table.caption + "\n", style="dim")
    path = report(results, options.out)
    console.print(f"Report: {path.resolve()}", soft_wrap=True)
    return 0
