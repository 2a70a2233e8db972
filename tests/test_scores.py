"""Methods scored side by side: tables, controls, judges that cannot be fooled, sanity, refinement."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import aimwise
from aimwise.errors import BadFeatures, BadSetting, SingleClass, UnknownName
from aimwise.metrics.leakage import encoding_gain, eval_x, judged, post_hoc
from aimwise.scores.evaluate import known_metrics
from aimwise.scores.sanity import amortization_gap, sanity
from aimwise.scores.table import Bootstrap

QUICK = {"epochs": 6, "least_rows": 512, "masks_per_row": 8}


def three_decide(x):
    """A box over twelve columns of which the first three decide."""
    p = 1 / (1 + np.exp(-2 * (x[:, 0] + x[:, 1] - x[:, 2])))
    return np.stack([1 - p, p], 1)


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(0).normal(size=(400, 12))


@pytest.fixture(scope="module")
def fitted(inputs):
    return aimwise.AIM(**QUICK).fit(three_decide, inputs[:300])


@pytest.fixture(scope="module")
def scores(fitted, inputs):
    return aimwise.evaluate({"aim": fitted}, inputs[300:], k=(1, 3))


def test_the_table_is_tidy_and_has_its_controls(scores):
    frame = scores.to_frame()
    assert list(frame.columns) == ["method", "metric", "k", "fill", "mean", "low", "high", "n", "better", "unit"]
    assert scores.methods == ["aim", "random", "lexicon"]
    faith = frame[frame.metric == "faithfulness"]
    assert set(faith.fill) == {"background", "mean"}
    assert set(faith.k) == {1, 3}
    assert (frame.n == 100).all()
    ranged = frame[frame.low.notna()]
    assert ((ranged.low <= ranged["mean"]) & (ranged["mean"] <= ranged.high)).all()
    assert {"explain_seconds", "fit_seconds"} <= set(frame.metric)


def test_a_good_method_is_better_than_its_controls(scores):
    for fill in ("mean", "background"):
        ours, noise = (scores.mean("faithfulness", method=m, k=3, fill=fill) for m in ("aim", "random"))
        assert ours > noise + 0.1
        assert scores.mean("sufficiency", method="aim", k=3, fill=fill) < scores.mean(
            "sufficiency", method="random", k=3, fill=fill
        )


def test_the_table_can_be_read_looked_at_and_written(scores, tmp_path):
    text = repr(scores)
    assert "faithfulness ↑" in text
    assert "sufficiency ↓" in text
    assert "100 inputs" in text
    assert "<table" in scores._repr_html_()
    kept = json.loads(scores.to_json(tmp_path / "scores.json"))
    assert len(kept["scores"]) == len(scores.rows)
    figure = scores.plot("faithfulness", tmp_path / "f.png")
    assert len(figure.axes) == 2
    assert [line.get_label() for line in figure.axes[0].lines] == ["aim", "random", "lexicon"]
    assert (tmp_path / "f.png").stat().st_size > 5000
    with pytest.raises(UnknownName, match="aopc_sufficiency"):
        scores.plot("aopc_sufficiency")


def test_one_set_of_questions_serves_all_metrics(fitted, inputs):
    before = fitted.box_.meter.queries
    aimwise.evaluate({"aim": fitted}, inputs[300:], k=(1, 3, 5), fills=("mean", "median"), controls=())
    assert fitted.box_.meter.queries - before == (1 + 2 * 3 * 2) * 100
    known = fitted.explain(inputs[300:])
    before = fitted.box_.meter.queries
    aimwise.evaluate({"a": known, "b": known}, inputs[300:], box=fitted.box_, k=3, fills=("mean",), controls=())
    assert fitted.box_.meter.queries - before == 2 * 2 * 100


def test_controls_may_be_asked_about_fewer_inputs(fitted, inputs):
    got = aimwise.evaluate({"aim": fitted}, inputs[300:], k=3, fills=("mean",), control_rows=20)
    assert {row.n for row in got.find("faithfulness", method="random")} == {20}
    assert {row.n for row in got.find("faithfulness", method="aim")} == {100}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metrics": ["faithfullness"]}, UnknownName, "Did you mean 'faithfulness'"),
        ({"metrics": "faithfulness"}, BadSetting, "wanted a list of names"),
        ({"k": (0, 3)}, BadSetting, "wanted how many features"),
        ({"fills": ["nothing"]}, UnknownName, "no fill 'nothing'"),
        ({"controls": ["nobody"]}, UnknownName, "no control 'nobody'"),
        ({"metrics": ["eval_x"]}, BadSetting, "train"),
        ({"metrics": ["brevity"]}, Exception, "words|WordNet"),
    ],
)
def test_bad_questions_are_named(fitted, inputs, arguments, error, message):
    with pytest.raises(error, match=message):
        aimwise.evaluate({"aim": fitted}, inputs[300:], **arguments)


def test_explanations_alone_need_a_box(fitted, inputs):
    explanation = fitted.explain(inputs[300:])
    with pytest.raises(BadSetting, match="box=explainer"):
        aimwise.evaluate({"aim": explanation}, inputs[300:])
    with pytest.raises(BadSetting, match="same inputs"):
        aimwise.evaluate({"a": explanation, "b": explanation[:5]}, inputs[300:], box=fitted.box_)


def test_every_metric_runs_on_texts_under_every_fill():
    rng = np.random.default_rng(0)
    nouns = ["film", "plot", "actor", "scene", "music", "the", "a", ",", "of"]
    texts = [" ".join(rng.choice(["good", "bad", *nouns], size=8)) for _ in range(60)]

    def model(texts):
        s = np.array([t.split().count("good") - t.split().count("bad") for t in texts]) * 2.0
        p = 1 / (1 + np.exp(-s))
        return np.stack([1 - p, p], 1)

    fitted = aimwise.AIM(**QUICK).fit(model, texts)
    hashed = lambda texts: np.array([[len(t), t.count("good"), t.count("bad"), 1.0] for t in texts])  # noqa: E731
    names = [m for m in known_metrics() if "sensitivity" not in m and "brevity" not in m and m != "naopc"]
    got = aimwise.evaluate(
        {"aim": fitted}, texts[:30], k=(2,), metrics=names, fills=("delete", "replace"), encoder=hashed, train=texts
    )
    assert set(names) <= set(got.metrics)
    assert all(np.isfinite(row.mean) for row in got.rows)
    assert got.mean("purity", method="aim", k=2) < got.mean("purity", method="random", k=2)
    assert got.mean("faithfulness", method="aim", k=2, fill="delete") > 0.9


class Encodes:
    """An explainer that tells the class by which column it picks, whatever the columns hold."""

    def __init__(self, explanation, columns=(10, 11)):
        weights = torch.zeros_like(explanation.weights)
        for row, c in enumerate(explanation.prediction.tolist()):
            weights[row, columns[c], c] = 1.0
        self.explanation = replace(explanation, weights=weights)


def test_an_explanation_that_encodes_the_class_is_exposed(fitted, inputs):
    honest = fitted.explain(inputs)
    cheat = Encodes(honest).explanation
    naive = post_hoc(fitted.box_, inputs, cheat, k=1)
    assert float(judged(naive, fitted.box_, inputs, cheat, k=1).mean()) > 0.95, "the naive measure is fooled"
    judge = eval_x(fitted.box_, inputs, honest.probs)
    assert float(judged(judge, fitted.box_, inputs, cheat, k=1).mean()) < 0.65
    assert float(judged(judge, fitted.box_, inputs, honest, k=3).mean()) > 0.85
    assert float(encoding_gain(cheat, k=1).mean()) > 0.4
    assert abs(float(encoding_gain(replace(honest, weights=torch.rand(honest.weights.shape)), k=3).mean())) < 0.15
    kept = judge.ablate(fitted.box_, inputs, cheat, k=1)
    assert kept.kept.shape == (1, 400, 2)


def test_intervals_cover_the_mean_about_as_often_as_said():
    rng = np.random.default_rng(0)
    inside = 0
    for trial in range(200):
        values = torch.from_numpy(rng.exponential(size=60)).float()
        low, high = Bootstrap(60, seed=trial).interval(values)
        inside += low <= 1 <= high
    assert 0.86 <= inside / 200 <= 0.99
    assert all(np.isnan(Bootstrap(3).interval(torch.full((3,), torch.nan))))


def test_refining_follows_the_row(inputs):
    def parity(x):
        p = 1 / (1 + np.exp(-3 * x[:, 0] * x[:, 1] - 2 * x[:, 2]))
        return np.stack([1 - p, p], 1)

    weak = aimwise.AIM(epochs=1, least_rows=64, masks_per_row=2).fit(parity, inputs[:300], features=aimwise.Columns(fill="mean"))
    gap = amortization_gap(weak, inputs[300:350], budget=128)
    assert gap.refined > gap.one_pass + 0.02
    explanation = weak.explain(inputs[300:320])
    before = weak.box_.meter.queries
    better = weak.refine(explanation, budget=128)
    assert weak.box_.meter.queries - before == 128 * 20
    assert better.method == "aim, refined"
    torch.testing.assert_close(better.weights, weak.refine(explanation[:20], inputs[300:320], budget=128).weights)
    with pytest.raises(BadSetting, match="Pass them"):
        weak.refine(explanation[:3], budget=64)
    with pytest.raises(BadFeatures, match="not those"):
        weak.refine(explanation, inputs[:5], budget=64)
    with pytest.raises(BadSetting, match="budget=2"):
        weak.refine(explanation, budget=2)
    with pytest.raises(SingleClass):
        weak.refine(replace(explanation, only=explanation.prediction), inputs[300:320], budget=64)


def test_sanity_of_an_explainer(inputs):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 2))
    with torch.no_grad():
        module[0].weight[:, 3:] *= 0.05
        module[2].weight *= 6
    X = torch.from_numpy(inputs).float()
    fitted = aimwise.AIM(epochs=15, least_rows=512, masks_per_row=8).fit(module, X[:300], features=aimwise.Columns(fill="mean"))
    got = sanity(fitted, X[:300], X[300:], k=1)
    assert got.same
    assert got.seeds > 0.6
    assert got.random_model < got.seeds - 0.3
    assert abs(got.random_model_ranks) < 0.5
    assert got.classes < 0.5
    assert np.isnan(got.random_labels)
    assert got.collapsed == ()
    closed = sanity(aimwise.AIM(**QUICK).fit(three_decide, inputs[:300]), inputs[:300], inputs[300:], k=1)
    assert closed.random_model < closed.seeds - 0.3


def test_a_model_of_shuffled_labels_has_other_explanations(inputs):
    train, test = inputs[:300], inputs[300:]
    said = (three_decide(train)[:, 1] > 0.5).astype(int)
    taught = RandomForestClassifier(random_state=0).fit(train, said)
    wrong = RandomForestClassifier(random_state=0).fit(train, np.random.default_rng(0).permutation(said))
    explainer = aimwise.AIM(**QUICK).fit(taught, train)
    got = sanity(explainer, train, test, k=3, mistaught=wrong)
    assert got.random_labels < got.seeds - 0.2
    assert got.random_labels < got.chance + 0.2
    assert sanity(explainer, train, test, k=3, mistaught=taught).random_labels > got.random_labels + 0.2
    other = RandomForestClassifier(random_state=0).fit(train, np.where(said, "yes", "no"))
    with pytest.raises(BadSetting, match="has the classes no, yes; wanted those of the explained one, 0, 1"):
        sanity(explainer, train, test, k=3, mistaught=other)


def test_a_fit_that_collapses_is_a_finding_of_sanity(inputs):
    train, test = inputs[:300], inputs[300:]
    explainer = aimwise.AIM(**QUICK).fit(three_decide, train)
    noisy = np.random.default_rng(0)

    def unsure(x):
        p = noisy.random((len(x), 1))
        return np.hstack([p, 1 - p])

    got = sanity(explainer, train, test, k=3, mistaught=unsure)
    assert got.collapsed == ("random_labels",)
    assert np.isnan(got.random_labels)
    assert got.seeds > 0.3


def test_comparing_methods(fitted, inputs):
    noise = aimwise.Random().fit(three_decide, inputs[:300])
    got = aimwise.compare({"aim": fitted, "again": fitted, "random": noise}, inputs[300:], k=(3,))
    assert got.mean("aim", "again", "overlap", k=3) == 1
    assert got.mean("again", "aim", "rank_correlation") == pytest.approx(1)
    assert got.mean("aim", "random", "overlap", k=3) < 0.4
    assert "aim and random" in repr(got)
    assert len(got.to_frame()) == 9
    with pytest.raises(BadSetting, match="at least two"):
        aimwise.compare({"aim": fitted}, inputs)
