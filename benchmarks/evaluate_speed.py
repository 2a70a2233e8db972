"""What scoring costs beyond the black box: questions a text, and seconds over those of the same calls alone.

    python -m benchmarks.evaluate_speed [--texts 5000] [--out results/evaluate_speed.json]

IMDB, TF-IDF and logistic regression, AIM, K = 1, 5, 10, two fills; explaining is timed apart. The calls alone are the same masked
texts handed to the black box again by a bare loop, without an explanation, a metric or an interval.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from rich.console import Console
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import aimwise
from aimwise.data import load
from aimwise.files import write_text
from aimwise.study.machine import device, module_command

KS, FILLS = (1, 5, 10), ("delete", "replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path("results/evaluate_speed.json"))
    options = parser.parse_args()
    data = load("imdb")
    model = make_pipeline(TfidfVectorizer(min_df=5), LogisticRegression(max_iter=1000)).fit(data.train.inputs, data.train.labels)
    texts = data.test.inputs[: options.texts]
    explainer = aimwise.AIM(epochs=2).fit(model, data.train.inputs[:1000])
    meter = explainer.box_.meter
    before = meter.queries
    started = time.perf_counter()
    explanation = explainer.explain(texts)
    explained = time.perf_counter() - started
    scores = aimwise.evaluate({"aim": explanation}, texts, box=explainer.box_, k=KS, fills=FILLS, controls=())
    whole = time.perf_counter() - started - explained
    asked = meter.queries - before
    alone = bare(explainer, texts)
    found = {
        "command": module_command("benchmarks.evaluate_speed"),
        "device": device(),
        "torch": torch.__version__,
        "texts": len(texts),
        "queries_per_text": asked / len(texts),
        "explain_seconds": explained,
        "evaluate_seconds": whole,
        "calls_alone_seconds": alone,
        "ratio": whole / alone,
        "faithfulness@10": {fill: scores.mean("faithfulness", method="aim", k=10, fill=fill) for fill in FILLS},
    }
    write_text(options.out, json.dumps(found, indent=1) + "\n")
    Console().print(found)


def bare(explainer: aimwise.AIM, texts: list[str]) -> float:
    """The seconds of asking about the same masked texts for each fill once more."""
    box = explainer.box_
    explanation = explainer.explain(texts)
    chosen = torch.stack([explanation.chosen(k) for k in KS], 1)  # (n, K, d)
    z = torch.cat([chosen, explanation.present[:, None].float() - chosen], 1)
    batch, rng = box.features.encode(texts), torch.Generator().manual_seed(0)
    started = time.perf_counter()
    for fill in FILLS:
        box.through(box.features.filled(fill)).each(batch, z, rng)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
