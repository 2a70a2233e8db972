"""A method, a metric and a modality of one's own work as the pages that show them say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import aimwise
from aimwise.errors import BadFeatures, BadSetting
from aimwise.explainers.base import Explainer
from aimwise.features import FEATURES
from aimwise.metrics import Ablation, ablate
from aimwise.nn.build import NETWORKS, Family
from own_method import LeaveOneIn
from own_metric import lead
from own_networks import SeriesApproximator, SeriesExplainer, SeriesSelector
from own_windows import Windows


@pytest.fixture
def one_in(linear, table):
    return LeaveOneIn().fit(linear, table, features=aimwise.Columns(fill="mean"))


def test_the_methods_weights_are_what_each_column_does_alone(one_in, linear, table):
    got = one_in.explain(table[:20])
    mean = table.mean(0)
    for i in range(table.shape[1]):
        alone = np.tile(mean, (20, 1))
        alone[:, i] = table[:20, i]
        gain = torch.from_numpy(linear(alone)[:, 1] - linear(mean[None])[:, 1]).float()
        torch.testing.assert_close(got.towards(1)[:, i], gain, atol=1e-4, rtol=1e-3)


def test_the_method_is_judged_saved_and_loaded_like_any_other(one_in, linear, table, tmp_path, monkeypatch):
    scores = aimwise.evaluate({"mine": one_in}, table[:60], k=(1,), metrics=["comprehensiveness"], fills=["mean"])
    found, chance = (scores.mean("comprehensiveness", method=name, k=1) for name in ("mine", "random"))
    assert found > chance + 0.1
    monkeypatch.setitem(aimwise.METHODS, "leave_one_in", LeaveOneIn)  # the one line in METHODS
    back = aimwise.load(one_in.save(tmp_path / "mine"), linear)
    assert torch.equal(back.explain(table[:5]).weights, one_in.explain(table[:5]).weights)


def test_the_method_explains_a_row_alike_in_any_company(linear, table):
    random_fill = LeaveOneIn(draws=2).fit(linear, table)
    torch.testing.assert_close(random_fill.explain(table[:4]).weights[3:], random_fill.explain(table[3:4]).weights)


def test_the_metric_by_hand():
    ablation = Ablation(
        whole=torch.tensor([[0.9, 0.1, 0.0]]),
        kept=torch.tensor([[[0.6, 0.3, 0.1]], [[0.4, 0.5, 0.1]]]),
        rest=torch.tensor([[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]]]),
        target=torch.tensor([0]),
        k=1,
    )
    assert lead(ablation).tolist() == pytest.approx([0.1])


def test_a_good_method_has_more_of_the_metric_than_chance(one_in, linear, table):
    chance = aimwise.Random().fit(linear, table, features=aimwise.Columns(fill="mean"))
    found = [float(lead(ablate(one.box_, table, one.explain(table), k=1)).mean()) for one in (one_in, chance)]
    assert found[0] > found[1] + 0.2


def signals(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bump somewhere, and the window where it is."""
    rng = np.random.default_rng(seed)
    found, at = rng.normal(0, 0.3, (n, 40)), rng.integers(0, 8, n)
    for row, window in enumerate(at):
        found[row, window * 5 : window * 5 + 5] += 2
    return found.astype(np.float32), at


def halves(found: np.ndarray) -> np.ndarray:
    """In which half of the time a signal is high."""
    high = found.reshape(len(found), 2, 20).clip(0).sum(2) / 2  # (n, 2)
    odds = np.exp(high - high.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    """The modality made known, as long as these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for reading in ("default", "paper"):
            patch.setitem(NETWORKS, ("series", reading), Family(SeriesExplainer, SeriesSelector, SeriesApproximator))
        patch.setitem(FEATURES, "windows", Windows)
        patch.setattr(Explainer, "kinds", (*Explainer.kinds, "series"))
        yield


@pytest.fixture(scope="module")
def bumps(known):
    method = aimwise.AIM(epochs=6, least_rows=1024)
    return method.fit(halves, signals(300, 0)[0], features=Windows(5), class_names=["early", "late"])


def test_the_bump_is_what_speaks_for_the_class(bumps):
    found, at = signals(100, 1)
    got = bumps.explain(found, check=16)
    assert got.names[:2] == ("0-4", "5-9")
    assert (got.order()[:, 0].numpy() == at).mean() > 0.9
    assert float(got.check.agreement.mean()) > float(got.check.without.mean()) + 0.1


def test_other_methods_and_metrics_work_on_the_modality(known, bumps):
    found, at = signals(40, 2)
    got = aimwise.METHODS["occlusion"]().fit(halves, found, features=Windows(5)).explain(found)
    assert (got.order()[:, 0].numpy() == at).mean() > 0.9
    scores = aimwise.evaluate({"aim": bumps}, found, k=(1,), metrics=["flips"], controls=["random"])
    assert scores.mean("flips", method="aim", k=1) > scores.mean("flips", method="random", k=1)


def test_the_papers_recipe_runs_on_the_modality(known):
    found, _ = signals(200, 3)
    got = aimwise.AIM.paper(epochs=4).fit(halves, found, features=Windows(5)).explain(found[:10])
    assert got.weights.shape == (10, 8, 2)


def test_the_modality_is_saved_and_read_again(bumps, tmp_path):
    found, _ = signals(10, 4)
    back = aimwise.load(bumps.save(tmp_path / "bumps"), halves)
    assert torch.equal(back.explain(found).weights, bumps.explain(found).weights)


def test_other_signals_are_named(bumps):
    with pytest.raises(BadFeatures, match=r"shape \(3, 30\), wanted \(n, 40\)"):
        bumps.explain(np.zeros((3, 30)))
    with pytest.raises(BadFeatures, match="multiple of 7"):
        Windows(7).fit(np.zeros((3, 40)))
    with pytest.raises(BadSetting, match="wanted 'mean'"):
        Windows(5, fill="zero").fit(np.zeros((3, 40)))
