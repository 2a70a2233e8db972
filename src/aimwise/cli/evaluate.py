"""`aimwise evaluate`: how faithful an explainer is, beside other methods on the same rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimwise.cli.options import MODELS, add_data, add_model, command, counts, names, positive

if TYPE_CHECKING:
    from aimwise.cli.work import Work
    from aimwise.explainers.base import Explainer
    from aimwise.io.inputs import Rows

SAMPLE = 200
USUAL = ("faithfulness", "sufficiency", "comprehensiveness")
EXAMPLES = """  aimwise evaluate news-explainer --model mypkg.models:clf --data test.parquet --rivals lime,ig,random
  aimwise evaluate risk --model mypkg.models:forest --data test.csv --rivals kernel_shap --sample 50 --k 1,3 --out scores.json
  aimwise evaluate risk --model mypkg.models:forest --data test.csv --rivals fastshap,l2x --train train.csv"""
SCORES = (".json", ".csv", ".parquet")


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "evaluate",
        help="score an explainer beside other methods on the same rows",
        description="Asks the model about the features that each method finds important, alone and without them, and prints\n"
        "every metric with 95 % intervals; a random order and one list for all inputs always stand beside.",
        examples=EXAMPLES,
        more=MODELS,
    )
    made.add_argument("explainer", type=Path, metavar="EXPLAINER", help="the folder that `aimwise fit` or save() wrote")
    add_model(made)
    add_data(made)
    group = made.add_argument_group("the scores")
    group.add_argument("--rivals", type=names, default=(), metavar="A,B", help="other methods: lime, kernel_shap, ig, ...")
    group.add_argument("--train", nargs="+", metavar="PLACE", help="rows that rivals learn from, where they learn")
    group.add_argument("--sample", type=positive, default=SAMPLE, metavar="N", help="judge on at most so many rows (%(default)s)")
    group.add_argument("--k", type=counts, default=(1, 3, 5, 10), metavar="K,K", help="how many features to keep (1,3,5,10)")
    group.add_argument(
        "--metrics",
        type=names,
        default=USUAL,
        metavar="A,B",
        help="which ones, or all (faithfulness,sufficiency,comprehensiveness)",
    )
    group.add_argument("--fills", type=names, metavar="A,B", help="what stands in for a feature (the explainer's and another)")
    group.add_argument("--seed", type=int, default=0, help="of the sample and the rivals (%(default)s)")
    group.add_argument("--out", type=Path, metavar="FILE", help="also write the scores: .json, .csv or .parquet")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Score and print."""
    import json

    from aimwise.cli.desk import Desk, part_of
    from aimwise.cli.work import model_of, prepared
    from aimwise.errors import BadSetting, unknown
    from aimwise.explainers import METHODS
    from aimwise.io.parts import check_folder
    from aimwise.io.sample import sample_rows
    from aimwise.matched import saved
    from aimwise.progress import bar
    from aimwise.scores import evaluate

    desk = Desk(options)
    for name in options.rivals:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    if options.out is not None:
        if options.out.suffix not in SCORES:
            raise BadSetting(f"Got --out {options.out}, wanted a name that ends in {', '.join(SCORES)}.")
        check_folder(options.out)
    box = model_of(options)
    kept = saved(options.explainer, box)
    explainer = kept.explainer
    work = prepared(options, box, desk, kept)
    chosen, left_out = rivals_of(options, explainer)
    with bar(work.source.total or 0, "read") as shown:
        rows, total = sample_rows(work.source, work.roles, work.form, most=options.sample, seed=options.seed, shown=shown)
    desk.note(f"judging on {part_of(len(rows), total - len(rows.broken), options.seed)}")
    metrics = None if options.metrics == ("all",) else options.metrics
    methods = {explainer.method: explainer} | fitted(options, explainer, chosen, rows, work)
    scores = evaluate(methods, rows.inputs, k=options.k, metrics=metrics, fills=options.fills, seed=options.seed)
    if options.out is not None and options.out.suffix == ".json":
        scores.to_json(options.out)
    elif options.out is not None:
        frame = scores.to_frame()
        frame.to_csv(options.out, index=False) if options.out.suffix == ".csv" else frame.to_parquet(options.out)
    lines = [f"left out: {name}: {why}" for name, why in left_out.items()]
    lines += [f"scores: {options.out}"] if options.out is not None else []
    facts = {
        "rows": total,
        "judged_on": len(rows),
        "unusable": len(rows.broken),
        "left_out": left_out,
        "out": None if options.out is None else str(options.out),
        **json.loads(scores.to_json()),
    }
    return desk.end(0, lines, facts, shown=scores)


def rivals_of(options: argparse.Namespace, explainer: Explainer) -> tuple[list[str], dict[str, str]]:
    """The rivals that can explain this model, and why others cannot."""
    from aimwise.errors import AimwiseError, BadSetting
    from aimwise.explainers import METHODS
    from aimwise.explainers.learned import Learned

    chosen, left_out = [], {}
    for name in dict.fromkeys(options.rivals):
        method = METHODS[name]()
        if name == explainer.method or name in ("random", "lexicon"):
            continue  # stands in the table already
        if (isinstance(method, Learned) or name == "maple") and not options.train:
            raise BadSetting(f"The rival {name} learns from rows that it is not judged on. Pass them: --train PLACE.")
        try:
            method._suits(explainer.box_.softened() if method.gradients else explainer.box_)
            chosen.append(name)
        except AimwiseError as e:
            left_out[name] = str(e)
    return chosen, left_out


def fitted(options: argparse.Namespace, explainer: Explainer, chosen: list[str], rows: Rows, work: Work) -> dict[str, Explainer]:
    """The rivals over the same features, fitted on the training rows, or on those judged where nothing is learned from them."""
    from aimwise.cli.fit import SAMPLE
    from aimwise.cli.work import opened_source
    from aimwise.explainers import METHODS
    from aimwise.io.sample import sample_rows
    from aimwise.progress import bar

    inputs = rows.inputs
    if options.train and chosen:
        source = opened_source(options, options.train)
        with bar(source.total or 0, "read") as shown:
            learned, _ = sample_rows(source, work.roles, work.form, most=SAMPLE, seed=options.seed, shown=shown)
        inputs = learned.inputs
    box, features = explainer.box_.blackbox, explainer.box_.features
    classes = None if box.class_names is not None else explainer.classes_
    return {name: METHODS[name]().fit(box, inputs, features=features, class_names=classes, seed=options.seed) for name in chosen}
