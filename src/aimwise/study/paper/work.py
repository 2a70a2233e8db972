"""Make one cell: fit a method on a black box with one seed, explain the test inputs, and measure all that any table shows."""

from __future__ import annotations

import base64
import io
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from aimwise.errors import BadSetting, Collapsed
from aimwise.explainers import METHODS, Explainer
from aimwise.explainers.learned import Learned
from aimwise.explanation import Explanation
from aimwise.metrics import ablations
from aimwise.metrics.faithfulness import class_faithfulness
from aimwise.metrics.stability import Encoder
from aimwise.scores.evaluate import evaluate, near_ones
from aimwise.study.cells import Facts
from aimwise.study.paper.boxes import Task, labels, task

TEXT_KS = (1, 2, 3, 5, 10, 20)
CLASS_K = 10
FILLS = ("in_place", "packed")
REMOVAL = ("faithfulness", "positive_log_odds", "negative_log_odds", "sufficiency", "comprehensiveness")
WORDS = ("purity", "purity_distinct", "brevity", "brevity_released", "iou", "pairwise_iou")
KS = {"pixels": (50, 100, 200, 300, 400), "patches": (1, 3, 5, 8, 10)}
TABLE_KS = (1, 3, 6)
TABLE_FILLS = ("mean", "noise")
FEW = 500  # inputs for methods that learn nothing from them
DRAWN, DRAWN_BY = 3, 2023  # texts that are shown, and the seed that draws them
PICTURES, PICTURE_K = 6, 5
ENCODER = "AIMWISE_ENCODER"  # names the folder of a sentence encoder; a cell's facts have its last part alone


def cell(facts: Facts) -> Facts:
    """What is found in one cell; a fit that collapsed is found too."""
    found = task(facts["data"], facts["scale"], facts.get("features", ""))
    explainer = METHODS[facts["method"]](**facts["settings"])
    learns = isinstance(explainer, Learned) or facts["method"] in ("lexicon", "maple", "fi") or facts["kind"] == "table"
    about = {"box_accuracy": found.accuracy, "box_network": found.network}
    features = found.filled(facts["fill"]) if "fill" in facts else found.features
    try:
        explainer.fit(found.box, found.train if learns else found.train[:FEW], features=features, seed=facts["seed"])
    except Collapsed as e:
        return {**about, "collapsed": str(e)}
    test = found.test[: facts["rows"]]
    started = time.perf_counter()
    explanation = explainer.explain(test)
    took = time.perf_counter() - started
    cost = {"fit_seconds": explainer.fit_seconds_, "explain_seconds": took, "queries": explainer.queries_}
    cost["minutes"] = (explainer.fit_seconds_ + took) / 60
    measure = {"text": of_texts, "image": of_images, "table": of_tables}[facts["kind"]]
    return {**about, "inputs": len(explanation), **cost, **measure(found, explainer, explanation, test, facts)}


def of_texts(found: Task, explainer: Explainer, explanation: Explanation, test: Any, facts: Facts) -> Facts:
    """Every figure of a text table, and with the first seed the key words of the drawn texts."""
    figures = scored(
        explainer,
        explanation,
        test,
        ks=TEXT_KS,
        metrics=(*REMOVAL, *WORDS),
        fills=FILLS,
        near=near(facts["data"], facts["scale"], len(explanation), facts["encoder"]),
    )
    figures |= of_classes(explainer, explanation, test, CLASS_K, FILLS)
    if facts["seed"] == 0:
        figures["examples"] = examples(found, explainer)
    return figures


def of_images(found: Task, explainer: Explainer, explanation: Explanation, test: Any, facts: Facts) -> Facts:
    """Every figure of an image table, and with the first seed pictures of patches."""
    ks = KS[facts["features"]]
    figures = scored(explainer, explanation, test, ks=ks, metrics=REMOVAL, fills=("zero",))
    figures |= of_classes(explainer, explanation, test, ks[-2], ("zero",))
    if facts["seed"] == 0 and facts["features"] == "patches" and facts["method"] == "aim":
        figures["pictures"] = pictures(found, explainer, explanation)
    return figures


def of_tables(found: Task, explainer: Explainer, explanation: Explanation, test: Any, facts: Facts) -> Facts:
    """Every figure of the table of tables."""
    return scored(explainer, explanation, test, ks=TABLE_KS, metrics=REMOVAL, fills=TABLE_FILLS)


def scored(
    explainer: Explainer,
    explanation: Explanation,
    test: Any,
    *,
    ks: Sequence[int],
    metrics: Sequence[str],
    fills: Sequence[str],
    near: Sequence[Sequence[int]] | None = None,
) -> Facts:
    """The means of metrics as "metric@K fill"; a mean of nothing is left out."""
    named = [name for name in metrics if explainer.every_class or name != "pairwise_iou"]
    scores = evaluate({"it": explanation}, test, box=explainer.box_, k=ks, metrics=named, fills=fills, controls=(), near=near)
    return {f"{s.metric}@{s.k}" + (f" {s.fill}" if s.fill else ""): s.mean for s in scores.rows if s.k and s.mean == s.mean}


def of_classes(explainer: Explainer, explanation: Explanation, test: Any, k: int, fills: Sequence[str]) -> Facts:
    """Class-specific faithfulness of every class by itself."""
    if not explainer.every_class:
        return {}
    figures = {}
    for c in range(len(explanation.classes)):
        order = explanation.order(c)
        for fill in fills:
            asked = ablations(explainer.box_, test, explanation, ks=(k,), fill=fill, target=c, orders=(order, order))[
                0
            ]  # what is left without them is not looked at
            figures[f"class_faithfulness {c}@{k} {fill}"] = float(class_faithfulness(asked).mean())
    return figures


@cache
def near(data: str, scale: str, rows: int, meanings: str) -> list[list[int]]:
    """The neighbours of each of the first test texts; they are the same for all methods."""
    found = task(data, scale)
    texts = found.data.test.inputs[:rows]
    some = METHODS["random"]().fit(found.box, found.train[:FEW], features=found.features)
    return near_ones(some.explain(found.test[:rows]), lambda _: encoder(meanings)(texts))


def encoder(name: str) -> Encoder:
    """What turns texts into vectors: a folder with a model of sentence-transformers, or latent semantic analysis."""
    if name != "lsa":
        folder = os.environ.get(ENCODER, "")
        if Path(folder).name != name:
            raise BadSetting(
                f"This cell's texts are compared by the model {name!r}. Pass --encoder with the folder of that model."
            )
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(folder)
        return lambda texts: model.encode(texts, show_progress_bar=False)

    def lsa(texts: list[str]) -> Any:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        bags = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        return TruncatedSVD(min(128, bags.shape[1] - 1), random_state=0).fit_transform(bags)

    return lsa


def drawn(predictions: Sequence[int], truth: Sequence[int]) -> list[int]:
    """Numbers of the texts that are shown, drawn by a fixed seed: one of them is a mistake of the black box."""
    order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(DRAWN_BY)).tolist()
    right = [i for i in order if predictions[i] == truth[i]]
    wrong = [i for i in order if predictions[i] != truth[i]]
    return [*right[: DRAWN - 1], *wrong[:1]]


def examples(found: Task, explainer: Explainer) -> list[Facts]:
    """The ten key words of the drawn texts, with their places, for every class that the method explains."""
    assert found.reader is not None
    whole = explainer.box_.whole(explainer.box_.features.encode(found.test).to(explainer.base_.device)).argmax(1).tolist()
    rows = drawn(whole, found.data.test.labels.tolist())
    texts = [found.data.test.inputs[i] for i in rows]
    explanation = explainer.explain(found.test[torch.tensor(rows)])
    spans = found.reader.tokenizer(texts)["offset_mapping"]
    shown = []
    for n, (i, text, truth) in enumerate(zip(rows, texts, labels(found, rows), strict=True)):
        model = int(explanation.prediction[n])
        classes = range(len(explanation.classes)) if explainer.every_class else [model]
        words = {}
        for c in classes:
            order = explanation[n].order(c)[0][:CLASS_K].tolist()
            there = [j for j in order if bool(explanation.present[n, j])]
            words[explanation.classes[c]] = [[str(explanation.values[n, j]), *spans[n, j].tolist()] for j in there]
        shown.append({"row": i, "truth": truth, "model": explanation.classes[model], "text": text, "words": words})
    return shown


def pictures(found: Task, explainer: Explainer, explanation: Explanation) -> list[Facts]:
    """Pictures with the five strongest superpixels outlined, drawn by a fixed seed: half of them mistakes, where there are."""
    truth = found.data.test.labels[: len(explanation)]
    order = torch.randperm(len(explanation), generator=torch.Generator().manual_seed(DRAWN_BY)).tolist()
    wrong = [i for i in order if int(explanation.prediction[i]) != int(truth[i])][: PICTURES // 2]
    right = [i for i in order if int(explanation.prediction[i]) == int(truth[i])][: PICTURES - len(wrong)]
    made = []
    for i in [*right, *wrong]:
        one = explainer.explain(found.test[i : i + 1], top=PICTURE_K)
        held = io.BytesIO()
        figure = one.plot(truth=[found.data.classes[int(truth[i])]], k=PICTURE_K)
        figure.savefig(held, format="png", dpi=80)
        png = base64.b64encode(held.getvalue()).decode()
        said = {"truth": found.data.classes[int(truth[i])], "model": one.classes[int(one.prediction[0])]}
        made.append({"row": i, **said, "png": png})
    return made
