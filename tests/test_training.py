"""The loop: best epoch, patience, interruption, resume bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from aimwise.errors import BadFile, BadSetting, Collapsed, OutOfQueries, UnknownName
from aimwise.training import CHECKPOINT, SCHEDULES, Plan, epoch_order, train

ROWS = torch.arange(10)


class Fit:
    """One weight pulled towards 3, with scores given in advance."""

    def __init__(self, scores=None, fail=None):
        self.net = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.net.weight)
        self.scores, self.fail, self.epochs, self.orders = scores, fail, 0, []

    def losses(self, order):
        self.orders.append(order)
        for index in torch.split(order, 4):
            if self.fail is not None and self.epochs == self.fail[0]:
                raise self.fail[1]
            yield (self.net.weight - 3).square().sum() + 0 * index.sum() + 0.01 * torch.rand(())

    def score(self, net):
        self.epochs += 1
        value = self.scores[self.epochs - 1] if self.scores else -abs(net.weight.item() - 3)
        return {"agreement": value, "weight": net.weight.item()}

    def run(self, rng=None, folder=None, fingerprint="f", **plan):
        plan = Plan(**({"epochs": 5, "batch_size": 4, "lr": 0.1} | plan))
        rng = rng or torch.Generator().manual_seed(0)
        return train(self.net, self.losses, self.score, ROWS, plan, rng, folder=folder, fingerprint=fingerprint)


def test_the_best_epoch_is_kept_not_the_last():
    fit = Fit([0.1, 0.9, 0.5, 0.4, 0.3])
    run = fit.run()
    assert run.best == 1
    assert fit.net.weight.item() == pytest.approx(run.history[1]["weight"])
    assert [h["epoch"] for h in run.history] == [0, 1, 2, 3, 4]
    assert run.stopped == "epochs"
    assert not fit.net.training


def test_patience_ends_a_fit_that_learns_no_more():
    run = Fit([0.1, 0.9, 0.5, 0.4, 0.3]).run(patience=2)
    assert len(run.history) == 4
    assert run.stopped == "patience"


@pytest.mark.parametrize(("error", "reason"), [(KeyboardInterrupt(), "interrupted"), (OutOfQueries("spent"), "queries")])
def test_an_interrupted_fit_keeps_what_was_learned_and_says_so(error, reason, caplog):
    fit = Fit(fail=(2, error))
    run = fit.run()
    assert "in epoch 2; epoch 1, the best so far, is kept" in caplog.text
    assert run.stopped == reason
    assert len(run.history) == 2
    assert fit.net.weight.item() == pytest.approx(run.history[run.best]["weight"])
    with pytest.raises(type(error)):
        Fit(fail=(0, error)).run()


def test_a_loss_that_is_no_number_is_a_collapse():
    fit = Fit()
    fit.losses = lambda order: iter([fit.net.weight.sum() * float("nan")])
    with pytest.raises(Collapsed, match="loss became nan in epoch 0"):
        fit.run()


def test_small_sets_are_seen_repeatedly_and_large_ones_by_samples():
    assert [Plan(1, 4, 0.1, least_rows=20, most_rows=50).rows(n) for n in (5, 30, 80)] == [20, 30, 50]
    assert Plan(1, 4, 0.1).rows(80) == 80

    rng = torch.Generator().manual_seed(0)
    assert sorted(epoch_order(ROWS, 10, rng).tolist()) == list(range(10))
    assert len(set(epoch_order(ROWS, 4, rng).tolist())) == 4
    many = epoch_order(ROWS, 35, rng)
    assert len(many) == 35
    assert many.bincount().min() >= 3
    assert not torch.equal(epoch_order(ROWS, 10, rng), epoch_order(ROWS, 10, rng))


def test_running_mean_of_weights_lags_behind():
    plain, averaged = Fit(), Fit()
    plain.run(epochs=1)
    averaged.run(epochs=1, average=0.9)
    assert 0 < averaged.net.weight.item() < plain.net.weight.item()


def test_schedules():
    assert SCHEDULES["cosine"](0, 100) == 1
    assert SCHEDULES["cosine"](50, 100) == pytest.approx(0.5)
    assert SCHEDULES["cosine"](200, 100) == pytest.approx(0)
    assert SCHEDULES["released"](25, 100) == pytest.approx(0.99**2)


def test_bad_plans_are_named():
    for plan in ({"epochs": 0}, {"batch_size": 0}, {"lr": -1.0}):
        with pytest.raises(BadSetting, match="wanted more than 0"):
            Fit().run(**plan)
    with pytest.raises(UnknownName, match="schedule 'linear'"):
        Fit().run(schedule="linear")


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_stopped_fit_goes_on_and_ends_the_same(tmp_path, average):
    def fresh(**kwargs):
        torch.manual_seed(3)
        return Fit(**kwargs)

    whole = fresh()
    full = whole.run(epochs=6, average=average)
    fresh(fail=(3, KeyboardInterrupt())).run(epochs=6, average=average, folder=tmp_path)
    second = fresh()
    torch.rand(7)  # a disturbed global generator must not matter
    run = second.run(epochs=6, average=average, folder=tmp_path)
    assert len(second.orders) == 3
    assert run.history == full.history
    assert torch.equal(second.net.weight, whole.net.weight)
    third = fresh()
    assert third.run(epochs=6, average=average, folder=tmp_path).history == full.history
    assert third.orders == []


def test_a_checkpoint_of_another_fit_or_a_damaged_one_is_refused(tmp_path):
    Fit().run(folder=tmp_path)
    with pytest.raises(BadFile, match="other settings, data, features or seed"):
        Fit().run(folder=tmp_path, fingerprint="g")
    file = tmp_path / CHECKPOINT
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadFile, match="damaged, cut off"):
        Fit().run(folder=tmp_path)


SCRIPT = """
import sys, time, json, numpy as np, torch, aimwise
torch.set_num_threads(1)
X = np.random.default_rng(0).normal(size=(120, 4))
def box(x):
    time.sleep(float(sys.argv[2]))
    p = 1 / (1 + np.exp(-x @ np.array([2.0, -1, 0, 0])))
    return np.stack([1 - p, p], 1)
explainer = {recipe}
explainer.fit(box, X, folder=sys.argv[1] or None, seed=5)
print(json.dumps([explainer.history_, explainer.explain(X[:3]).weights.tolist()]))
"""


RECIPES = {
    "default": ("aimwise.AIM(epochs=8, least_rows=256, patience=None)", 0.3),
    "paper": ("aimwise.AIM.paper(epochs=8)", 0.02),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_killed_with_sigkill_and_started_again_ends_with_the_same_weights(tmp_path, recipe):
    code, pause = RECIPES[recipe]
    script, kept = tmp_path / "fit.py", tmp_path / "kept"
    script.write_text(SCRIPT.replace("{recipe}", code))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}

    def start(folder, pause):
        return subprocess.Popen([sys.executable, script, folder, str(pause)], stdout=subprocess.PIPE, env=environment)

    with start(str(kept), pause) as first:
        deadline = time.monotonic() + 60
        while not (kept / CHECKPOINT).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL, "the fit ended before it could be killed"
    with start(str(kept), 0.0) as second, start("", 0.0) as whole:
        got, wanted = json.loads(second.communicate()[0]), json.loads(whole.communicate()[0])
    assert without_queries(got[0]) == without_queries(wanted[0])
    assert got[1] == wanted[1]


def without_queries(history):
    return [{k: v for k, v in numbers.items() if k != "queries"} for numbers in history]
