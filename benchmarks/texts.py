"""The paper's text sets: AIM beside random words on the paper's black boxes, which are trained once and kept in the cache.

    python -m benchmarks.texts [--sets imdb ag_news hatexplain] [--methods paper default random] [--seeds 3] [--jobs 4]
                               [--oracle 100] [--out results/texts.json]

Every cell (data set, method, seed) is written to the file when it is done; the same command goes on with those that are missing.
Faithfulness is the share of test texts whose prediction the K words that speak most for it keep, alone: with padding where the
others stood (in_place), or moved to the front (packed). Class-specific: the share of test texts that the K words which speak
most for a class turn to that class. The oracle adds the word that helps most, one after the other, on a few texts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import load, zoo
from aimwise.errors import Collapsed
from aimwise.files import sha256, write_text
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness

KS = (1, 2, 3, 5, 10)
FILLS = ("in_place", "packed")
ROWS = 1024  # texts that a black box is asked about at once
EPOCHS = {"imdb": 8, "ag_news": 12, "hatexplain": 20}  # of AIM.paper(); the best one is kept
BATCH = {"imdb": 50, "ag_news": 400, "hatexplain": 400}  # as in the released code
READER_EPOCHS = {"imdb": 6, "ag_news": 8, "hatexplain": 25}  # at most; the best one by the dev part is kept
METHODS = {
    "paper": lambda name: replace(aimwise.AIM.paper(epochs=EPOCHS[name]), batch_size=BATCH[name]),
    "default": lambda name: aimwise.AIM(),
    "random": lambda name: aimwise.Random(),
}


def reader(name: str) -> zoo.Kept:
    """The black box for a data set, from the cache or trained."""
    return zoo.kept(name, epochs=READER_EPOCHS[name])


def prepare(name: str) -> dict[str, object]:
    """Train a black box if it is not there yet, and say which it is."""
    made = reader(name)
    return {
        "data": name,
        "network": made.network.network,
        "test_accuracy": made.network.test_accuracy,
        "epochs": made.network.epochs,
        "sha256": sha256(made.path / "weights.safetensors"),
    }


def asked(name: str) -> tuple[aimwise.TorchBox, torch.Tensor, torch.Tensor, list[str]]:
    """The black box, the ids it is fitted and judged on, and its words."""
    torch.set_num_threads(1)
    data, found = load(name), reader(name).network
    box = aimwise.TorchBox(found.module, output="logits", class_names=data.classes)
    box.rows_per_call = ROWS
    place = next(found.module.parameters()).device
    return box, found.encode(data.train.inputs).to(place), found.encode(data.test.inputs).to(place), list(found.vocabulary.words)


def cell(name: str, method: str, seed: int) -> dict[str, object]:
    """One method fitted on one black box with one seed, and its figures on the test part."""
    box, train, test, words = asked(name)
    explainer = METHODS[method](name)
    done: dict[str, object] = {"data": name, "method": method, "seed": seed, "settings": repr(explainer), "texts": len(test)}
    try:
        explainer.fit(box, train, features=aimwise.Tokens(words=words), seed=seed)
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
            for c in range(len(box.class_names or ()))
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


def oracle(name: str, texts: int) -> dict[str, object]:
    """How often a greedy search over words, ten at most, finds some that keep the prediction, in place."""
    box, _, test, _ = asked(name)
    test = test[:texts]
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
    return {"data": name, "method": "oracle", "seed": 0, "texts": len(test), "in_place@10": 100 * float(right.float().mean())}


def main() -> None:
    options = arguments()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()}, no GPU"
    found = json.loads(options.out.read_text()) if options.out.exists() else {"readers": {}, "cells": []}
    found |= {"command": "python -m benchmarks.texts", "device": device, "torch": torch.__version__, "ks": KS}
    done = {(c["data"], c["method"], c["seed"]) for c in found["cells"]}
    wanted = [(n, m, s) for s in range(options.seeds) for m in options.methods for n in options.sets if (n, m, s) not in done]

    def keep() -> None:
        write_text(options.out, json.dumps(found, indent=1) + "\n")

    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting: dict[Future[dict[str, object]], str] = {pool.submit(prepare, name): name for name in options.sets}
        while waiting:
            ready = next(as_completed(waiting))
            name, result = waiting.pop(ready), ready.result()
            if "method" in result:
                found["cells"].append(result)
                Console().print(line(result), highlight=False)
            else:
                found["readers"][name] = result
                Console().print(f"{name}: {result['network']}, {100 * result['test_accuracy']:.2f} % right", highlight=False)
                for cell_ in [w for w in wanted if w[0] == name]:
                    waiting[pool.submit(cell, *cell_)] = name
                if options.oracle and (name, "oracle", 0) not in done:
                    waiting[pool.submit(oracle, name, options.oracle)] = name
            keep()
    Console().print(table(found))


def line(result: dict[str, object]) -> str:
    """A finished cell in a line."""
    shown = {k: round(v, 2) for k, v in result.items() if (isinstance(v, float) and "@" in k) or k == "fit_seconds"}
    return f"{result['data']} {result['method']} {result['seed']}: {result.get('collapsed') or shown}"


def table(found: dict[str, object]) -> Table:
    """The mean over the seeds of every method on every data set."""
    names = ["in_place@1", "in_place@5", "in_place@10", "packed@10", "class packed@10"]
    made = Table("data", "method", "seeds", *names, "fit s")
    for name, method in dict.fromkeys((c["data"], c["method"]) for c in found["cells"]):
        cells = [c for c in found["cells"] if (c["data"], c["method"]) == (name, method) and "collapsed" not in c]
        made.add_row(name, method, str(len(cells)), *(mean(cells, k) for k in (*names, "fit_seconds")))
    return made


def mean(cells: list[dict[str, float]], key: str) -> str:
    """The mean of a figure over cells that have it."""
    values = [c[key] for c in cells if key in c]
    return f"{sum(values) / len(values):.2f}" if values else ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--oracle", type=int, default=0, help="on so many test texts")
    parser.add_argument("--out", type=Path, default=Path("results/texts.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
