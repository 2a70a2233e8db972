"""`aimwise show`: rows of a file that `aimwise explain` wrote, in the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from aimwise.cli.options import command, natural, positive

EXAMPLES = """  aimwise show why.parquet --row 17
  aimwise show why.parquet --row 17 --row 40 --target sports --top 5
  aimwise show why.parquet --row 17 --target all
  aimwise show why.parquet --row 17 --json"""


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "show",
        help="show rows of what `aimwise explain` wrote",
        description="Prints rows of a Parquet file that `aimwise explain` wrote: the probability of every class, and the\n"
        "strongest features for or against one.",
        examples=EXAMPLES,
    )
    made.add_argument("file", type=Path, metavar="FILE", help="what `aimwise explain` wrote: a Parquet file or a folder of them")
    made.add_argument("--row", type=natural, action="append", metavar="N", help="which row; may be repeated (the first five)")
    made.add_argument("--target", metavar="CLASS", help="the class to show evidence for, or all (the predicted one)")
    made.add_argument("--top", type=positive, default=10, metavar="K", help="how many features (%(default)s)")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and show."""
    from aimwise.cli.desk import Desk, console
    from aimwise.io.back import shown_rows
    from aimwise.render.terminal import show

    desk = Desk(options)
    found = shown_rows(options.file, options.row)
    if desk.json:
        target = None if options.target == "all" else options.target
        rows = []
        for one in found:
            e = one.explanation
            best = [{"feature": str(name), "weight": weight} for name, weight, *_ in e.top(options.top, target=target)]
            probs = dict(zip(e.classes, e.probs[0].tolist(), strict=True))
            rows.append({"row": one.row, "keys": one.keys, "probabilities": probs, "target": target, "top": best})
        return desk.end(0, [], {"file": str(options.file), "rows": rows})
    for one in found:
        known = ", ".join(f"{name}={value}" for name, value in one.keys.items())
        if known:
            console().print(f"\n{known}", style="dim")
        show(one.explanation, target=options.target, k=options.top, first=one.row)
    return 0
