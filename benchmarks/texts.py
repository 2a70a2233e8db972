"""The paper's text sets: AIM beside random words on the paper's black boxes, which are trained once and kept in the cache.

    python -m benchmarks.texts [--sets imdb ag_news hatexplain] [--methods paper default random oracle] [--seeds 3] [--jobs 4]
                               [--out results/texts.json]

Every cell (data set, method, seed) is written to the file when it is done; the same command goes on with those that are missing.
Faithfulness is the share of test texts whose prediction the K words that speak most for it keep, alone: with padding where the
others stood (in_place), or moved to the front (packed). Class-specific: the share of test texts that the K words which speak
most for a class turn to that class. The oracle adds the word that helps most, one after the other, on 100 texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.errors import BadSetting, Collapsed
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness
from aimwise.study.cells import Facts, mean_of
from aimwise.study.machine import module_command
from aimwise.study.paper.boxes import ROWS, TEXTS, task
from aimwise.study.paper.methods import BATCH, EPOCHS
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile

KS = (1, 2, 3, 5, 10)
FILLS = ("in_place", "packed")
SEARCHED = 100  # texts that the oracle looks at
METHODS = {
    "paper": lambda name: replace(aimwise.AIM.paper(epochs=EPOCHS[name]), batch_size=BATCH[name]),
    "released": lambda name: replace(aimwise.AIM.released(epochs=EPOCHS[name]), batch_size=BATCH[name]),
    "default": lambda name: aimwise.AIM(),
    "random": lambda name: aimwise.Random(),
}


def prepare(name: str, scale: str = "full") -> Facts:
    """Train a black box if it is not there yet, and say which it is."""
    found = task(name, scale)
    assert found.reader is not None
    known = {"network": found.network, "test_accuracy": found.accuracy}
    return {**known, "epochs": found.reader.epochs, "sha256": found.sha256}


def note_readers(store: OneFile, names: Sequence[str], scale: str = "full") -> None:
    """Keep which black boxes the cells of a file are about, and refuse to add cells about others to them."""
    known, made = dict(store.said().get("readers", {})), {name: prepare(name, scale) for name in names}
    for name, reader in made.items():
        before = known.get(name, reader)["sha256"]
        if before != reader["sha256"] and store.find({"data": name}):
            raise BadSetting(
                f"{store.path} is about another {name} network: sha256 {before[:12]}, the one here {reader['sha256'][:12]}. "
                "Put that one into the cache, remove those cells, or name another file with --out."
            )
    store.note({"readers": known | made})


def cell(facts: Facts) -> Facts:
    """One method fitted on one black box with one seed, and its figures on the test part."""
    data, method, seed = facts["data"], facts["method"], facts["seed"]
    if method == "oracle":
        return oracle(data)
    found = task(data, "full")
    test, explainer = found.test, METHODS[method](data)
    done: Facts = {"settings": repr(explainer), "texts": len(test)}
    try:
        explainer.fit(found.box, found.train, features=found.features, seed=seed)
    except Collapsed as e:
        return {**done, "collapsed": str(e)}
    started = time.perf_counter()
    explanation = explainer.explain(test)
    seconds = time.perf_counter() - started
    figures = {
        f"{fill}@{k}": 100 * float(faithfulness(ablate(explainer.box_, test, explanation, k=k, fill=fill)).mean())
        for fill in FILLS
        for k in KS
    }
    for fill in FILLS:
        turned = [
            100
            * float((ablate(explainer.box_, test, explanation, k=10, fill=fill, target=c).kept[0].argmax(-1) == c).float().mean())
            for c in range(len(found.data.classes))
        ]
        figures |= {f"class {fill}@10": sum(turned) / len(turned), f"classes {fill}@10": turned}
    fit = {"fit_seconds": explainer.fit_seconds_, "queries": explainer.queries_, "explain_seconds": seconds}
    history = getattr(explainer, "history_", [])
    best = history[explainer.best_epoch_] if history else {}
    return {
        **done,
        **fit,
        **{f"best_{k}": best[k] for k in ("epoch", "agreement", "tracking", "selected") if k in best},
        **figures,
    }


def oracle(name: str) -> Facts:
    """How often a greedy search over words, ten at most, finds some that keep the prediction, in place."""
    found = task(name, "full")
    box, test = found.box, found.test[:SEARCHED]
    wanted = box.probs(test).argmax(1)
    kept = torch.zeros_like(test, dtype=torch.bool)
    right = torch.zeros(len(test), dtype=torch.bool, device=test.device)
    for _ in range(10):
        for i in (~right).nonzero()[:, 0].tolist():
            free = ((test[i] != 0) & ~kept[i]).nonzero()[:, 0]
            if len(free) == 0:
                continue
            tried = kept[i].repeat(len(free), 1)
            tried[torch.arange(len(free)), free] = True
            parts = torch.split(torch.where(tried, test[i], 0), ROWS)
            p = torch.cat([box.probs(part) for part in parts])[:, wanted[i]]
            kept[i] = tried[int(p.argmax())]
        right = box.probs(torch.where(kept, test, 0)).argmax(1) == wanted
        if right.all():
            break
    return {"texts": len(test), "in_place@10": 100 * float(right.float().mean())}


def main() -> None:
    options = arguments()
    store = OneFile(options.out)
    study = Study(store, "benchmarks.texts:cell", module_command("benchmarks.texts"))
    note_readers(store, options.sets)
    seeds = {method: 1 if method == "oracle" else options.seeds for method in options.methods}
    wanted = [
        {"data": name, "method": method, "seed": seed}
        for method in options.methods
        for name in options.sets
        for seed in range(seeds[method])
    ]
    refuse_failures(study.run(wanted, jobs=options.jobs, say=Console().out))
    Console().print(table(store, options))


def table(cells: OneFile, options: argparse.Namespace) -> Table:
    """The mean over the seeds of every method on every data set."""
    names = ["in_place@1", "in_place@5", "in_place@10", "packed@10", "class packed@10"]
    made = Table("data", "method", "seeds", "collapsed", *names, "fit s")
    for name in options.sets:
        for method in options.methods:
            found = cells.find({"data": name, "method": method})
            lost = sum("collapsed" in c for c in found)
            made.add_row(name, method, str(len(found)), str(lost), *(mean_of(found, k) for k in (*names, "fit_seconds")))
    return made


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=TEXTS, default=TEXTS)
    methods = [*METHODS, "oracle"]
    parser.add_argument("--methods", nargs="+", choices=methods, default=methods)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/texts.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
