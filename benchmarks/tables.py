"""AIM beside LIME on tables: the same black box, the same rows, one process, compared as ratios.

    python -m benchmarks.tables [--rows 171] [--seeds 3] [--out results/tables.json]

LIME is its own package with its recommended settings for tables (5,000 samples, kernel width 0.75 * sqrt(columns), quartiles).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import Dataset, load, zoo
from aimwise.explanation import Explanation
from aimwise.files import write_text
from aimwise.metrics import METRICS, ablate

KS = (1, 3, 5)
FILLS = ("mean", "background")
SAMPLES = 5000
MANY = 10_000


def lime(model: object, data: Dataset, like: Explanation, seed: int) -> tuple[Explanation, float]:
    """LIME's weights for every row and class, and the seconds they took."""
    from lime.lime_tabular import LimeTabularExplainer

    train, test = data.train.inputs.to_numpy(), data.test.inputs.to_numpy()[: len(like)]
    names, classes = list(data.train.inputs.columns), len(data.classes)

    def predict(X: np.ndarray) -> np.ndarray:
        return model.predict_proba(as_frame(data, X))

    explainer = LimeTabularExplainer(train, feature_names=names, class_names=list(data.classes), random_state=seed)
    weights = torch.zeros_like(like.weights)
    started = time.perf_counter()
    for i, row in enumerate(test):
        found = explainer.explain_instance(row, predict, labels=range(classes), num_features=len(names), num_samples=SAMPLES)
        for c in range(classes):
            for j, w in found.as_map()[c]:
                weights[i, j, c] = w
    return replace(like, weights=weights, method="lime", check=None), time.perf_counter() - started


def as_frame(data: Dataset, X: np.ndarray) -> object:
    """An array as the frame that the model was fitted on."""
    return data.train.inputs.iloc[:0].reindex(range(len(X))).assign(**dict(zip(data.train.inputs.columns, X.T, strict=True)))


def scores(box: object, data: Dataset, explanation: Explanation) -> dict[str, float]:
    """Every metric at every K under both fills."""
    inputs = data.test.inputs.iloc[: len(explanation)]
    out = {}
    for fill in FILLS:
        for k in KS:
            ablation = ablate(box, inputs, explanation, k=k, fill=fill)
            out |= {f"{name}@{k} {fill}": float(m.measure(ablation).mean()) for name, m in METRICS.items()}
    return out


def seconds_for_many(explainer: aimwise.Explainer, data: Dataset, rows: int) -> float:
    """Seconds to explain so many rows for all classes when the black box's answers are known; best of three."""
    inputs = data.test.inputs.iloc[np.arange(rows) % len(data.test)].reset_index(drop=True)
    probs = explainer.explain(inputs).probs
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        explainer.explain(inputs, probs=probs)
        best = min(best, time.perf_counter() - started)
    return best


def run(name: str, seed: int, rows: int) -> list[dict[str, object]]:
    """One data set and one seed: a record for each method."""
    data = load(name)
    model = zoo.random_forest(data)
    facts = {"data": name, "black box": "random forest", "accuracy": zoo.accuracy(model, data.test), "seed": seed}
    records = []

    def record(
        method: str, explainer: aimwise.Explainer, explanation: Explanation, fit: float, per_row: float, queries: int
    ) -> None:
        timing = {"fit_seconds": fit, "rows_per_second": 1 / per_row, "fit_queries": queries, "rows": len(explanation)}
        records.append(facts | {"method": method} | timing | scores(explainer.box_, data, explanation))

    first = None
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
        except aimwise.errors.Collapsed as e:
            records.append(facts | {"method": method, "collapsed": str(e)})
            continue
        first = first or explainer
        explanation = explainer.explain(data.test.inputs.iloc[:rows])
        per_row = seconds_for_many(explainer, data, MANY) / MANY
        record(method, explainer, explanation, explainer.fit_seconds_, per_row, explainer.queries_)
    theirs, seconds = lime(model, data, explanation, seed)
    record("lime", first, theirs, 0.0, seconds / len(theirs), 0)
    return records


def show(records: list[dict[str, object]]) -> None:
    """Means over the seeds as a table."""
    console = Console(width=150)
    for name in dict.fromkeys(r["data"] for r in records):
        mine = [r for r in records if r["data"] == name]
        title = f"{name}: random forest, {100 * mine[0]['accuracy']:.1f} % accurate, {mine[0]['rows']} test rows, seeds {len({r['seed'] for r in mine})}"
        shown = Table(title=title, title_justify="left")
        keys = [
            f"{m}@{k} {fill}" for m, k in (("faithfulness", 3), ("faithfulness", 5), ("comprehensiveness", 5)) for fill in FILLS
        ]
        for head in ("method", *keys, "fit s", "rows/s", "times lime"):
            shown.add_column(head.replace("faithfulness", "faith.").replace("comprehensiveness", "compr."), justify="right")
        lime_rate = np.mean([r["rows_per_second"] for r in mine if r["method"] == "lime"])
        for method in dict.fromkeys(r["method"] for r in mine):
            of = [r for r in mine if r["method"] == method and "collapsed" not in r]
            if not of:
                shown.add_row(method, "collapsed")
                continue
            mean = {k: float(np.mean([r[k] for r in of])) for k in (*keys, "fit_seconds", "rows_per_second")}
            cells = [f"{mean[k]:.3f}" for k in keys]
            rate = mean["rows_per_second"]
            shown.add_row(method, *cells, f"{mean['fit_seconds']:.1f}", f"{rate:,.1f}", f"{rate / lime_rate:,.0f}")
        console.print(shown)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200, help="test rows to explain (%(default)s)")
    options.add_argument("--seeds", type=int, default=3, help="seeds of the explainers (%(default)s)")
    options.add_argument("--data", nargs="*", default=["breast_cancer", "wine"], help="data sets (%(default)s)")
    options.add_argument("--out", type=Path, default=None, help="write the records as JSON")
    given = options.parse_args()
    records = [r for name in given.data for seed in range(given.seeds) for r in run(name, seed, given.rows)]
    show(records)
    if given.out:
        machine = {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}
        write_text(
            given.out, json.dumps({"command": "python -m benchmarks.tables", "machine": machine, "records": records}, indent=1)
        )


if __name__ == "__main__":
    main()
