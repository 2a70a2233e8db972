"""Samplers and losses against slow loops worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aimwise.errors import UnknownName
from aimwise.features import Columns
from aimwise.nn import losses, sampling
from aimwise.nn.build import NETWORKS, family


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def plain(size, generator):
    return torch.rand(size, generator=generator)


def test_uniform_masks_have_every_size_equally_often():
    z = sampling.uniform_masks(torch.ones(4000, 6, dtype=torch.bool), 4, rng(), noise=plain)
    sizes = z.sum(-1).flatten().long().bincount(minlength=7) / z[..., 0].numel()
    torch.testing.assert_close(sizes, torch.full((7,), 1 / 7), atol=0.01, rtol=0)
    torch.testing.assert_close(z[:, 2:], 1 - z[:, :2])


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 5), masks=st.integers(1, 6), d=st.integers(1, 7), seed=st.integers(0, 99))
def test_masks_are_binary_and_never_keep_what_is_not_there(rows, masks, d, seed):
    present = torch.rand(rows, d, generator=rng(seed)) > 0.3
    for z in (sampling.uniform_masks(present, masks, rng(seed), noise=plain), sampling.shared_masks(present, masks, seed)):
        assert z.shape == (rows, masks, d)
        assert set(z.unique().tolist()) <= {0.0, 1.0}
        assert not z[~present[:, None].expand_as(z)].any()


def test_shared_masks_are_the_same_for_every_row_and_a_longer_row_extends_a_shorter_one():
    z = sampling.shared_masks(torch.ones(3, 8, dtype=torch.bool), 5, 7)
    assert (z == z[:1]).all()
    shorter = sampling.shared_masks(torch.ones(1, 5, dtype=torch.bool), 5, 7)
    torch.testing.assert_close(shorter[0], z[0, :, :5])


def test_concrete_is_the_softmax_over_keep_and_drop():
    pi, tau = torch.tensor([[0.2, 0.7, 0.5]]), 0.2
    u = torch.rand(1, 3, generator=rng())
    noise = torch.logit(u)  # the difference of two Gumbel draws
    z = sampling.concrete(pi, tau, rng())
    for i in range(3):
        keep = math.exp((math.log(pi[0, i]) + float(noise[0, i])) / tau)
        drop = math.exp(math.log(1 - pi[0, i]) / tau)
        assert float(z[0, i]) == pytest.approx(keep / (keep + drop), rel=1e-4)


def test_concrete_keeps_a_feature_as_often_as_pi_says():
    pi = torch.tensor([0.1, 0.5, 0.9]).expand(20000, 3)
    for draw in (sampling.concrete, sampling.hard, sampling.straight_through, sampling.concrete_released):
        kept = (draw(pi, 0.2, rng()) > 0.5).float().mean(0)
        torch.testing.assert_close(kept, pi[0], atol=0.015, rtol=0)


def test_the_released_sample_does_not_feel_the_temperature():
    pi = torch.rand(5, 4, generator=rng())
    assert (sampling.concrete_released(pi, 0.1, rng()) == sampling.concrete_released(pi, 5.0, rng())).all()
    assert (sampling.concrete(pi, 0.1, rng()) != sampling.concrete(pi, 5.0, rng())).any()


def test_gradients_flow_through_all_but_the_hard_sample():
    for draw, flows in ((sampling.concrete, True), (sampling.straight_through, True), (sampling.hard, False)):
        pi = torch.full((4, 3), 0.4, requires_grad=True)
        z = draw(pi, 0.5, rng())
        assert z.requires_grad == flows
        if flows:
            z.sum().backward()
            assert (pi.grad > 0).all()
    assert set(sampling.straight_through(torch.full((50,), 0.4), 0.5, rng()).tolist()) == {0.0, 1.0}


def test_snap_where_leaves_soft_features_alone():
    z = torch.tensor([[0.3, 0.3, 0.8]])
    torch.testing.assert_close(sampling.snap_where(z, torch.tensor([True, False, False])), torch.tensor([[0.3, 0.0, 1.0]]))


def test_additive_scores_by_a_slow_loop():
    W, z, base = torch.randn(2, 3, 4), torch.rand(2, 5, 3), torch.randn(4)
    got = losses.additive(W, z, base)
    for b in range(2):
        for m in range(5):
            for c in range(4):
                want = float(base[c]) + sum(float(W[b, i, c] * z[b, m, i]) for i in range(3))
                assert float(got[b, m, c]) == pytest.approx(want, abs=1e-5)


def test_cross_entropy_by_hand():
    scores = torch.tensor([[0.0, math.log(3.0)]])
    hard, soft = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    assert float(losses.cross_entropy(hard, scores)) == pytest.approx(-math.log(0.75))
    assert float(losses.cross_entropy(soft, scores)) == pytest.approx(-0.5 * math.log(0.25) - 0.5 * math.log(0.75))
    twice = math.exp(0.75) / (math.exp(0.25) + math.exp(0.75))
    assert float(losses.cross_entropy_released(hard, scores)) == pytest.approx(-math.log(twice))
    assert float(losses.cross_entropy_released(hard, torch.tensor([[1e4, -1e4]]))) < 1.4


def test_group_norms_by_hand():
    W = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [6.0, 8.0]]])  # (B=2, d=2, C=2)
    assert float(losses.group_norm(W)) == pytest.approx((5 + 10) / 2, abs=1e-4)
    assert float(losses.group_norm_released(W)) == pytest.approx(3 + 4 + 6 + 8, abs=1e-4)
    W = torch.zeros(1, 2, 2, requires_grad=True)
    losses.group_norm(W).backward()
    assert torch.isfinite(W.grad).all()


def test_decidedness_by_hand():
    assert float(losses.decidedness(torch.tensor([0.5, 0.5]))) == pytest.approx(0, abs=1e-6)
    assert float(losses.decidedness(torch.tensor([1.0, 0.0]))) == pytest.approx(math.log(2), abs=1e-4)


def test_hardened_is_one_hot():
    assert losses.hardened(torch.tensor([[0.2, 0.5, 0.3]])).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("reading", [name for kind, name in NETWORKS if kind == "table"])
def test_networks_for_tables_take_every_kind_of_column_and_groups(frame, reading):
    columns = Columns(groups={"both": ["number", "text"]}).fit(frame)
    made, layout = family("table", reading), columns.layout
    batch = columns.encode(frame)
    x, d = batch.x, len(columns.names)
    W = made.explainer(layout, 3)(x, torch.full((len(x), 3), 1 / 3))
    pi = made.selector(layout)(x)
    scores = made.approximator(layout, 3)(x, columns.spread(batch, pi))
    assert W.shape == (len(x), d, 3)
    assert pi.shape == (len(x), d)
    assert scores.shape == (len(x), 3)
    assert all(torch.isfinite(t).all() for t in (W, pi, scores))
    assert ((pi > 0) & (pi < 1)).all()


def test_default_and_paper_networks_see_the_rest_of_the_row_and_the_released_one_does_not(table):
    columns = Columns().fit(table)
    other = table.copy()
    other[:, 1] += 3
    probs = torch.full((len(table), 2), 0.5)
    for reading, sees in (("default", True), ("paper", True), ("released", False)):
        net = family("table", reading).explainer(columns.layout, 2).eval()
        change = (net(columns.encode(table).x, probs) - net(columns.encode(other).x, probs)).detach().abs()[:, 0].max().detach()
        assert (float(change) > 1e-6) == sees, reading


def test_default_weights_add_up_to_nothing_over_the_classes(table):
    columns = Columns().fit(table)
    W = family("table", "default").explainer(columns.layout, 4)(columns.encode(table).x, torch.full((len(table), 4), 0.25))
    assert float(W.detach().sum(-1).abs().max()) < 1e-5


def test_numbers_far_outside_the_training_range_stay_finite(table):
    columns = Columns().fit(table)
    net = family("table", "default").explainer(columns.layout, 2)
    assert torch.isfinite(net(columns.encode(np.full((1, 5), 1e12)).x, torch.full((1, 2), 0.5))).all()


def test_unknown_networks_are_named():
    with pytest.raises(UnknownName, match="networks for table 'big'; known: default, paper, released"):
        family("table", "big")
