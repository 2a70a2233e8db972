"""`aimwise explain`: weights for every row of a source of any length."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimwise.cli.options import MODELS, add_data, add_model, command, counts, natural, page, positive, share

if TYPE_CHECKING:
    from aimwise.cli.desk import Desk
    from aimwise.cli.streaming import Engine
    from aimwise.explainers.base import Explainer

EXAMPLES = """  aimwise explain news-explainer --model mypkg.models:clf --data new.parquet --out why.parquet --html why.html \\
      --top 10
  aimwise explain risk --model mypkg.models:forest --data big.csv.gz --out why.parquet --wide --key customer
  aimwise explain seen --model onnx:cnn.onnx --data pictures/ --out why.parquet --html why.html --try 1,3,10
  aimwise explain news-explainer --model mypkg.models:clf --data 'reviews/*.parquet' --out why/ --engine ray
  zcat texts.gz | aimwise explain news-explainer --model mypkg.models:clf --data - --out why.jsonl --json"""
OUTPUT = """output (.parquet, .csv or .jsonl), one row for every input, feature and class:
  row, key columns, prediction, probability (of the prediction), feature, value, place (which feature of the input), start and
  end (in a text), class, class_probability, weight, rank (1 speaks most for the class);
  with --wide one row for every input: row, keys, prediction, probability, probabilities, and arrays feature, value, place,
  start, end, and weights.CLASS for every class.
A folder gets files of the same rows, part-000000.parquet and so on, in the order of the input; every machine of a cluster
must see it, and the explainer, under the same name.
Parts are written to OUT.parts as it goes and become the file or folder at the end. After Ctrl-C or a kill, the same command
goes on from the last whole part and ends with the same file. Rows that cannot be read, or on which the model fails, are named in
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
    made.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="PLACE",
        help="where to write: a file (.parquet, .csv or .jsonl), or a folder of Parquet files (a name without an ending)",
    )
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
    group.add_argument("--batch-size", type=positive, default=1024, metavar="N", help="rows explained at once (%(default)s)")
    group.add_argument("--part-rows", type=positive, metavar="N", help="rows of each file of a folder (32 batches)")
    group.add_argument("--restart", action="store_true", help="throw away what an unfinished run has done")
    group = made.add_argument_group("where the work is done")
    group.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="in this process, or by workers of a Ray cluster (%(default)s)",
    )
    group.add_argument("--workers", type=positive, metavar="N", help="of the cluster (as many as it has cores)")
    group.add_argument("--worker-gpus", type=share, default=0.0, metavar="X", help="of every worker, such as 0.25 (none)")
    made.set_defaults(run=run)


def engine_of(options: argparse.Namespace, desk: Desk, explainer: Explainer) -> Engine:
    """What does the work."""
    from functools import partial

    from aimwise.cli.work import asking_of
    from aimwise.errors import BadSetting

    if options.engine == "local":
        if options.workers is not None or options.worker_gpus:
            raise BadSetting("--workers and --worker-gpus are for --engine ray. Say it, or leave them out.")
        from aimwise.scale.portion import here

        return partial(here, explainer)
    from aimwise.scale.loading import Loading
    from aimwise.scale.ray import Workers

    loading = Loading(str(options.explainer), options.model, asking_of(options))
    return Workers(loading, count=options.workers, gpus=options.worker_gpus, note=desk.note)


def run(options: argparse.Namespace) -> int:
    """Explain and write."""
    from aimwise.cli.desk import Desk, count
    from aimwise.cli.streaming import Stream
    from aimwise.cli.work import model_of, prepared
    from aimwise.errors import BadFile
    from aimwise.io.parts import check_folder, check_out
    from aimwise.matched import saved

    desk = Desk(options)
    check_out(options.out, wide=options.wide)
    if options.html is not None:
        check_folder(options.html)
    box = model_of(options)
    fitted = saved(options.explainer, box)
    explainer = fitted.explainer
    work = prepared(options, box, desk, fitted)
    engine = engine_of(options, desk, explainer)
    stream = Stream.begun(options, work, explainer)
    if stream.continued:
        desk.note(f"going on after row {stream.continued - 1:,}, with what {stream.parts.folder} holds")
    try:
        with redirect_stdout(sys.stderr):  # Ray says on standard output that a worker is lost
            stream.run(engine)
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
    about = {"method": explainer.method, "classes": list(explainer.classes_), **totals}
    written, failed = stream.parts.join(about), stream.write_failures()
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
