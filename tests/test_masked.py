"""The seam: chunks, counts, limits, retries, draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aimwise.blackbox import FunctionBox, as_blackbox
from aimwise.errors import BadBlackBox, OutOfQueries
from aimwise.features import Columns
from aimwise.masked import Masked, Meter


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def make(model, table, **settings):
    features = Columns(fill=settings.pop("fill", "mean")).fit(table)
    box = Masked(as_blackbox(model), features, **settings)
    return box, features.encode(table)


def test_calls_are_cut_into_chunks_and_counted(linear, table):
    box, batch = make(linear, table)
    box.blackbox.rows_per_call = 100
    got = box.whole(batch)
    assert linear.rows == [100, 100, 40]
    assert box.meter.queries == 240
    np.testing.assert_allclose(got.numpy(), linear(table), atol=1e-6)


def test_masks_mean_what_they_say(linear, table):
    box, batch = make(linear, table)
    z = torch.tensor([1.0, 0, 1, 0, 1]).expand(len(table), -1)
    by_hand = np.where(z.numpy() > 0, table, table.mean(0))
    np.testing.assert_allclose(box(batch, z, rng()).numpy(), linear(by_hand), atol=1e-6)


def test_several_masks_a_row_come_back_in_order(linear, table):
    box, batch = make(linear, table)
    z = (torch.rand(len(table), 3, 5, generator=rng()) > 0.5).float()
    each = box.each(batch, z, rng())
    for m in range(3):
        torch.testing.assert_close(each[:, m], box(batch, z[:, m], rng()))


def test_soft_gates_mix_values(linear, table):
    box, batch = make(linear, table)
    got = box(batch, torch.full((len(table), 5), 0.25), rng())
    np.testing.assert_allclose(got.numpy(), linear(0.25 * table + 0.75 * table.mean(0)), atol=1e-6)


def test_the_limit_is_kept_before_asking(linear, table):
    box, batch = make(linear, table, meter=Meter(most=239))
    with pytest.raises(OutOfQueries, match="asked about 0 inputs, 240 more would pass max_queries=239"):
        box.whole(batch)
    assert linear.rows == []


def test_random_fills_are_averaged_over_draws_and_fixed_ones_asked_once(linear, table):
    box, batch = make(linear, table, fill="background")
    empty = torch.zeros(len(table), 5)
    once = box(batch, empty, rng()).std(0)
    box.meter.queries = 0
    often = box.averaged(16)(batch, empty, rng())
    assert box.meter.queries == 16 * 240
    assert (often.std(0) < once / 2).all()
    fixed = box.through(box.features.filled("mean")).averaged(16)
    box.meter.queries = 0
    fixed(batch, empty, rng())
    assert box.meter.queries == 240


class Flaky:
    def __init__(self, failures):
        self.failures, self.calls = failures, 0

    def __call__(self, inputs):
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("no route")
        return np.full((len(inputs), 2), 0.5)


def test_a_box_that_raises_is_asked_again_only_when_told(table):
    box, batch = make(Flaky(1), table)
    with pytest.raises(BadBlackBox, match=r"raised ConnectionError on 240 inputs: no route.*retries=3") as caught:
        box.whole(batch)
    assert isinstance(caught.value.__cause__, ConnectionError)
    box, batch = make(Flaky(2), table, retries=2)
    assert box.whole(batch).shape == (240, 2)
    box, batch = make(Flaky(3), table, retries=2)
    with pytest.raises(BadBlackBox, match="in 3 tries"):
        box.whole(batch)


def test_a_bad_answer_is_not_asked_again(table):
    calls = []
    box, batch = make(FunctionBox(lambda x: calls.append(1) or np.zeros((len(x), 2))), table, retries=5)
    with pytest.raises(BadBlackBox, match="not a row of probabilities"):
        box.whole(batch)
    assert len(calls) == 1


def test_no_rows_are_an_ordinary_batch(linear, table):
    box, _ = make(linear, table)
    box.whole(box.features.encode(table))
    assert box.whole(box.features.encode(table[:0])).shape == (0, 2)
