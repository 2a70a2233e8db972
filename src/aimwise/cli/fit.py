"""`aimwise fit`: learn to explain a model from rows, once."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from aimwise.cli.options import MODELS, add_data, add_model, command, natural, positive

SAMPLE = 20_000
EXAMPLES = """  aimwise fit --model mypkg.models:clf --data train.parquet --text-column body --out news-explainer
  aimwise fit --model mypkg.models:forest --data train.csv --label y --out risk --sample 5000
  aimwise fit --model hf:my-bert --data reviews.jsonl --out reviews --max-queries 20000 --folder checkpoints
  aimwise fit --model onnx:cnn.onnx --data pictures/ --features patches:8 --out seen
  aimwise fit --model https://models.example/score --http-header Authorization=env:TOKEN --data train.csv --out risk
  aimwise fit --model mypkg.models:clf --data train.parquet --method lime --out news-lime
  aimwise fit --model mypkg.models:slow --data train.parquet --out news-explainer --workers 16 --answers answers
  torchrun --nproc-per-node 4 -m aimwise fit --model mypkg.models:clf --data train.parquet --out news-explainer"""
RECIPES = ("default", "paper", "released")


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "fit",
        help="train an explainer for a model, once",
        description="Trains an explainer for a model on rows like those that will be explained, and saves it as a folder.\n"
        "Ctrl-C keeps the best epoch so far. Processes that torchrun starts fit together: each asks the model about\n"
        "its share of the rows and learns from them, and the first writes.",
        examples=EXAMPLES,
        more=MODELS,
    )
    made.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to save the explainer")
    add_model(made)
    add_data(made)
    group = made.add_argument_group("the explainer")
    group.add_argument("--method", default="aim", metavar="NAME", help="aim, fastshap, lime, kernel_shap, ... (%(default)s)")
    group.add_argument("--recipe", choices=RECIPES, default="default", help="of aim: ours, or the paper's (%(default)s)")
    group.add_argument("--features", metavar="KIND", help="words, columns, patches:7, pixels, segments:50, tokens (what suits)")
    group.add_argument("--fill", metavar="NAME", help="what stands in for a feature that is taken away (what suits)")
    group.add_argument("--epochs", type=positive, metavar="N", help="how many at most (the method's own)")
    group.add_argument(
        "--sample", type=positive, default=SAMPLE, metavar="N", help="learn from at most so many rows (%(default)s)"
    )
    group.add_argument("--max-queries", type=positive, metavar="N", help="ask the model about at most so many inputs")
    group.add_argument(
        "--retries", type=natural, default=0, metavar="N", help="how often to ask again if it raises (%(default)s)"
    )
    group.add_argument("--workers", type=positive, metavar="N", help="let so many workers of a Ray cluster ask the model")
    group.add_argument(
        "--answers", type=Path, metavar="FOLDER", help="with --workers: keep the model's answers there, and ask nothing twice"
    )
    group.add_argument("--seed", type=int, default=0, help="of the sample and the training (%(default)s)")
    group.add_argument("--device", default="auto", help="auto, cpu or cuda (%(default)s: the GPU where there is one)")
    group.add_argument("--folder", type=Path, metavar="FOLDER", help="keep a checkpoint there; a fit that was killed goes on")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fit and save; of several processes on a machine the first says what went wrong, unless one is gone."""
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        return fit(options)
    from aimwise.errors import AimwiseError, LostProcess

    try:
        return fit(options)
    except LostProcess:
        raise
    except AimwiseError:
        return 1
    except KeyboardInterrupt:
        return 130


def fit(options: argparse.Namespace) -> int:
    """Fit and save."""
    from aimwise.cli.desk import Desk, count, part_of
    from aimwise.cli.work import features_of, learned_types, model_of, prepared
    from aimwise.explainers.saved import CONFIG, save
    from aimwise.files import is_empty_folder, write_folder, write_json
    from aimwise.io.inputs import read
    from aimwise.io.parts import check_folder
    from aimwise.io.sample import first_of, sampled
    from aimwise.matched import ROLES
    from aimwise.progress import bar

    desk = Desk(options)
    explainer, engine = explainer_of(options), several(options.device)
    leads = int(os.environ.get("RANK", "0")) == 0 or engine is None
    desk.quiet |= not leads
    check_folder(options.out)
    if options.out.exists() and not (options.out / CONFIG).is_file() and not is_empty_folder(options.out):
        from aimwise.errors import BadFile

        raise BadFile(f"{options.out} exists and is not an explainer. Choose another name or remove it first.")
    box = model_of(options)
    work = prepared(options, box, desk, None)
    features = features_of(options.features, options.fill, work)
    with bar(work.source.total or 0, "read", hidden=not leads) as shown:
        portion, total = sampled(work.source, work.roles, options.sample, options.seed, shown)
    form = learned_types(work.form, work.source, work.roles, portion.frame)
    rows = read(portion, work.roles, form)
    if rows.broken:
        desk.note(f"  {count(len(rows.broken), 'row')} cannot be used, and nothing is learned from them{first_of(rows.broken)}")
    what = f"{type(features).__name__.lower()} filled by {features.fill}"
    desk.note(f"learning from {part_of(len(rows), total - len(rows.broken), options.seed)}, by {options.method}: {what}")
    explainer.fit(
        asked_by(options, box),
        rows.inputs,
        features=features,
        seed=options.seed,
        folder=options.folder,
        max_queries=options.max_queries,
        retries=options.retries,
        engine=engine,
    )
    if not leads:
        return 130 if explainer.__dict__.get("stopped_") == "interrupted" else 0

    def write(folder: Path) -> None:
        save(explainer, folder)
        write_json(folder / ROLES, {"roles": work.roles.config(), "form": form.config()})

    write_folder(options.out, write, CONFIG)
    facts = explainer.__dict__
    history, best, stopped = facts.get("history_", []), facts.get("best_epoch_"), facts.get("stopped_")
    agreement = history[best].get("agreement") if history and best is not None else None
    lines = [f"saved: {options.out} ({options.method}, {len(explainer.classes_)} classes: {shortly(explainer.classes_)})"]
    if agreement is not None:
        lines.append(f"agreement with the model on held-out rows: {agreement:.3f}, epoch {best} of {len(history)} ({stopped})")
    lines.append(f"{count(explainer.queries_, 'question')} to the model, {explainer.fit_seconds_:.1f} s")
    return desk.end(
        130 if stopped == "interrupted" else 0,
        lines,
        {
            "out": str(options.out),
            "method": options.method,
            "rows": total,
            "learned_from": len(rows),
            "unusable": len(rows.broken),
            "classes": list(explainer.classes_),
            "roles": work.roles.config(),
            "agreement": agreement,
            "epochs": len(history) or None,
            "stopped": stopped,
            "queries": explainer.queries_,
        },
    )


def explainer_of(options: argparse.Namespace) -> Any:
    """The method with the settings that were said."""
    from aimwise.errors import BadSetting, unknown
    from aimwise.explainers import AIM, METHODS

    if options.method not in METHODS:
        raise unknown("method", options.method, METHODS)
    if options.recipe != "default" and options.method != "aim":
        raise BadSetting(f"--recipe {options.recipe} is one of aim, got --method {options.method}. Leave one of them out.")
    if options.answers is not None and options.workers is None:
        raise BadSetting(f"--answers {options.answers} is where workers keep what they are told. Say how many: --workers N.")
    settings: dict[str, Any] = {"device": options.device}
    if options.epochs is not None:
        if "epochs" not in METHODS[options.method]().get_params():
            raise BadSetting(f"{options.method} trains nothing, so it has no --epochs.")
        settings["epochs"] = options.epochs
    make = METHODS[options.method] if options.recipe == "default" else getattr(AIM, options.recipe)
    return make(**settings)


def asked_by(options: argparse.Namespace, box: Any) -> Any:
    """The model, or workers that ask it."""
    if options.workers is None:
        return box
    from aimwise.cli.work import asking_of
    from aimwise.scale import Pool

    return Pool(options.model, workers=options.workers, folder=options.answers, asking=asking_of(options))


def several(device: str) -> Any:
    """A Fabric of the processes that torchrun started; None where this is the only one."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world < 2:
        return None
    import logging

    from aimwise.device import resolve_device
    from aimwise.errors import extra

    fabric: Any = extra("lightning_fabric", "scale")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return fabric.Fabric(accelerator=resolve_device(device).type, devices=here, num_nodes=max(1, world // here), strategy="ddp")


def shortly(names: tuple[str, ...]) -> str:
    """The first names."""
    return ", ".join(names[:8]) + ", ..." * (len(names) > 8)
