"""The demo: a random forest on each of three tables and a network on images, and what one pass of AIM says about them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimwise.data import Dataset, load, zoo
from aimwise.data.viewers import train_viewer
from aimwise.explainers import AIM, Random
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.features import Features, Patches
from aimwise.files import write_text
from aimwise.metrics import METRICS, ablate
from aimwise.render.html import Table, page, section

TABLES = ("breast_cancer", "wine", "planted")
EPOCHS = 8  # of the network on images
QUESTIONS = ((1, None), (3, None), (5, None), (5, "mean"))
HEADER = ("method", "K=1", "K=3", "K=5", "K=5 mean", "agree", "fit s", "ms/1k", "queries")
CHECK = 32
TOP = 5
CAPTION = "K: share of {rows} test {inputs} whose prediction the K top {features} keep,"
MEANING = (
    "agree: overlap of the additive explanation's probabilities with the model's on fresh masks. ms/1k: milliseconds to explain "
    "1,000 inputs for all classes, beyond the model's own prediction."
)
SHOWN = 100


@dataclass(frozen=True)
class Result:
    """One data set's explanations and its table."""

    data: Dataset
    model: str
    accuracy: float
    explanation: Explanation
    table: Table

    @property
    def title(self) -> str:
        """The data set and how well the model does on it."""
        return f"{self.data.name}: {self.model}, {100 * self.accuracy:.1f} % accurate"


def run(*, seed: int = 0) -> Iterator[Result]:
    """Explain a forest on each table and a network on images, and measure against simple orders of the features."""
    for name in TABLES:
        data = load(name)
        model = zoo.random_forest(data, seed=seed)
        aim, ours, rows = explained(data, model, None, seed)
        by_importance = replace(ours, weights=importances(model, ours), method="importances", check=None)
        rows.insert(1, line(aim, by_importance, data, None))
        caption = (
            f"{CAPTION.format(rows=len(ours), inputs='rows', features='columns')} the others taken from random training rows "
        )
        caption += f"(or set to the mean). {MEANING}"
        yield Result(data, "random forest", zoo.accuracy(model, data.test), ours, Table(HEADER, tuple(rows), caption))
    data = load("digits")
    network = train_viewer(data, seed=seed, epochs=EPOCHS)
    _, ours, rows = explained(data, network.module, Patches(2, fill="zero"), seed)
    caption = (
        f"{CAPTION.format(rows=len(ours), inputs='images', features='of 16 patches')} the others black (or of the mean colour). "
    )
    yield Result(data, "small network", network.test_accuracy, ours, Table(HEADER, tuple(rows), caption + MEANING))


def explained(
    data: Dataset, model: Any, features: Features | None, seed: int
) -> tuple[Explainer, Explanation, list[tuple[str, ...]]]:
    """AIM fitted on a model, its explanation of the test part, and the lines of AIM and of a random order."""
    aim = AIM().fit(model, data.train.inputs, features=features, class_names=data.classes, seed=seed)
    control = Random().fit(model, data.train.inputs, features=aim.box_.features, class_names=data.classes, seed=seed)
    ours, seconds = timed(aim, data)
    noise, noise_seconds = timed(control, data)
    return aim, ours, [line(aim, ours, data, seconds), line(control, noise, data, noise_seconds)]


def timed(explainer: Explainer, data: Dataset) -> tuple[Explanation, float]:
    """A checked explanation of the test rows, and the seconds an unchecked one takes when the answers are known."""
    explanation = explainer.explain(data.test.inputs, check=CHECK, top=TOP)
    started = time.perf_counter()
    explainer.explain(data.test.inputs, probs=explanation.probs)
    return explanation, time.perf_counter() - started


def line(explainer: Explainer, explanation: Explanation, data: Dataset, seconds: float | None) -> tuple[str, ...]:
    """One row of the table."""
    box, inputs, measure = explainer.box_, data.test.inputs, METRICS["faithfulness"].measure
    scores = [float(measure(ablate(box, inputs, explanation, k=k, fill=fill)).mean()) for k, fill in QUESTIONS]
    check = explanation.check
    return (
        explanation.method,
        *(f"{100 * s:.1f}" for s in scores),
        "" if check is None else f"{float(check.agreement.mean()):.3f}",
        "" if seconds is None else f"{explainer.fit_seconds_:.1f}",
        "" if seconds is None else f"{1e6 * seconds / len(explanation):.1f}",
        "" if seconds is None else f"{explainer.queries_:,}",
    )


def importances(model: Any, explanation: Explanation) -> torch.Tensor:
    """The forest's own importance of each column, the same for every row and class."""
    made = model[:-1].get_feature_names_out()
    total = dict.fromkeys(explanation.names or (), 0.0)
    for name, weight in zip(made, model[-1].feature_importances_, strict=True):
        bare = str(name).split("__", 1)[-1]
        owner = max((n for n in total if bare == n or bare.startswith(f"{n}_")), key=len)
        total[owner] += float(weight)
    column = torch.from_numpy(np.array(list(total.values()), dtype=np.float32))
    return column[None, :, None].expand(explanation.weights.shape)


def report(results: list[Result], path: Path) -> Path:
    """All results as one page."""
    sections = [
        section(
            r.title,
            r.explanation,
            truth=r.data.test.labels.tolist(),
            note=r.data.note,
            table=r.table,
            most=SHOWN,
        )
        for r in results
    ]
    intro = "Each explainer was trained once; one pass then gave every feature of every input a weight for every class."
    write_text(path, page("aimwise demo", sections, intro=intro))
    return path
