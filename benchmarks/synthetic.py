"""Methods on data of which it is known what matters: INVASE's Syn1 to Syn6 and L2X's four sets.

    python -m benchmarks.synthetic [--sets syn1 ...] [--methods invase ...] [--jobs 1] [--out results/synthetic.json]

The black box is the conditional probability that the data are drawn from, so that nothing but the explainer can be wrong, and
methods learn from probabilities. The published INVASE learned from labels drawn from them, which is harder. The formulas are
those that the authors' released code computes; the header of INVASE's code has sin(2 x) and 2 |x| in Syn3 where it computes
sin(0.2 x) and |x|.

One seed. Settings are the same for all sets, but not equally chosen: lam of INVASE and REAL-X, the hold on sure selections that
both have (`certainty`), and the learning rate of L2X and VIBI were chosen by looking at TPR and FDR on Syn1 to Syn6, with the
rows that are learned from here and other rows to explain. FastSHAP and AIM run with their defaults. INVASE trains the longest.

Syn1 to Syn6: 11 columns, 10,000 rows to learn from and 10,000 to explain; in Syn4 to Syn6 the sign of x11 says which two of the
first three rules hold, and x11 counts as relevant. TPR: the share of a row's relevant columns that are selected; FDR: the share
of the selected ones that are not relevant; both in %. INVASE and REAL-X select what has a weight above 0; every other method is
told how many columns are relevant in the row, and those it ranks first count as selected: by the size of the weight for the
predicted class where a method weighs all classes, by the weight itself where it ranks features for one.

L2X's sets: 10 columns; the median rank of a row's relevant columns, its mean and its median over the rows. At best 1.5 for XOR (2
relevant columns), 2.5 for orange skin and nonlinear additive (4), 3.0 for switch (4 and the switch itself). The released code of
L2X learns from a million rows, here there are 10,000.

Published figures are quoted from what could be read, and from nothing else. On Syn1 to Syn6 they are those of a later paper
(`SOURCE`), which ran INVASE, REAL-X and L2X on the same formulas and numbers of rows, from labels; INVASE's own table was not at
hand. L2X's paper (arXiv 1802.07814v2, Figure 3) draws its median ranks as box plots and prints no numbers; it says that L2X is
the best of six methods on nonlinear additive and switch, one of the best three on XOR, and near the optimum on orange skin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.metrics.truth import false_discovery_rate, true_positive_rate
from aimwise.study.cells import Facts
from aimwise.study.machine import module_command
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile

ROWS = 10_000
SYN = ("syn1", "syn2", "syn3", "syn4", "syn5", "syn6")
RANKED = ("xor", "orange_skin", "nonlinear_additive", "switch")
BEST = {"xor": 1.5, "orange_skin": 2.5, "nonlinear_additive": 2.5, "switch": 3.0}
RELEVANT = {"syn1": 2, "syn2": 4, "syn3": 4, "xor": 2, "orange_skin": 4, "nonlinear_additive": 4}  # at most 5 in the others
SOURCE = (
    "not by the methods' own authors: T. Ellinson, H. Mohasel Afshar, S. Cripps: Hide&Seek: Learning to Explain in an End-to-End "
    "Differentiable Network, ICML 2026, Table 2. TPR and FDR in %, medians of 20 runs that learn from labels, which is harder "
    "than from probabilities as here; L2X selects 2 columns in Syn1, 4 in Syn2 and Syn3, 5 in Syn4 to Syn6"
)
PUBLISHED = {
    "invase": {"syn1": (100, 0), "syn2": (100, 0), "syn3": (91, 0), "syn4": (90, 4), "syn5": (83, 1), "syn6": (90, 9)},
    "realx": {"syn1": (100, 9), "syn2": (100, 4), "syn3": (82, 1), "syn4": (98, 15), "syn5": (88, 9), "syn6": (91, 4)},
    "l2x": {"syn1": (30, 70), "syn2": (75, 25), "syn3": (43, 57), "syn4": (44, 65), "syn5": (53, 57), "syn6": (53, 47)},
}

Rule = Callable[[np.ndarray], np.ndarray]


def product(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1]


def skin(x: np.ndarray) -> np.ndarray:
    return (x[:, :4] ** 2).sum(1) - 4


def additive(x: np.ndarray, steep: float = 10.0) -> np.ndarray:
    return -steep * np.sin(0.2 * x[:, 0]) + np.abs(x[:, 1]) + x[:, 2] + np.exp(-x[:, 3]) - 2.4


def steep_additive(x: np.ndarray) -> np.ndarray:
    return additive(x, 100.0)


RULES: dict[
    str, list[tuple[Rule, list[int]]]
] = {  # where the last column is below 0, and where it is not; one rule holds everywhere
    "syn1": [(product, [0, 1])],
    "syn2": [(skin, [2, 3, 4, 5])],
    "syn3": [(additive, [6, 7, 8, 9])],
    "syn4": [(product, [0, 1]), (skin, [2, 3, 4, 5])],
    "syn5": [(product, [0, 1]), (additive, [6, 7, 8, 9])],
    "syn6": [(skin, [2, 3, 4, 5]), (additive, [6, 7, 8, 9])],
    "xor": [(product, [0, 1])],
    "orange_skin": [(skin, [0, 1, 2, 3])],
    "nonlinear_additive": [(steep_additive, [0, 1, 2, 3])],
    "switch": [(steep_additive, [4, 5, 6, 7]), (skin, [0, 1, 2, 3])],
}


def rows_of(name: str, seed: int) -> np.ndarray:
    """Independent normal columns; the switch of L2X's set is a mixture of two far apart."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 11 if name in SYN else 10))
    if name == "switch":
        x[:, -1] += rng.choice([-3.0, 3.0], ROWS)
    return x


def box_of(name: str) -> Callable[[Any], np.ndarray]:
    """P(y | x) by the rule, or by the rule that the last column says."""
    rules = RULES[name]

    def box(inputs: Any) -> np.ndarray:
        x = np.asarray(inputs)
        scores = [rule(x[:, columns]) for rule, columns in rules]
        score = np.where(x[:, -1] < 0, scores[0], scores[-1])
        positive = 1 / (1 + np.exp(score.clip(-50, 50)))
        return np.stack([1 - positive, positive], 1)

    return box


def truth_of(name: str, x: np.ndarray) -> torch.Tensor:
    """Which columns matter in each row."""
    truth = torch.zeros(x.shape, dtype=torch.bool)
    below = torch.from_numpy(x[:, -1] < 0)
    rules = RULES[name]
    for where, (_, columns) in zip((below, ~below), (rules[0], rules[-1]), strict=True):
        truth[where.nonzero(), torch.tensor(columns)] = True
    truth[:, -1] |= len(rules) > 1
    return truth


def explainer_for(method: str, k: int) -> aimwise.Explainer:
    """A method with settings that are the same for all sets but for the number of features, where it must be told."""
    made = {
        "invase": lambda: aimwise.METHODS["invase"](lam=0.05, epochs=80),
        "realx": lambda: aimwise.METHODS["realx"](lam=0.1, epochs=20),
        "l2x": lambda: aimwise.METHODS["l2x"](k=k, epochs=30),
        "vibi": lambda: aimwise.METHODS["vibi"](k=k, epochs=30, beta=0.01),
        "fastshap": lambda: aimwise.METHODS["fastshap"](),
        "aim": aimwise.AIM,
        "aim.paper": aimwise.AIM.paper,
        "aim.released": aimwise.AIM.released,
        "occlusion": lambda: aimwise.METHODS["occlusion"](),
        "random": aimwise.Random,
    }
    explainer: aimwise.Explainer = made[method]()
    return explainer


METHODS = ("invase", "realx", "l2x", "vibi", "fastshap", "aim", "aim.paper", "aim.released", "occlusion", "random")


def ranks(explanation: Explanation, every_class: bool) -> torch.Tensor:
    """The rank of each feature of each row, from 1."""
    order = explanation.order(by="size" if every_class else "weight")
    return order.argsort(1) + 1


def cell(facts: Facts) -> Facts:
    """One method on one set, and how far it finds what matters."""
    data, method, seed = facts["data"], facts["method"], facts["seed"]
    torch.set_num_threads(1)
    new = rows_of(data, seed + 1000)
    truth = truth_of(data, new)
    explainer = explainer_for(method, RELEVANT.get(data, 5))
    done: Facts = {"settings": repr(explainer)}
    started = time.process_time()
    try:
        explainer.fit(box_of(data), rows_of(data, seed), seed=seed)
    except Collapsed as e:
        return {**done, "cpu_seconds": time.process_time() - started, "collapsed": str(e)}
    explanation = explainer.explain(new)
    done |= {"cpu_seconds": time.process_time() - started, "fit_queries": explainer.queries_}
    rank = ranks(explanation, explainer.every_class)
    if data in SYN:
        chosen = explanation.towards() > 0 if method in ("invase", "realx") else rank <= truth.sum(1, keepdim=True)
        done["tpr"] = 100 * float(true_positive_rate(chosen, truth).mean())
        done["fdr"] = 100 * float(false_discovery_rate(chosen, truth).mean())
    median = torch.stack([row[there].float().quantile(0.5) for row, there in zip(rank, truth, strict=True)])
    return {**done, "median_rank": float(median.quantile(0.5)), "mean_median_rank": float(median.mean())}


def tables(cells: OneFile) -> list[Table]:
    """TPR and FDR beside the published ones, and the median ranks beside the best possible ones."""
    first = Table(title="TPR / FDR in %", title_justify="left", caption=f"published: {SOURCE}", caption_justify="left")
    second = Table(title="Median rank of the relevant columns: median over the rows (mean)", title_justify="left")
    for shown, names in ((first, SYN), (second, RANKED)):
        shown.add_column("method")
        for name in names:
            shown.add_column(name, justify="right")
    for method in METHODS:
        first.add_row(method, *(pair(cells.find({"data": name, "method": method})) for name in SYN))
        if method in PUBLISHED:
            first.add_row(
                "  published", *(f"{tpr} / {fdr}" for tpr, fdr in (PUBLISHED[method][name] for name in SYN)), style="dim"
            )
        second.add_row(method, *(rank(cells.find({"data": name, "method": method})) for name in RANKED))
    second.add_row("at best", *(str(BEST[name]) for name in RANKED))
    return [first, second]


def pair(found: list[Facts]) -> str:
    return "" if not found else "collapsed" if "collapsed" in found[0] else f"{found[0]['tpr']:.1f} / {found[0]['fdr']:.1f}"


def rank(found: list[Facts]) -> str:
    if not found or "collapsed" in found[0]:
        return "collapsed" if found else ""
    return f"{found[0]['median_rank']:.1f} ({found[0]['mean_median_rank']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=[*SYN, *RANKED], default=[*SYN, *RANKED])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/synthetic.json"))
    options = parser.parse_args()
    store = OneFile(options.out)
    study = Study(store, "benchmarks.synthetic:cell", module_command("benchmarks.synthetic"))
    wanted = [{"data": name, "method": method, "seed": 0} for method in options.methods for name in options.sets]
    store.note({"published": {"source": SOURCE, "tpr, fdr": PUBLISHED}})
    refuse_failures(study.run(wanted, jobs=options.jobs, say=Console().out))
    for shown in tables(store):
        Console(width=150).print(shown)


if __name__ == "__main__":
    main()
