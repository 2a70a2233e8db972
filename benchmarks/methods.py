"""Every method on one small black box of each modality: what it costs, and whether five features keep the prediction.

    python -m benchmarks.methods [--kinds table text image] [--methods aim ig ...] [--jobs 2] [--out results/methods.json]

Tables: a perceptron over the 30 columns of breast cancer. Texts: a word CNN over the token ids of SST-2, or of made-up reviews
where SST-2 is not on this machine. Images: the CNN over scikit-learn's digits, in patches of 2 by 2. Every method of `METHODS`
that declares the kind is fitted with its default settings on the training part. Then it explains as many test rows as take it
about ten seconds, between 8 and 200, and the seconds and questions for them are told as those for 1,000 rows, for all classes or
for the predicted one where a method has no more. Faithfulness is the share of those rows whose prediction the 5 features that
speak most for it keep, the others filled the same way for all methods: the mean of a column, padding, black.
Every cell is written to the file when it is done; the same command goes on with those that are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import aimwise
from aimwise.data import load, zoo
from aimwise.data.readers import Vocabulary
from aimwise.errors import Collapsed, MissingData, extra
from aimwise.features import Features
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness
from aimwise.study.cells import Facts
from aimwise.study.machine import module_command
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile

K = 5
FIRST, FEWEST, MOST = 2, 8, 200  # rows that are explained to see how long it takes, and then
PATIENCE = 10.0  # seconds
WIDEST = 48  # words of a text
TEXTS = 2000  # that methods are fitted on


@dataclass(frozen=True)
class Case:
    """A black box, what its features are, and inputs to fit on and to explain."""

    box: aimwise.TorchBox
    features: Features
    train: Any
    test: Any
    accuracy: float
    about: str


class WordCNN(nn.Module):
    """Embeddings, windows of three words, the strongest of each, classes."""

    def __init__(self, ids: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 50)
        self.convolution = nn.Conv1d(50, 64, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(64, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.dropout(self.convolution(self.embedding(ids).mT).relu().amax(2)))


def trained(module: nn.Module, x: Tensor, y: Tensor, *, epochs: int, lr: float) -> nn.Module:
    optimizer = torch.optim.Adam(module.parameters(), lr=lr)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(x)), 32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x[rows]), y[rows]).backward()
            optimizer.step()
    return module.eval()


@torch.no_grad()
def accuracy(module: nn.Module, x: Tensor, y: Tensor) -> float:
    return 100 * float((module(x).argmax(1) == y).float().mean())


def table_case() -> Case:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    x, y = torch.from_numpy(data.data).float(), torch.from_numpy(data.target).long()
    x = (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x))
    train, test = order[: len(x) * 2 // 3], order[len(x) * 2 // 3 :]
    module = trained(nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2)), x[train], y[train], epochs=20, lr=3e-3)
    box = aimwise.TorchBox(module, output="logits", class_names=data.target_names.tolist())
    features = aimwise.Columns(fill="mean", column_names=data.feature_names.tolist())
    return Case(box, features, x[train], x[test], accuracy(module, x[test], y[test]), "breast cancer, 30 columns, perceptron")


def text_case() -> Case:
    try:
        data, name = load("sst2"), "SST-2"
        train, test = (list(data.train.inputs), data.train.labels), (list(data.test.inputs), data.test.labels)
    except MissingData:
        train, test, name = reviews(6000), reviews(1000), "made-up reviews"
    words = Vocabulary.learn(train[0], min_count=2)
    x, test_x = words.encode(train[0], WIDEST), words.encode(test[0], WIDEST)
    y, test_y = (torch.from_numpy(np.asarray(labels)).long() for labels in (train[1], test[1]))
    module = trained(WordCNN(len(words.words)), x, y, epochs=4, lr=2e-3)
    box = aimwise.TorchBox(module, output="logits", class_names=["negative", "positive"])
    features = aimwise.Tokens(words=list(words.words))
    order = torch.randperm(len(test_x))
    about = f"{name}, up to {WIDEST} words, word CNN"
    return Case(box, features, x[:TEXTS], test_x[order], accuracy(module, test_x, test_y), about)


def reviews(n: int) -> tuple[list[str], np.ndarray]:
    """Made-up reviews: good and bad words among others, some of them negated; the label says which sort prevails."""
    rng = np.random.default_rng(n)
    sorts = (["dull", "bad", "awful", "tired"], ["warm", "good", "great", "funny"])
    others = [f"word{i}" for i in range(300)]
    texts, labels = [], rng.integers(0, 2, n)
    for label in labels.tolist():
        words = [str(word) for word in rng.choice(others, rng.integers(8, 30))]
        for _ in range(3):
            turned = bool(rng.random() < 0.3)
            said = str(rng.choice(sorts[label ^ turned]))
            words.insert(int(rng.integers(len(words) + 1)), f"not {said}" if turned else said)
        texts.append(" ".join(words))
    return texts, labels


def image_case() -> Case:
    data, found = load("digits"), zoo.trained("digits")
    box = aimwise.TorchBox(found.module, output="logits", class_names=data.classes)
    about = "digits, 8 x 8 in patches of 2, CNN"
    return Case(box, aimwise.Patches(2, fill="zero"), data.train.inputs, data.test.inputs, 100 * found.test_accuracy, about)


CASES = {"table": table_case, "text": text_case, "image": image_case}


@cache
def case(kind: str) -> Case:
    for package in ("captum.attr", "lime", "shap"):
        extra(package, "rivals")  # the first method to need it would be charged for it
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return CASES[kind]()


def cell(facts: Facts) -> Facts:
    """One method on one black box: what it costs, and how faithful it is."""
    kind, method = facts["kind"], facts["method"]
    found, explainer = case(kind), aimwise.METHODS[method]()
    done: Facts = {
        "settings": repr(explainer),
        "about": found.about,
        "accuracy": found.accuracy,
        "classes": "all" if explainer.every_class else "predicted",
        "gradients": explainer.gradients,
        "train": len(found.train),
    }
    try:
        explainer.fit(found.box, found.train, features=found.features)
    except Collapsed as e:
        return {**done, "collapsed": str(e)}
    done |= {"fit_seconds": explainer.fit_seconds_, "fit_queries": explainer.queries_}
    started = time.perf_counter()
    explainer.explain(found.test[:FIRST])  # what is made when it is needed first is made here
    taken = time.perf_counter() - started
    rows = found.test[: min(MOST, max(FEWEST, int(PATIENCE / taken * FIRST)))]
    asked, started = explainer.box_.meter.queries, time.perf_counter()
    explanation = explainer.explain(rows)
    done |= {"rows": len(rows), "seconds": (time.perf_counter() - started) / len(rows) * 1000}
    done["queries"] = (explainer.box_.meter.queries - asked) / len(rows) * 1000
    ablation = ablate(explainer.box_, rows, explanation, k=K)
    return {**done, f"faithfulness@{K}": 100 * float(faithfulness(ablation).mean())}


def wanted(kinds: Sequence[str], methods: Sequence[str]) -> list[Facts]:
    """The cells: every method with every kind that it declares."""
    pairs = [{"kind": kind, "method": method} for kind in kinds for method in methods]
    return [pair for pair in pairs if pair["kind"] in aimwise.METHODS[pair["method"]].kinds]


def table(cells: OneFile, kind: str) -> Table:
    """The figures of every method on one black box, the most faithful first."""
    rows = sorted(cells.find({"kind": kind}), key=lambda c: -c.get(f"faithfulness@{K}", -1.0))
    title = f"{kind}: {rows[0]['about']}, {rows[0]['accuracy']:.1f} % accurate" if rows else kind
    made = Table(title=title, caption="s, queries: of 1,000 rows, from the number of rows in the last column")
    made.add_column("method", no_wrap=True)
    for head in ("classes", "gradient", "fit s", "s", "queries", f"faithful@{K}", "rows"):
        made.add_column(head, justify="right" if head not in ("classes", "gradient") else "left")
    for c in rows:
        if "collapsed" in c:
            made.add_row(c["method"], c["classes"], "", "", "", "", "collapsed", "")
            continue
        figures = (f"{c['fit_seconds']:.1f}", f"{c['seconds']:.2f}", f"{c['queries']:,.0f}", f"{c[f'faithfulness@{K}']:.1f}")
        made.add_row(c["method"], c["classes"], "yes" if c["gradients"] else "", *figures, str(c["rows"]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--methods", nargs="+", choices=list(aimwise.METHODS), default=list(aimwise.METHODS))
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/methods.json"))
    options = parser.parse_args()
    store = OneFile(options.out)
    study = Study(store, "benchmarks.methods:cell", module_command("benchmarks.methods"))
    started = time.perf_counter()
    zoo.kept("digits")  # trained once, before several ask for it
    try:
        refuse_failures(study.run(wanted(options.kinds, options.methods), jobs=options.jobs, say=Console().out))
    finally:
        for kind in options.kinds:
            Console().print(table(store, kind))
        Console().print(f"{time.perf_counter() - started:.0f} seconds")


if __name__ == "__main__":
    main()
