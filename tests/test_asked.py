"""Answers to masks that lie beside a checkpoint: a fit that goes on asks nothing twice."""

import numpy as np
import pytest
import torch

import aimwise
from aimwise.errors import BadFile
from aimwise.explainers.asked import FILE
from aimwise.features import Columns
from aimwise.masked import Masked, Meter

ROWS = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)


class Box:
    """A logistic model that counts the rows it is asked about."""

    def __init__(self, slope=1.0):
        self.slope, self.asked = slope, 0

    def __call__(self, rows):
        self.asked += len(rows)
        p = 1 / (1 + np.exp(-self.slope * np.asarray(rows) @ np.array([2.0, -1.0, 0.5, 0.0, 0.0])))
        return np.stack([1 - p, p], 1)


def small(make=aimwise.AIM):
    return make(epochs=3, least_rows=256, most_queries=1600)


@pytest.mark.parametrize(("method", "rows"), [("aim", 230), ("fastshap", 180)])  # nine tenths of 256, made of 200, and of 200
def test_a_fit_that_goes_on_asks_nothing_twice(method, rows, tmp_path):
    make = aimwise.METHODS[method]
    first, again, plain = Box(), Box(), Box()
    one = small(make).fit(first, ROWS, seed=0, folder=tmp_path)
    assert (tmp_path / FILE).exists()
    (tmp_path / "training.safetensors").unlink()  # killed before the first epoch was over
    two = small(make).fit(again, ROWS, seed=0, folder=tmp_path)
    without = small(make).fit(plain, ROWS, seed=0)
    assert first.asked - again.asked == rows * (1600 // rows)
    weights = [each.explain(ROWS[:10]).weights for each in (one, two, without)]
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


def test_answers_of_another_fit_or_model_are_refused(tmp_path):
    small().fit(Box(), ROWS, seed=0, folder=tmp_path)
    (tmp_path / "training.safetensors").unlink()
    with pytest.raises(BadFile, match=r"answers\.safetensors belongs to a fit with other settings, data, features or seed"):
        small().fit(Box(), ROWS, seed=1, folder=tmp_path)
    with pytest.raises(BadFile, match=r"answers\.safetensors belongs to a fit of another model"):
        small().fit(Box(slope=-1.0), ROWS, seed=0, folder=tmp_path)


def test_answers_that_were_cut_short_are_refused(tmp_path):
    small().fit(Box(), ROWS, seed=0, folder=tmp_path)
    (tmp_path / "training.safetensors").unlink()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadFile):
        small().fit(Box(), ROWS, seed=0, folder=tmp_path)


class Flaky(Box):
    """The same model behind a connection of which every n-th call fails."""

    def __init__(self, every):
        super().__init__()
        self.every, self.calls = every, 0

    def __call__(self, rows):
        self.calls += 1
        if self.calls % self.every == 0:
            self.asked += len(rows)
            raise ConnectionError("no route")
        return super().__call__(rows)


@pytest.mark.parametrize("every", [20, 3])
def test_calls_that_fail_do_not_use_up_what_a_fit_may_ask(every):
    """One call in twenty fits into what is spared; of one in three the fit is left with fewer rows."""
    box = Flaky(every)
    fitted = aimwise.AIM(epochs=8, least_rows=1024).fit(box, ROWS, seed=0, max_queries=3000, retries=3)
    assert 2000 < box.asked <= 3000
    assert fitted.queries_ == box.asked
    best = fitted.history_[fitted.best_epoch_]
    assert best["agreement"] > 0.8


def test_few_rows_are_joined_by_rows_made_of_them_within_what_may_be_asked():
    def enlarged(least_rows, most):
        box = Masked(aimwise.FunctionBox(Box()), Columns().fit(ROWS), meter=Meter(most=most))
        data = box.features.encode(ROWS)
        new, probs = aimwise.AIM(least_rows=least_rows)._enlarged(box, data, box.whole(data), 0)
        assert probs.shape == (len(new), 2)
        assert torch.allclose(probs, box.whole(new))
        return len(new)

    assert enlarged(256, None) == 256
    assert enlarged(100, None) == 200
    assert enlarged(4096, 2200) == 200 + 200  # a tenth of what is left
