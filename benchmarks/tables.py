"""AIM beside LIME on tables: the same black box, the same rows, one process, compared as ratios.

    python -m benchmarks.tables [--rows 171] [--seeds 3] [--out results/tables.json]

LIME is its own package with its recommended settings for tables (5,000 samples, kernel width 0.75 * sqrt(columns), quartiles).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import Dataset, load, zoo
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.files import write_text
from aimwise.metrics import METRICS, ablate
from aimwise.metrics.ablation import DRAWS

KS = (1, 3, 5)
FILLS = ("mean", "background")
SAMPLES = 5000
MANY = 10_000


def lime(model: object, data: Dataset, rows: int, seed: int) -> tuple[Explanation, float]:
    """LIME's weights for every row and class, and the seconds they took."""
    explainer = aimwise.METHODS["lime"](samples=SAMPLES)
    explainer.fit(model, data.train.inputs, class_names=data.classes, seed=seed)
    started = time.perf_counter()
    explanation = explainer.explain(data.test.inputs.iloc[:rows])
    return explanation, time.perf_counter() - started


def scores(box: object, data: Dataset, explanation: Explanation) -> dict[str, float]:
    """Every metric at every K under both fills."""
    inputs = data.test.inputs.iloc[: len(explanation)]
    out = {}
    for fill in FILLS:
        for k in KS:
            ablation = ablate(box, inputs, explanation, k=k, fill=fill)
            out |= {f"{name}@{k} {fill}": float(m.measure(ablation).mean()) for name, m in METRICS.items()}
    return out


def seconds_for_many(explainer: aimwise.Explainer, data: Dataset) -> dict[str, float]:
    """Seconds to explain 10,000 rows for all classes, alone and with the black box's own prediction; median of five."""
    inputs = data.test.inputs.iloc[np.arange(MANY) % len(data.test)].reset_index(drop=True)
    probs = explainer.explain(inputs).probs
    return {
        "explain_10000_seconds": median_seconds(lambda: explainer.explain(inputs, probs=probs)),
        "predict_and_explain_10000_seconds": median_seconds(lambda: explainer.explain(inputs)),
    }


def median_seconds(work: Callable[[], object], times: int = 5) -> float:
    """The median time of some work."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def run(name: str, seed: int, rows: int) -> list[dict[str, object]]:
    """One data set and one seed: a record for each method."""
    data = load(name)
    model = zoo.random_forest(data)
    facts = {"data": name, "black box": "random forest", "accuracy": zoo.accuracy(model, data.test), "seed": seed}
    records: list[dict[str, object]] = []
    judge = None
    for method, made in (
        ("aim", aimwise.AIM()),
        ("aim, mean fill", aimwise.AIM()),
        ("aim.paper", aimwise.AIM.paper()),
        ("aim.released", aimwise.AIM.released()),
        ("random", aimwise.Random()),
    ):
        features = aimwise.Columns(fill="mean" if "mean" in method else "background")
        try:
            explainer = made.fit(model, data.train.inputs, features=features, class_names=data.classes, seed=seed)
        except Collapsed as e:
            records.append(facts | {"method": method, "collapsed": str(e)})
            continue
        judge = judge or explainer.box_
        ours = explainer.explain(data.test.inputs.iloc[:rows])
        cost = {"fit_seconds": explainer.fit_seconds_, "fit_queries": explainer.queries_, **seconds_for_many(explainer, data)}
        cost["rows_per_second"] = MANY / cost["predict_and_explain_10000_seconds"]
        records.append(facts | {"method": method, "rows": len(ours)} | cost | scores(judge, data, ours))
    theirs, seconds = lime(model, data, rows, seed)
    cost = {"rows_per_second": len(theirs) / seconds, "fit_seconds": 0.0}
    records.append(facts | {"method": "lime", "rows": len(theirs)} | cost | scores(judge, data, theirs))
    return records


def show(records: list[dict[str, object]]) -> None:
    """Means over the seeds as a table."""
    console = Console(width=150)
    wanted = (("faithfulness", 3), ("faithfulness", 5), ("comprehensiveness", 5))
    keys = [f"{metric}@{k} {fill}" for metric, k in wanted for fill in FILLS]
    for name in dict.fromkeys(r["data"] for r in records):
        mine = [r for r in records if r["data"] == name]
        seeds = len({r["seed"] for r in mine})
        title = f"{name}: random forest, {100 * mine[0]['accuracy']:.1f} % accurate, {mine[-1]['rows']} test rows, {seeds} seeds"
        shown = Table(title=title, title_justify="left")
        for head in ("method", *keys, "fit s", "rows/s with the forest", "times lime", "10,000 rows beyond it, s"):
            shown.add_column(head.replace("faithfulness", "faith.").replace("comprehensiveness", "compr."), justify="right")
        lime_rate = np.mean([r["rows_per_second"] for r in mine if r["method"] == "lime"])
        for method in dict.fromkeys(r["method"] for r in mine):
            of = [r for r in mine if r["method"] == method and "collapsed" not in r]
            collapsed = len([r for r in mine if r["method"] == method]) - len(of)
            label = f"{method} ({collapsed} collapsed)" if collapsed else method
            if not of:
                shown.add_row(label)
                continue
            cells = [f"{np.mean([r[k] for r in of]):.3f} ±{np.std([r[k] for r in of]):.3f}" for k in keys]
            rate = np.mean([r["rows_per_second"] for r in of])
            alone = [r["explain_10000_seconds"] for r in of if "explain_10000_seconds" in r]
            fit = f"{np.mean([r['fit_seconds'] for r in of]):.1f}"
            beyond = f"{np.mean(alone):.3f}" if alone else ""
            shown.add_row(label, *cells, fit, f"{rate:,.1f}", f"{rate / lime_rate:,.0f}", beyond)
        console.print(shown)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200, help="test rows to explain (%(default)s)")
    options.add_argument("--seeds", type=int, default=3, help="seeds of the explainers (%(default)s)")
    options.add_argument("--data", nargs="*", default=["breast_cancer", "wine"], help="data sets (%(default)s)")
    options.add_argument("--out", type=Path, default=Path("results/tables.json"), help="write the records as JSON (%(default)s)")
    given = options.parse_args()
    records = [r for name in given.data for seed in range(given.seeds) for r in run(name, seed, given.rows)]
    show(records)
    command = f"python -m benchmarks.tables --rows {given.rows} --seeds {given.seeds} --data {' '.join(given.data)}"
    machine = {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    machine |= {"cores": os.cpu_count(), "device": "cpu", "draws of the background": DRAWS, "lime samples": SAMPLES}
    write_text(given.out, json.dumps({"command": command, "machine": machine, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
