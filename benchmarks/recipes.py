"""The laboratory: recipes for AIM beside the slow methods and the learned rivals, on one black box for each data set.

    python -m benchmarks.recipes [--sets imdb ag_news hatexplain mnist3-patches ...] [--recipes default ...] [--rivals ig ...]
                                 [--seeds 3] [--jobs 4] [--judge] [--out results/recipes.json]

Every cell (data set, method, seed) is written to the file when it is done; the same command goes on with those that are missing.
All methods see the same saved black box, and their features are taken away by the same fills. Slow methods explain the first
texts only (`SLOW`), and the recipes are judged on those as well (`first rows`). --judge adds EVAL-X.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import load, zoo
from aimwise.errors import Collapsed
from aimwise.metrics.leakage import Predictor
from aimwise.scores.evaluate import evaluate
from aimwise.study.cells import Facts
from aimwise.study.machine import module_command
from aimwise.study.paper import boxes
from aimwise.study.paper.work import CLASS_K, of_classes
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile
from benchmarks import candidates
from benchmarks.judges import kept_judge
from benchmarks.texts import note_readers

ROWS = 2000  # test inputs that are explained
TOP = 10  # features of the first inputs that are kept, to see how far seeds agree
SEEDED = ("fastshap", "l2x", "lime 5000")  # rivals that are run with all seeds
METRICS = ("faithfulness", "sufficiency", "comprehensiveness", "positive_log_odds", "negative_log_odds", "class_faithfulness")


@dataclass(frozen=True)
class Task:
    """A black box, inputs to learn from and to explain, and how features are taken away from them."""

    box: Any
    train: Any
    test: Any
    features: aimwise.Features
    classes: tuple[str, ...] | None
    fills: tuple[str, ...]
    ks: tuple[int, ...]
    accuracy: float
    sha256: str  # of the black box


def text_task(name: str) -> Task:
    of = boxes.task(name, "full")
    fills, ks = ("in_place", "packed"), (1, 3, 5, 10)
    return Task(of.box, of.train, of.test[:ROWS], of.features, None, fills, ks, of.accuracy, of.sha256)


def image_task(name: str, features: aimwise.Features, ks: tuple[int, ...]) -> Task:
    data, kept = load(name), zoo.kept(name)
    box = aimwise.TorchBox(kept.network.module, output="logits", class_names=data.classes)
    train, test, sha = data.train.inputs, data.test.inputs[:ROWS], boxes.weights(name, "")
    return Task(box, train, test, features, None, ("zero", "mean"), ks, kept.network.test_accuracy, sha)


def table_task(name: str) -> Task:
    data = load(name)
    model = zoo.BOXES.get(name, zoo.random_forest)(data)
    return Task(
        model,
        data.train.inputs,
        data.test.inputs.iloc[:ROWS],
        aimwise.Columns(),
        data.classes,
        ("background", "mean"),
        (1, 3, 5),
        zoo.accuracy(model, data.test),
        boxes.by_making(model, data),
    )


TASKS: dict[str, Callable[[], Task]] = {
    "imdb": lambda: text_task("imdb"),
    "ag_news": lambda: text_task("ag_news"),
    "hatexplain": lambda: text_task("hatexplain"),
    "mnist3-patches": lambda: image_task("mnist3", aimwise.Patches(7, fill="zero"), (1, 3, 5, 10)),
    "fashion3-patches": lambda: image_task("fashion3", aimwise.Patches(7, fill="zero"), (1, 3, 5, 10)),
    "mnist-patches": lambda: image_task("mnist", aimwise.Patches(7, fill="zero"), (1, 3, 5, 10)),
    "digits-patches": lambda: image_task("digits", aimwise.Patches(2, fill="zero"), (1, 3, 5, 10)),
    "mnist3-pixels": lambda: image_task("mnist3", aimwise.Pixels(fill="zero"), (10, 50, 200, 400)),
    "fashion3-pixels": lambda: image_task("fashion3", aimwise.Pixels(fill="zero"), (10, 50, 200, 400)),
    "adult": lambda: table_task("adult"),
    "admission": lambda: table_task("admission"),
    "breast_cancer": lambda: table_task("breast_cancer"),
    "wine": lambda: table_task("wine"),
}
RECIPES: dict[str, Callable[[], aimwise.Explainer]] = {
    "default": lambda: aimwise.AIM(),
    "alone": lambda: aimwise.AIM(pairs=0),
    "blind": lambda: aimwise.AIM(look=False),
    "own rows": lambda: aimwise.AIM(least_rows=0),
    "blind, own rows": lambda: aimwise.AIM(look=False, least_rows=0),
    "near": lambda: aimwise.AIM(networks="near"),
    "dilated": lambda: aimwise.AIM(networks="dilated"),
    "attention": lambda: aimwise.AIM(networks="attention"),
    "recurrent": lambda: aimwise.AIM(networks="recurrent"),
    "faint": lambda: aimwise.AIM(networks="faint"),
    "pair": lambda: aimwise.AIM(networks="pair"),
    "deep": lambda: aimwise.AIM(networks="deep"),
    "reading": lambda: aimwise.AIM(networks="reading"),
    "long": lambda: aimwise.AIM(most_rows=1 << 14),
    "longer": lambda: aimwise.AIM(most_rows=1 << 15),
    "faint long": lambda: aimwise.AIM(networks="faint", most_rows=1 << 14),
    "pair long": lambda: aimwise.AIM(networks="pair", most_rows=1 << 14),
    "leaning": lambda: aimwise.AIM(masks="leaning"),
    "ends": lambda: aimwise.AIM(masks="ends"),
    "few": lambda: aimwise.AIM(masks="few"),
    "kernel": lambda: aimwise.AIM(masks="kernel"),
    "log-odds": lambda: aimwise.AIM(loss="log_odds"),
    "beta 0": lambda: aimwise.AIM(beta=0.0),
    "beta 1e-3": lambda: aimwise.AIM(beta=1e-3),
    "hard": lambda: aimwise.AIM(target="hard"),
    "no average": lambda: aimwise.AIM(average=0.0),
    "2M": lambda: aimwise.AIM(most_queries=1 << 21, most_rows=None),
    "128k": lambda: aimwise.AIM(most_queries=1 << 17),
    "32k": lambda: aimwise.AIM(most_queries=1 << 15),
    "paper": lambda: aimwise.AIM.paper(),
}
RIVALS: dict[str, Callable[[], aimwise.Explainer]] = {
    "ig": lambda: aimwise.METHODS["ig"](steps=50),
    "occlusion": lambda: aimwise.METHODS["occlusion"](),
    "lime 1000": lambda: aimwise.METHODS["lime"](samples=1000),
    "lime 5000": lambda: aimwise.METHODS["lime"](samples=5000),
    "kernel_shap": lambda: aimwise.METHODS["kernel_shap"](via="shap" if find_spec("shap") else "captum"),
    "fastshap": lambda: aimwise.METHODS["fastshap"](),
    "l2x": lambda: aimwise.METHODS["l2x"](),
    "lexicon": lambda: aimwise.METHODS["lexicon"](),
    "random": lambda: aimwise.METHODS["random"](),
}
SLOW = {"lime 1000": 100, "lime 5000": 100, "kernel_shap": 100}
FEW = 500  # training inputs for methods that learn nothing from them
LEARNS = ("fastshap", "l2x", "lexicon")
NOT_FOR = {"lexicon": "image", "ig": "table"}  # a global list of patches says nothing; forests have no gradients


@cache
def task(data: str) -> Task:
    torch.set_num_threads(1)
    candidates.register()
    return TASKS[data]()


@cache
def judge(data: str) -> Predictor:
    """EVAL-X's judge for a data set, the same for all methods."""
    found = task(data)
    fitted = aimwise.Random().fit(found.box, found.train[:FEW], features=found.features, class_names=found.classes)
    return kept_judge(data, fitted.box_, found.train)


def cell(facts: Facts) -> Facts:
    """One method on one black box, and its figures on all rows and on those that slow methods explain."""
    data, method, seed, judged = facts["data"], facts["method"], facts["seed"], facts["judged"]
    found = task(data)
    explainer = (RECIPES | RIVALS)[method]()
    learns = method in RECIPES or method in LEARNS
    train = found.train if learns else found.train[:FEW]
    done: Facts = {"settings": repr(explainer), "accuracy": found.accuracy, "box_sha256": found.sha256}
    started = time.perf_counter()
    try:
        explainer.fit(found.box, train, features=found.features, class_names=found.classes, seed=seed)
    except Collapsed as e:
        return {**done, "collapsed": str(e)}
    done |= {"fit_seconds": time.perf_counter() - started, "queries": explainer.queries_}
    test = found.test[: SLOW.get(method)]
    started = time.perf_counter()
    explanation = explainer.explain(test)
    done |= {"explain_seconds": time.perf_counter() - started, "rows": len(explanation)}
    history = getattr(explainer, "history_", None)
    if history:
        done |= {"agreement": history[explainer.best_epoch_]["agreement"], "epochs": len(history)}
    names = [name for name in METRICS if explainer.every_class or name != "class_faithfulness"]
    metrics = names + (["eval_x"] if judged else [])
    scores = evaluate(
        {method: explanation},
        test,
        box=explainer.box_,
        k=found.ks,
        metrics=metrics,
        fills=found.fills,
        controls=(),
        judge=judge(data) if judged else None,
    )
    if explainer.every_class and CLASS_K in found.ks:
        done |= of_classes(explainer, explanation, test, CLASS_K, found.fills)
    few = min(min(SLOW.values()), len(explanation))
    done["tops"] = [" ".join(map(str, row)) for row in explanation[:few].order()[:, :TOP].tolist()]
    for score in scores.rows:
        name = f"{score.metric}@{score.k}" + (f" {score.fill}" if score.fill else "")
        done[name] = score.mean
        done[f"{name} first rows"] = float(score.values[:few].nanmean())
    return done


OUT = Path("results/recipes.json")


def study(store: OneFile, command: str, *, renew: bool = False) -> Study:
    """The study whose cells these are."""
    return Study(store, "benchmarks.recipes:cell", command, renew)


def cells(
    sets: Sequence[str], recipes: Sequence[str] = ("default",), rivals: Sequence[str] = tuple(RIVALS), *, seeds: int, judged: bool
) -> list[Facts]:
    """What is asked of these methods on these data sets, first seeds first."""
    return [
        {"data": name, "method": method, "seed": seed, "judged": judged}
        for seed in range(seeds)
        for method in (*recipes, *rivals)
        for name in sets
        if (seed == 0 or method in recipes or method in SEEDED) and NOT_FOR.get(method) != kind_of(name)
    ]


def kind_of(name: str) -> str:
    """Whether a data set's features are parts of images, words or columns."""
    return "image" if name.endswith(("-patches", "-pixels")) else "text" if name in boxes.TEXTS else "table"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--recipes", nargs="*", choices=list(RECIPES), default=["default"])
    parser.add_argument("--rivals", nargs="*", choices=list(RIVALS), default=list(RIVALS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--judge", action="store_true", help="EVAL-X as well")
    parser.add_argument("--renew", action="store_true", help="run finished cells again that another commit made")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    store = OneFile(options.out)
    note_readers(store, [name for name in options.sets if name in boxes.TEXTS])
    wanted = cells(options.sets, options.recipes, options.rivals, seeds=options.seeds, judged=options.judge)
    made = study(store, module_command("benchmarks.recipes"), renew=options.renew)
    refuse_failures(made.run(wanted, jobs=options.jobs, say=Console().out))
    for name in options.sets:
        Console(width=220).print(table(store, name))


def table(store: OneFile, data: str) -> Table:
    """The means over the seeds of all methods of one data set."""
    found = [c for c in store.find({"data": data}) if "collapsed" not in c]
    names = [n for n in dict.fromkeys(k for c in found for k in c) if "@" in n and "first rows" not in n]
    methods = list(dict.fromkeys(c["method"] for c in found))
    made = Table("", *methods, title=data)
    for name in [*names, "agreement", "fit_seconds", "explain_seconds", "queries"]:
        line = []
        for method in methods:
            values = [c[name] for c in found if c["method"] == method and name in c]
            line.append(f"{sum(values) / len(values):.4g}" if values else "")
        made.add_row(name, *line)
    return made


if __name__ == "__main__":
    main()
