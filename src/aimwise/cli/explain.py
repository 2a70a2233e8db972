"""`aimwise explain`: weights for every row of a source of any length."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from aimwise.cli.options import MODELS, add_data, add_model, command, counts, natural, page, positive

EXAMPLES = """  aimwise explain news-explainer --model mypkg.models:clf --data new.parquet --out why.parquet --html why.html \\
      --top 10
  aimwise explain risk --model mypkg.models:forest --data big.csv.gz --out why.parquet --wide --key customer
  aimwise explain seen --model onnx:cnn.onnx --data pictures/ --out why.parquet --html why.html --try 1,3,10
  zcat texts.gz | aimwise explain news-explainer --model mypkg.models:clf --data - --out why.jsonl --json"""
OUTPUT = """output (.parquet, .csv or .jsonl), one row for every input, feature and class:
  row, key columns, prediction, probability (of the prediction), feature, value, place (which feature of the input), start and
  end (in a text), class, class_probability, weight, rank (1 speaks most for the class);
  with --wide one row for every input: row, keys, prediction, probability, probabilities, and arrays feature, value, place,
  start, end, and weights.CLASS for every class.
Parts are written to OUT.parts as it goes and become the file at the end. After Ctrl-C or a kill, the same command goes on from
the last whole part and ends with the same file. Rows that cannot be read, or on which the model fails, are named in
OUT.failed.jsonl; all others are explained, and the exit code is 3."""


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "explain",
        help="explain every row of a file, a folder or standard input",
        description="Weighs every feature of every row for every class, a batch at a time: memory does not grow with the data.",
        examples=EXAMPLES,
        more=f"{OUTPUT}\n\n{MODELS}",
    )
    made.add_argument("explainer", type=Path, metavar="EXPLAINER", help="the folder that `aimwise fit` or save() wrote")
    made.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write: .parquet, .csv or .jsonl")
    add_model(made)
    add_data(made)
    group = made.add_argument_group("what is written")
    group.add_argument("--top", type=positive, metavar="K", help="only the K features that speak most for each class (all)")
    group.add_argument("--wide", action="store_true", help="one row for every input, with arrays")
    group.add_argument("--html", type=page, metavar="FILE", help="also write a page to look at")
    group.add_argument("--html-rows", type=positive, default=1000, metavar="N", help="of so many first rows (%(default)s)")
    group.add_argument(
        "--check", type=natural, default=0, metavar="N", help="for the page: compare with the model on N masks of each row"
    )
    group.add_argument(
        "--try", dest="tried", type=counts, metavar="K,K", help="for the page: ask about the K strongest features alone"
    )
    group.add_argument("--batch-size", type=positive, default=1024, metavar="N", help="rows of a part (%(default)s)")
    group.add_argument("--restart", action="store_true", help="throw away what an unfinished run has done")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain and write."""
    from aimwise.cli.desk import Desk, count
    from aimwise.cli.streaming import Stream
    from aimwise.cli.work import loaded, model_of, prepared
    from aimwise.errors import BadFile
    from aimwise.io.parts import check_folder, check_out

    desk = Desk(options)
    check_out(options.out, wide=options.wide)
    if options.html is not None:
        check_folder(options.html)
    box = model_of(options)
    explainer, roles, form = loaded(options, box)
    work = prepared(options, box, desk, explainer, roles, form)
    stream = Stream.begun(options, work, explainer)
    if stream.continued:
        desk.note(f"going on after row {stream.continued - 1:,}, with what {stream.parts.folder} holds")
    try:
        stream.run()
    except BaseException:
        if done := stream.totals()["rows"]:
            desk.note(f"{count(done, 'row')} done and kept in {stream.parts.folder}; the same command goes on from there")
        else:
            stream.parts.remove()
        raise
    totals = stream.totals()
    if not totals["explained"]:
        first = next(stream.failures())
        stream.parts.remove()
        raise BadFile(f"No row of {work.source.called} could be explained. Row {first['row']}: {first['reason']}")
    shown = stream.write_page() if options.html is not None else 0
    written, failed = stream.parts.join(), stream.write_failures()
    stream.parts.remove()
    seconds = desk.seconds
    lines = [f"explained {totals['explained']:,} of {count(totals['rows'], 'row')} in {seconds:.1f} s: {options.out}"]
    lines[0] += f" ({count(written, 'line')})"
    if options.html is not None:
        more = "" if shown == totals["explained"] else f", the first {shown:,} rows"
        lines.append(f"page: {options.html}{more}")
    if failed is not None:
        sys.stderr.write(f"aimwise: {count(totals['failed'], 'row')} could not be explained; {failed} names them\n")
    return desk.end(
        3 if failed is not None else 0,
        lines,
        {
            "out": str(options.out),
            "lines": written,
            **totals,
            "failed_file": None if failed is None else str(failed),
            "html": None if options.html is None else str(options.html),
            "html_rows": shown,
            "continued_after": stream.continued,
            "method": explainer.method,
            "classes": list(explainer.classes_),
            "roles": work.roles.config(),
        },
    )
