"""What one pass costs and how steady it is, beside the slow methods, in one process on one machine.

    python -m benchmarks.one_pass [--data imdb] [--texts 5000] [--lime 100] [--parts released speed overlap]
                                  [--out results/one_pass.json]

Fits: `AIM()` with three seeds, and `AIM.released()` with the paper's ten epochs and batch size. Explaining: all classes by AIM,
one class by integrated gradients (20 steps) and by occlusion; the prediction is known to all of them. Overlap: of the top ten
words between the three seeds of AIM, and between three seeds of LIME's 5,000 samples, on the same texts. Parts that are left out
keep what the file says of them.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import torch
from rich.console import Console

import aimwise
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.files import read_json, write_text
from aimwise.metrics.agreement import overlap
from aimwise.study.machine import made_by, module_command
from aimwise.study.paper.boxes import TEXTS, task
from aimwise.study.paper.methods import BATCH, RELEASED_EPOCHS

SEEDS, TOP = 3, 10
SAMPLES = 5000
SLOW_TEXTS = 500  # that occlusion and integrated gradients are timed on
TIMES = 5
PARTS = ("released", "speed", "overlap")


def explained(explainer: aimwise.Explainer, inputs: object, probs: torch.Tensor, times: int = 1) -> tuple[Explanation, float]:
    """An explanation, and the least of some times that it took."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        explanation = explainer.explain(inputs, probs=probs)
        taken.append(time.perf_counter() - started)
    return explanation, min(taken)


def steadiness(explanations: list[Explanation]) -> float:
    """The mean overlap of the top ten over all pairs."""
    pairs = [float(overlap(one, other, k=TOP).mean()) for one, other in combinations(explanations, 2)]
    return sum(pairs) / len(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=TEXTS, default="imdb")
    parser.add_argument("--texts", type=int, default=5000, help="test texts that are explained (%(default)s)")
    parser.add_argument("--lime", type=int, default=100, help="of them by LIME (%(default)s)")
    parser.add_argument("--train", type=int, help="train texts (all)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=Path("results/one_pass.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    of = task(options.data, "full")
    box, train, test, features = of.box, of.train[: options.train], of.test[: options.texts], of.features
    known = read_json(options.out) if options.out.is_file() else {}
    found: dict[str, object] = {
        **known,
        **made_by(module_command("benchmarks.one_pass")),
        "data": options.data,
        "accuracy": of.accuracy,
        "train": len(train),
        "texts": len(test),
    }

    def note(**facts: object) -> None:
        found.update(facts)
        Console().out(" ".join(f"{name}: {value}" for name, value in facts.items()))
        write_text(options.out, json.dumps(found, indent=1))

    aims = [aimwise.AIM().fit(box, train, features=features, seed=seed) for seed in range(SEEDS)]
    note(settings=repr(aims[0]), fit_queries=[aim.queries_ for aim in aims])
    if "released" in options.parts:
        note(fit_seconds=[aim.fit_seconds_ for aim in aims])
        released = replace(aimwise.AIM.released(epochs=RELEASED_EPOCHS), batch_size=BATCH[options.data])
        started = time.perf_counter()
        try:
            released.fit(box, train, features=features)
            note(released_collapsed=False)
        except Collapsed as e:
            note(released_collapsed=str(e))
        note(released_fit_seconds=time.perf_counter() - started)
    probs = aims[0].explain(test).probs
    each = [explained(aim, test, probs, TIMES) for aim in aims]
    note(aim_seconds=[seconds for _, seconds in each])
    own = min(seconds for _, seconds in each) / len(test)
    slow_ones = {
        "ig 20": aimwise.METHODS["ig"](steps=20, classes="predicted"),
        "occlusion": aimwise.METHODS["occlusion"](),
    }
    for name, slow in slow_ones.items() if "speed" in options.parts else ():
        slow.fit(box, train[:SLOW_TEXTS], features=features)
        some = min(SLOW_TEXTS, len(test))
        _, seconds = explained(slow, test[:some], probs[:some])
        note(**{f"{name} seconds a text": seconds / some, f"{name} over aim": seconds / some / own})
    note(aim_overlap=steadiness([explanation for explanation, _ in each]))
    if "overlap" in options.parts:
        limes = [
            aimwise.METHODS["lime"](samples=SAMPLES).fit(box, train[:SLOW_TEXTS], features=features, seed=s) for s in range(SEEDS)
        ]
        some = [explained(lime, test[: options.lime], probs[: options.lime]) for lime in limes]
        note(
            lime_overlap=steadiness([explanation for explanation, _ in some]),
            aim_overlap_there=steadiness([explanation[list(range(options.lime))] for explanation, _ in each]),
            lime_seconds_a_text=some[0][1] / options.lime,
        )


if __name__ == "__main__":
    main()
