"""Each metric against values worked out by hand or by a slow loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import aimwise
from aimwise.data import lexicon
from aimwise.errors import BadFeatures, BadSetting, MissingData
from aimwise.explanation import Explanation
from aimwise.metrics import METRICS, Ablation, ablations
from aimwise.metrics.agreement import overlap, pairwise_iou, rank_correlation, sign_agreement
from aimwise.metrics.curves import aopc_comprehensiveness, aopc_sufficiency, deletion, insertion, naopc
from aimwise.metrics.faithfulness import class_faithfulness
from aimwise.metrics.stability import iou_stability, neighbours, sensitivity
from aimwise.metrics.truth import auprc, false_discovery_rate, iou_f1, marked, rationale, token_f1, true_positive_rate
from aimwise.metrics.words import brevity, brevity_released, clusters, purity
from test_data import needs

WHOLE = [[0.9, 0.1], [0.3, 0.7]]
KEPT = [[[0.6, 0.4], [0.8, 0.2]]]
REST = [[[0.5, 0.5], [0.4, 0.6]]]


def an_ablation(kept=KEPT, rest=REST, target=(0, 1)):
    return Ablation(torch.tensor(WHOLE), torch.tensor(kept), torch.tensor(rest), torch.tensor(target), 1)


def record(weights, *, present=None, values=None, names="columns", probs=None, spans=None, sources=None):
    weights = torch.tensor(weights, dtype=torch.float32)
    rows, d, c = weights.shape
    present = torch.ones(rows, d, dtype=torch.bool) if present is None else torch.tensor(present)
    probs = torch.full((rows, c), 1 / c) if probs is None else torch.tensor(probs)
    named = tuple(f"f{i}" for i in range(d)) if names == "columns" else None
    cells = np.array(values, dtype=object) if values is not None else np.zeros((rows, d))
    return Explanation(
        weights,
        probs,
        torch.zeros(c),
        present,
        named,
        cells,
        tuple(f"c{i}" for i in range(c)),
        "hand",
        spans=spans,
        sources=sources,
    )


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("faithfulness", [1.0, 0.0]),
        ("sufficiency", [0.3, 0.5]),
        ("comprehensiveness", [0.4, 0.1]),
        ("flips", [0.0, 0.0]),
        ("kl", [0.9 * math.log(0.9 / 0.6) + 0.1 * math.log(0.1 / 0.4), 0.3 * math.log(0.3 / 0.8) + 0.7 * math.log(0.7 / 0.2)]),
        ("positive_log_odds", [math.log(9), math.log(7 / 3) - math.log(6 / 4)]),
        ("negative_log_odds", [math.log(9) - math.log(1.5), math.log(7 / 3) - math.log(0.25)]),
    ],
)
def test_removal_metrics_are_what_a_pencil_gives(name, by_hand):
    torch.testing.assert_close(METRICS[name].measure(an_ablation()), torch.tensor(by_hand), atol=1e-5, rtol=0)


def test_every_removal_metric_has_its_value_here():
    assert set(METRICS) == {
        "faithfulness", "sufficiency", "comprehensiveness", "flips", "kl", "positive_log_odds", "negative_log_odds",
    }  # fmt: skip


def test_log_odds_are_clipped_and_draws_averaged():
    sure = Ablation(
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[[0.0, 1.0]], [[1.0, 0.0]]]),
        torch.tensor([[[0.0, 1.0]]] * 2),
        torch.tensor([0]),
        1,
    )
    edge = math.log((1 - 1e-6) / 1e-6)
    assert float(METRICS["positive_log_odds"].measure(sure)) == pytest.approx(2 * edge, rel=1e-4)
    assert float(METRICS["negative_log_odds"].measure(sure)) == pytest.approx(edge, rel=1e-4)
    assert float(METRICS["faithfulness"].measure(sure)) == 0.5


def test_class_faithfulness_is_about_the_class_asked_for():
    assert class_faithfulness(an_ablation(target=(0, 0))).tolist() == [1.0, 1.0]
    assert class_faithfulness(an_ablation(target=(1, 1))).tolist() == [0.0, 0.0]


def test_areas_over_k_are_means():
    some = [an_ablation(), an_ablation(kept=[[[0.7, 0.3], [0.2, 0.8]]], rest=[[[0.1, 0.9], [0.9, 0.1]]])]
    torch.testing.assert_close(aopc_sufficiency(some), torch.tensor([(0.3 + 0.2) / 2, (0.5 - 0.1) / 2]))
    torch.testing.assert_close(aopc_comprehensiveness(some), torch.tensor([(0.4 + 0.8) / 2, (0.1 + 0.6) / 2]))


@pytest.fixture
def additive_box():
    """A black box whose log-odds are a sum over ten columns, the fill zero, and its own weights as explanation."""
    rng = np.random.default_rng(0)
    X, beta = rng.normal(size=(60, 10)), rng.normal(size=10)

    def model(x):
        p = 1 / (1 + np.exp(-x @ beta))
        return np.stack([1 - p, p], 1)

    features = aimwise.Columns(fill="constant", value=0.0)
    explainer = aimwise.Random().fit(model, X, features=features)
    explanation = explainer.explain(X)
    half = torch.from_numpy(X * beta).float() / 2
    return explainer.box_, X, replace(explanation, weights=torch.stack([-half, half], -1)), model


def slow(model, X, explanation, k):
    """Faithfulness and log-odds row by row, feature by feature."""
    values = []
    for x, row in zip(X, explanation, strict=True):
        c = int(row.probs.argmax())
        order = sorted(range(len(x)), key=lambda i: -float(row.weights[0, i, c]))
        kept = np.array([x[i] if i in order[:k] else 0.0 for i in range(len(x))])
        rest = x - kept
        p, q, r = (model(one[None])[0] for one in (x, kept, rest))

        def odds(v):
            v = min(max(v, 1e-6), 1 - 1e-6)
            return math.log(v / (1 - v))

        values.append((float(q.argmax() == p.argmax()), odds(p[c]) - odds(r[c]), odds(p[c]) - odds(q[c])))
    return torch.tensor(values, dtype=torch.float32).T


@pytest.mark.parametrize("k", [1, 4])
def test_removal_metrics_equal_a_slow_loop(additive_box, k):
    box, X, explanation, model = additive_box
    (got,) = ablations(box, X, explanation, ks=(k,))
    names = ("faithfulness", "positive_log_odds", "negative_log_odds")
    torch.testing.assert_close(
        torch.stack([METRICS[n].measure(got) for n in names]), slow(model, X, explanation, k), atol=2e-4, rtol=1e-3
    )


def test_several_k_are_asked_about_together(additive_box):
    box, X, explanation, _ = additive_box
    before = box.meter.queries
    got = ablations(box, X, explanation, ks=(1, 3, 5))
    assert box.meter.queries - before == 2 * 3 * len(X)
    for one in got:
        (alone,) = ablations(box, X, explanation, ks=(one.k,))
        assert torch.equal(one.kept, alone.kept)
        assert torch.equal(one.rest, alone.rest)


def reversed_(explanation):
    return replace(explanation, weights=-explanation.weights)


def test_the_true_order_is_best_its_reverse_worst_and_noise_between(additive_box):
    box, X, explanation, _ = additive_box
    noise = replace(explanation, weights=torch.from_numpy(np.random.default_rng(1).normal(size=(60, 10, 2))).float())
    for name, metric in METRICS.items():
        best, middle, worst = (
            float(metric.measure(ablations(box, X, e, ks=(4,))[0]).mean()) for e in (explanation, noise, reversed_(explanation))
        )
        assert (best > middle > worst) if metric.better == "higher" else (best < middle < worst), name
    for measure, higher in ((insertion, True), (deletion, False)):
        for label in (False, True):
            best, middle, worst = (
                float(measure(box, X, e, label=label).mean()) for e in (explanation, noise, reversed_(explanation))
            )
            assert (best > middle > worst) if higher else (best < middle < worst)
    few = slice(0, 6)
    best, worst = (float(naopc(box, X[few], e[few], ks=(1, 2, 3), beam=3).mean()) for e in (explanation, reversed_(explanation)))
    assert best == pytest.approx(1, abs=1e-4)
    assert worst == pytest.approx(0, abs=1e-4)


def test_insertion_and_deletion_are_areas_under_lines():
    """One column decides: the probability jumps when it is put in first, or is gone once it is taken first."""
    X = np.ones((4, 10))
    model = lambda x: np.stack([1 - x[:, 3], x[:, 3]], 1)  # noqa: E731
    explainer = aimwise.Random().fit(model, X, features=aimwise.Columns(fill="constant", value=0.0))
    weights = torch.zeros(4, 10, 2)
    weights[:, 3, 1] = 1
    explanation = replace(explainer.explain(X), weights=weights)
    torch.testing.assert_close(insertion(explainer.box_, X, explanation), torch.full((4,), 0.95))
    torch.testing.assert_close(deletion(explainer.box_, X, explanation), torch.full((4,), 0.05))


def test_agreement_of_two_explanations():
    one = record([[[3.0], [2.0], [1.0], [-1.0]]])
    other = record([[[2.0], [3.0], [-1.0], [-4.0]]])
    assert overlap(one, other, k=1).tolist() == [0.0]
    assert overlap(one, other, k=2).tolist() == [1.0]
    assert overlap(one, other, k=3).tolist() == [1.0]
    assert float(rank_correlation(one, other)) == pytest.approx(0.8)
    assert float(sign_agreement(one, other, k=2)) == pytest.approx(1.0)
    assert float(sign_agreement(one, other, k=4)) == pytest.approx(0.75)
    assert math.isnan(float(rank_correlation(one, record([[[0.0]] * 4]))))
    with pytest.raises(BadSetting, match="same inputs"):
        overlap(one, record([[[1.0], [2.0]]]), k=1)


def test_rank_correlation_is_spearmans_with_ties_and_absent_features():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    for _ in range(50):
        d = int(rng.integers(3, 9))
        a, b = rng.integers(0, 4, size=(2, d)).astype(float)
        there = np.ones(d + 2, dtype=bool)
        there[-2:] = False
        pad = [9.0, -9.0]
        one, other = (record([[[v] for v in (*x, *pad)]], present=[there.tolist()]) for x in (a, b))
        wanted = spearmanr(a, b).statistic if len(set(a)) > 1 and len(set(b)) > 1 else math.nan
        assert float(rank_correlation(one, other)) == pytest.approx(wanted, nan_ok=True, abs=1e-5)


def test_pairwise_iou_is_the_overlap_between_classes():
    explanation = record([[[3.0, 0.0, 1.0], [2.0, 5.0, 0.0], [0.0, 4.0, 2.0]]])
    # top 2: class 0 {0, 1}, class 1 {1, 2}, class 2 {2, 0}: every pair shares one of three
    assert float(pairwise_iou(explanation, k=2)) == pytest.approx(1 / 3)


WORDS = [["The", "great", "film", ",", "the", "superb", "movie"]]


def about_words(weights=(7, 6, 5, 4, 3, 2, 1)):
    return record([[[float(w)] for w in weights]], values=WORDS, names=None)


def test_purity_counts_stop_words_and_punctuation():
    assert float(purity(about_words(), k=5, stop_words={"the"})) == pytest.approx(3 / 5)
    assert float(purity(about_words(), k=5, stop_words={"the"}, distinct=True)) == pytest.approx(2 / 4)
    assert float(purity(about_words(), k=2, stop_words={"the"})) == pytest.approx(1 / 2)
    with pytest.raises(BadFeatures, match="about words"):
        purity(record([[[1.0]]]), k=1, stop_words=())


def test_purity_equals_a_slow_loop_on_random_texts():
    rng = np.random.default_rng(0)
    vocabulary, stop = np.array(["the", "of", "film", "plot", "!", "bad", "..."]), {"the", "of"}
    for _ in range(50):
        words, weights, k = rng.choice(vocabulary, size=9), rng.normal(size=9), int(rng.integers(1, 9))
        top = [words[i] for i in sorted(range(9), key=lambda i: -weights[i])[:k]]
        wanted = sum(1 for word in top if word in stop or word in {"!", "..."}) / k
        made = record([[[float(w)] for w in weights]], values=[list(words)], names=None)
        assert float(purity(made, k=k, stop_words=stop)) == pytest.approx(wanted)


def test_brevity_counts_clusters():
    senses = {"great": {"g"}, "superb": {"g", "s"}, "film": {"m"}, "movie": {"m"}}
    related = lambda word: frozenset(senses.get(word, ()))  # noqa: E731
    assert brevity(about_words(), k=7, related=related).tolist() == [4.0]  # great superb / film movie / the / ,
    assert brevity_released(about_words(), k=7, related=related).tolist() == [3.0]  # all four known words are one
    assert clusters([{1}, {2}, {1, 2}, {3}]) == 2
    assert clusters([]) == 0


def test_wordnet_knows_relatives():
    needs("lexicon")
    related = lexicon.wordnet().related
    for a, b in (("movie", "film"), ("great", "superb"), ("boring", "bored"), ("happy", "happiness"), ("ran", "running")):
        assert related(a) & related(b), (a, b)
    assert not related("movie") & related("banana")
    assert related("qzxv") == frozenset()
    assert "the" in lexicon.stop_words()
    assert len(lexicon.stop_words()) == 179


def test_without_data_stop_words_are_scikit_learns_and_wordnet_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("AIMWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "nltk", None)
    monkeypatch.setitem(__import__("sys").modules, "nltk.corpus", None)
    lexicon.stop_words.cache_clear()
    lexicon.wordnet.cache_clear()
    try:
        assert "scikit-learn" in lexicon.stop_words().source
        assert "the" in lexicon.stop_words()
        with pytest.raises(MissingData, match="nltk"):
            lexicon.wordnet()
    finally:
        lexicon.stop_words.cache_clear()
        lexicon.wordnet.cache_clear()


def test_neighbours_share_words_or_meaning_and_the_label():
    texts = ["a b c d", "a b c x", "q r s t", "u v w y", "a b c d"]
    meaning = np.array([[1.0, 0], [0.9, 0.4], [0.99, 0.1], [0, 1], [1, 0]])
    found = neighbours(texts, torch.tensor([0, 0, 0, 0, 1]), encoder=lambda _: meaning, lexical=1, semantic=1)
    assert found[0] == [1, 2]  # text 4 has the same words but another label
    assert found[4] == []
    explanation = record([[[4.0], [3.0], [2.0], [1.0]]] * 5, values=[t.split() for t in texts], names=None)
    got = iou_stability(explanation, found, k=4, stop_words={"d", "x"})
    assert float(got[0]) == pytest.approx((1.0 + 0.0) / 2)
    more = iou_stability(explanation, found, k=4)  # {a b c d} and {a b c x} share three of five
    assert float(more[0]) == pytest.approx((3 / 5 + 0.0) / 2)
    assert math.isnan(float(got[4]))


def test_sensitivity_of_a_linear_explanation_is_the_ratio_of_changes():
    X = np.random.default_rng(0).normal(size=(30, 4))

    def explain(x):
        return record(np.repeat(np.asarray(x)[..., None], 2, axis=2).tolist())

    got = sensitivity(explain, X, tries=2)
    torch.testing.assert_close(got, torch.ones(30), atol=1e-3, rtol=0)  # weights are the inputs: relative changes are equal
    assert float(sensitivity(lambda x: record(np.ones((len(x), 4, 2)).tolist()), X, tries=2).max()) == 0
    with pytest.raises(BadFeatures, match="floats"):
        sensitivity(explain, np.zeros((3, 2), dtype=int))


CHOSEN = torch.tensor([[True, True, False, False]])
TRUE = torch.tensor([[True, False, True, True]])


def test_truth_in_numbers():
    assert float(true_positive_rate(CHOSEN, TRUE)) == pytest.approx(1 / 3)
    assert float(false_discovery_rate(CHOSEN, TRUE)) == 0.5
    assert float(token_f1(CHOSEN, TRUE)) == pytest.approx(2 * 1 / 5)
    assert float(iou_f1(CHOSEN, TRUE)) == 0.0
    assert float(iou_f1(TRUE, torch.tensor([[True, False, True, False]]))) == 1.0
    assert float(false_discovery_rate(~CHOSEN & CHOSEN, TRUE)) == 0
    assert math.isnan(float(true_positive_rate(CHOSEN, TRUE & ~TRUE)))


def test_average_precision_is_scikit_learns():
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    for _ in range(50):
        weights, truth = rng.permutation(8).astype(np.float32), rng.random(8) < 0.4
        if truth.any():
            got = auprc(torch.from_numpy(weights)[None], torch.ones(1, 8, dtype=torch.bool), torch.from_numpy(truth)[None])
            assert float(got) == pytest.approx(average_precision_score(truth, weights), abs=1e-6)


def test_peoples_marks_are_found_by_their_places():
    text = "you are bad-mouthed fool"
    places = np.array([[[0, 3], [4, 7], [8, 11], [11, 12], [12, 19], [20, 24]]])
    explanation = record(
        [[[0.0]] * 6], values=[["you", "are", "bad", "-", "mouthed", "fool"]], names=None, spans=places, sources=(text,)
    )
    assert marked(explanation, [text.split()], [[0, 0, 1, 0]]).tolist() == [[False, False, True, True, True, False]]
    with pytest.raises(BadSetting, match="joined by blanks"):
        marked(explanation, [["other"]], [[1]])
    assert rationale([[1, 0, 1], [1, 1, 0], [1, 0, 0]], 3) == [1, 0, 0]
    assert rationale([[1, 0, 1], [1, 1, 0], [1, 0, 0]], 3, by="union") == [1, 1, 1]
    assert rationale([[1, 0], [0, 0]], 2) == [0, 0]
    assert rationale([], 2) == [0, 0]
