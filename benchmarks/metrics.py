"""Every metric for every kind of method on the paper's texts: AIM's recipes, integrated gradients, occlusion, lexicon, random.

    python -m benchmarks.metrics [--sets imdb ag_news hatexplain] [--methods paper released default ig occlusion lexicon random]
                                 [--seeds 1] [--rows 5000] [--jobs 3] [--quick] [--out results/metrics.json]

Every cell (data set, method, seed, part) is written to the file when it is done; the same command goes on with those that are
missing. All methods of a data set explain the same trained network and the same first `rows` test texts. Each figure is a mean
over the texts with its 95 % bootstrap interval; words are taken away in place and packed. The normalised curve (naopc), which
searches for the best and the worst order, is of the first few texts. For sanity, a part of its own, every method learns from the
first training texts, and again from the network with random weights, from one that was trained on shuffled labels, and with
another seed. The stability metric's meanings are those of a sentence-transformers model in the folder `--encoder`, or else of
latent semantic analysis of the texts (lsa). --quick is for a machine without a GPU: the same for the small black boxes of
`aimwise reproduce --quick`, from which explainers learn by 1,500 texts, in a file of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data.readers import Reader
from aimwise.data.texts import hatexplain_rationales
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.metrics.curves import naopc
from aimwise.metrics.truth import auprc, iou_f1, marked, rationale, token_f1
from aimwise.scores.evaluate import evaluate
from aimwise.scores.sanity import amortization_gap, sanity
from aimwise.study.cells import Facts
from aimwise.study.machine import module_command
from aimwise.study.paper.boxes import TEXTS, Task, mistaught, task
from aimwise.study.paper.work import ENCODER, near
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile
from benchmarks.judges import kept_judge
from benchmarks.texts import FILLS, METHODS, note_readers

KS = (1, 3, 5, 10)
QUICK = {"paper": aimwise.AIM.paper, "released": aimwise.AIM.released, "default": aimwise.AIM}
QUICK_BATCH = 50  # of the paper's recipes, for the few texts there are to learn from
RIVALS = ("ig", "occlusion", "lexicon", "random")
LEARNS = ("paper", "released", "default", "lexicon")
GAP_ROWS, GAP_BUDGET = 100, 512
SEARCHED, SEARCHED_KS = 20, (1, 3, 5)  # texts and sizes of the normalised curve
SANE_ROWS = 500
SANE_LEARNED = 5000  # train texts for each of the four fits of sanity
FIGURES, SANITY = "figures", "sanity"
FEW = 500  # train texts for methods that learn nothing from them
ASKED = (
    "faithfulness", "sufficiency", "comprehensiveness", "flips", "kl", "positive_log_odds", "negative_log_odds",
    "aopc_sufficiency", "aopc_comprehensiveness", "insertion", "deletion", "class_faithfulness", "pairwise_iou", "purity",
    "purity_distinct", "brevity", "brevity_released", "iou", "eval_x", "encoding",
)  # fmt: skip


def explainer_for(method: str, data: str, scale: str) -> aimwise.Explainer:
    if method in RIVALS:
        return aimwise.METHODS[method]()
    if scale == "full":
        return METHODS[method](data)
    made = QUICK[method]()
    return made if method == "default" else replace(made, batch_size=QUICK_BATCH)


def with_places(explanation: Explanation, texts: list[str], reader: Reader) -> Explanation:
    """The explanation of ids with the places that they have in the texts."""
    spans = reader.tokenizer(texts)["offset_mapping"].numpy()[:, : explanation.present.shape[1]]
    return replace(explanation, spans=spans, sources=tuple(texts))


def plausibility(explanation: Explanation) -> dict[str, float]:
    """How far the words are those that HateXplain's annotators marked, on the test posts that have marks."""
    tokens, given = hatexplain_rationales()
    rows = [i for i, marks in enumerate(given) if marks and i < len(explanation)]
    figures = {}
    for by in ("union", "majority"):
        wanted = [rationale(given[i], len(tokens[i]), by=by) for i in rows]
        some = explanation[rows]
        truth = marked(some, [tokens[i] for i in rows], wanted)
        count = int(truth.sum(1).double().mean().round())  # as many words as people mark on average
        chosen = some.chosen(count) > 0
        pairs = {"token_f1": token_f1(chosen, truth), "iou_f1": iou_f1(chosen, truth)}
        pairs["auprc"] = auprc(some.towards(), some.present, truth)
        figures |= {f"{name} {by}": float(values.nanmean()) for name, values in pairs.items()}
        figures[f"posts {by}"] = len(rows)
    return figures


def cell(facts: Facts) -> Facts:
    """One part of what is known of one method on one data set: its figures, or its sanity."""
    data, method, scale = facts["data"], facts["method"], facts["scale"]
    found, explainer = task(data, scale), explainer_for(method, data, scale)
    learns = found.train if method in LEARNS else found.train[:FEW]
    made = figures if facts["part"] == FIGURES else checks
    try:
        return {"settings": repr(explainer), **made(found, explainer, learns, facts)}
    except Collapsed as e:
        return {"settings": repr(explainer), "collapsed": str(e)}


def figures(found: Task, explainer: aimwise.Explainer, learns: Any, facts: Facts) -> Facts:
    """All metrics of the first test texts, what refining them would add, and how far they are what people marked."""
    data, method, scale, rows = (facts[name] for name in ("data", "method", "scale", "rows"))
    train, test = found.train, found.test[:rows]
    explainer.fit(found.box, learns, features=found.features, seed=facts["seed"])
    named = [name for name in ASKED if explainer.every_class or name not in ("class_faithfulness", "pairwise_iou")]
    started = time.perf_counter()
    explanation = explainer.explain(test)
    done: Facts = {"texts": len(test), "explain_seconds": time.perf_counter() - started, "fit_seconds": explainer.fit_seconds_}
    done["queries_to_fit"] = explainer.queries_
    scores = evaluate(
        {method: explanation},
        test,
        box=explainer.box_,
        k=KS,
        metrics=named,
        fills=FILLS,
        controls=(),
        near=near(data, scale, len(test), facts["meanings"]),
        judge=kept_judge(data if scale == "full" else f"{data}-{scale}", explainer.box_, train),
        seed=0,
    )
    done["scores"] = [
        {"metric": s.metric, "k": s.k, "fill": s.fill, "mean": s.mean, "low": s.low, "high": s.high, "better": s.better}
        for s in scores.rows
    ]
    some = explanation[list(range(min(SEARCHED, len(explanation))))]
    normalised = naopc(explainer.box_, test[:SEARCHED], some, ks=SEARCHED_KS)
    done |= {"naopc": float(normalised.mean()), "naopc texts": len(some)}
    if data == "hatexplain":
        assert found.reader is not None
        done |= plausibility(with_places(explanation, found.data.test.inputs[:rows], found.reader))
    if isinstance(explainer, aimwise.AIM):
        gap = amortization_gap(explainer, test[:GAP_ROWS], budget=GAP_BUDGET)
        done |= {"gap one pass": gap.one_pass, "gap refined": gap.refined}
    return done


def checks(found: Task, explainer: aimwise.Explainer, learns: Any, facts: Facts) -> Facts:
    """What the method does when the network, its labels or the seed change; learned from the first texts each time."""
    learns = learns[:SANE_LEARNED]
    explainer.fit(found.box, learns, features=found.features, seed=facts["seed"])
    wrong = mistaught(facts["data"], facts["scale"])
    checked = asdict(sanity(explainer, learns, found.test[:SANE_ROWS], k=10, mistaught=wrong))
    return {"sanity": {name: None if value != value else value for name, value in checked.items()}, "learned": len(learns)}


OUT = Path("results/metrics.json")
METHODS_ASKED = ("paper", "released", "default", *RIVALS)


def study(store: OneFile, command: str, *, renew: bool = False) -> Study:
    """The study whose cells these are."""
    return Study(store, "benchmarks.metrics:cell", command, renew)


def cells(
    sets: Sequence[str], methods: Sequence[str] = METHODS_ASKED, *, scale: str, rows: int, meanings: str = "lsa", seeds: int = 1
) -> list[Facts]:
    """What is asked of these methods on these data sets: all figures, then all sanity."""
    return [
        {"data": name, "scale": scale, "method": method, "seed": seed, "rows": rows, "meanings": meanings, "part": part}
        for part in (FIGURES, SANITY)
        for name in sets
        for method in methods
        for seed in range(seeds if method in ("paper", "released", "default") else 1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=TEXTS, default=TEXTS)
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *RIVALS], default=METHODS_ASKED)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=5000, help="test texts (%(default)s)")
    parser.add_argument("--encoder", default="lsa", help="lsa, or a folder with a model of sentence-transformers (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="small black boxes, few texts to learn from")
    parser.add_argument("--renew", action="store_true", help="run finished cells again that another commit made")
    parser.add_argument("--out", type=Path, help="(results/metrics.json, or metrics_quick.json)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ[ENCODER], meanings = options.encoder, Path(options.encoder).name
    scale = "quick" if options.quick else "full"
    store = OneFile(options.out or (Path("results/metrics_quick.json") if options.quick else OUT))
    note_readers(store, options.sets, scale)
    wanted = cells(options.sets, options.methods, scale=scale, rows=options.rows, meanings=meanings, seeds=options.seeds)
    made = study(store, module_command("benchmarks.metrics"), renew=options.renew)
    refuse_failures(made.run(wanted, jobs=options.jobs, say=Console().out))
    for name in options.sets:
        Console(width=200).print(table(store, name))


def table(store: OneFile, data: str) -> Table:
    """All metrics of a data set, a column for each method, the mean over its seeds."""
    found = [c for c in store.find({"data": data}) if "scores" in c]
    methods = list(dict.fromkeys(c["method"] for c in found))
    made = Table("metric", "k", "fill", *methods, title=data)
    keys = dict.fromkeys((s["metric"], s["k"], s["fill"]) for c in found for s in c["scores"])
    for key in keys:
        line = []
        for method in methods:
            means = [
                s["mean"] for c in found if c["method"] == method for s in c["scores"] if (s["metric"], s["k"], s["fill"]) == key
            ]
            line.append(f"{np.mean(means):.3f}" if means else "")
        made.add_row(key[0], "" if key[1] is None else str(key[1]), key[2] or "", *line)
    return made


if __name__ == "__main__":
    main()
