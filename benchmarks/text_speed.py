"""How fast texts are read and explained, apart from the black box's own prediction, and whether memory stays flat.

    python -m benchmarks.text_speed [--texts 10000] [--out results/text_speed.json]

IMDB reviews, both classes. The networks have their full size; they are fitted briefly and on short reviews, since weights do not
change the time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

import aimwise
from aimwise.data import load
from aimwise.features.tokenizer import tokenize
from aimwise.files import write_text


def box(texts: list[str]) -> np.ndarray:
    """Counts a few words."""
    score = np.array([text.count("good") + text.count("great") - text.count("bad") - text.count("worst") for text in texts])
    p = 1 / (1 + np.exp(-score.astype(float)))
    return np.stack([1 - p, p], 1)


def median(run: object, times: int = 3) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def streamed(explainer: aimwise.Explainer, texts: list[str], count: int) -> float:
    """The peak of this process's memory in MB after explaining so many texts from a generator."""

    def source() -> Iterator[str]:
        for i in range(count):
            yield texts[i % len(texts)]

    for _ in explainer.explain_batches(source(), rows=500):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("results/text_speed.json"))
    options = parser.parse_args()
    data = load("imdb")
    texts = data.train.inputs[: options.texts]
    probs = box(texts)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    found: dict[str, object] = {
        "command": f"python -m benchmarks.text_speed --texts {options.texts}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch threads {torch.get_num_threads()}, no GPU",
        "texts": len(texts),
        "megabytes": megabytes,
        "tokenizer_megabytes_per_second": megabytes / median(lambda: tokenize(texts)),
    }
    words = aimwise.Words().fit(data.train.inputs)
    short = sorted(data.train.inputs, key=len)[:400]
    for name, explainer in {"paper": aimwise.AIM.paper(epochs=4), "default": aimwise.AIM(epochs=1)}.items():
        explainer.fit(box, short, features=words)
        found[f"{name}_explain_seconds"] = median(lambda e=explainer: e.explain(texts, probs=probs))
        first = streamed(explainer, texts, 1000)
        found[f"{name}_megabytes_after_1000_and_10000_streamed"] = [first, streamed(explainer, texts, 10_000)]
    write_text(options.out, json.dumps(found, indent=1) + "\n")
    Console().print(found)


if __name__ == "__main__":
    main()
