"""Metrics against values worked out by hand and against slow loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import aimwise
from aimwise.explanation import Explanation
from aimwise.metrics import METRICS, Ablation, ablate


def by_hand():
    whole = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    kept = torch.tensor([[[0.6, 0.4], [0.7, 0.3]], [[0.8, 0.2], [0.1, 0.9]]])  # two draws
    rest = torch.tensor([[[0.5, 0.5], [0.2, 0.8]], [[0.1, 0.9], [0.4, 0.6]]])
    return Ablation(whole, kept, rest, whole.argmax(1), 2)


def test_metrics_by_hand():
    a = by_hand()
    assert METRICS["faithfulness"].measure(a).tolist() == [1.0, 0.5]
    assert METRICS["sufficiency"].measure(a).tolist() == pytest.approx([0.9 - 0.7, 0.8 - 0.6])
    assert METRICS["comprehensiveness"].measure(a).tolist() == pytest.approx([0.9 - 0.3, 0.8 - 0.7])
    assert {name: m.better for name, m in METRICS.items()} == {
        "faithfulness": "higher",
        "sufficiency": "lower",
        "comprehensiveness": "higher",
        "flips": "higher",
        "kl": "lower",
        "positive_log_odds": "higher",
        "negative_log_odds": "lower",
    }


def exact(linear, table, fill):
    """The explanation that a linear box deserves."""
    base = aimwise.Random().fit(linear, table, features=aimwise.Columns(fill=fill))
    got = base.explain(table)
    share = torch.from_numpy((table - table.mean(0)) * linear.coefficients).float()
    return base, Explanation(**(got.__dict__ | {"weights": torch.stack([-share, share], -1), "method": "exact"}))


def test_ablation_by_a_slow_loop(linear, table):
    explainer, explanation = exact(linear, table, "mean")
    got = ablate(explainer.box_, table, explanation, k=2)
    assert got.kept.shape == (1, 240, 2)
    for i in range(0, 240, 7):
        weights = explanation.weights[i, :, int(explanation.probs[i].argmax())].tolist()
        chosen = sorted(range(5), key=lambda j: -weights[j])[:2]
        kept, rest = table.mean(0).copy(), table[i].copy()
        for j in chosen:
            kept[j], rest[j] = table[i, j], table.mean(0)[j]
        np.testing.assert_allclose(got.kept[0, i].numpy(), linear(kept[None])[0], atol=1e-5)
        np.testing.assert_allclose(got.rest[0, i].numpy(), linear(rest[None])[0], atol=1e-5)


@pytest.mark.parametrize("fill", ["mean", "background"])
def test_the_exact_order_is_best_and_its_reverse_worst(linear, table, fill):
    explainer, explanation = exact(linear, table, fill)
    noise = explainer.explain(table)
    reverse = Explanation(**(explanation.__dict__ | {"weights": -explanation.weights}))
    for name, metric in METRICS.items():
        scores = [float(metric.measure(ablate(explainer.box_, table, e, k=2)).mean()) for e in (explanation, noise, reverse)]
        assert sorted(scores, reverse=metric.better == "higher") == scores, name
    all_kept = ablate(explainer.box_, table, explanation, k=5)
    assert METRICS["faithfulness"].measure(all_kept).mean() == 1


def test_another_fill_and_another_class_can_be_asked_about(linear, table):
    explainer, explanation = exact(linear, table, "background")
    drawn = ablate(explainer.box_, table, explanation, k=2, draws=4)
    assert drawn.kept.shape[0] == 4
    assert ablate(explainer.box_, table, explanation, k=2, fill="mean").kept.shape[0] == 1
    other = ablate(explainer.box_, table, explanation, k=2, target=0)
    assert set(other.target.tolist()) == {0}
    assert torch.equal(drawn.kept, ablate(explainer.box_, table, explanation, k=2, draws=4).kept)
