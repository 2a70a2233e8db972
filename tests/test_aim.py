"""AIM finds what is known to decide, in all its recipes, and owns up when it has not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aimwise
from aimwise.batch import Batch
from aimwise.data import load, zoo
from aimwise.errors import BadSetting, Collapsed, UnknownName
from aimwise.explainers.judge import Judge
from aimwise.training import Run

DECIDES = (4, 9, 17)


def signs(rows=1500, columns=20, seed=0):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(rows, columns))


def two_columns(p):
    return np.stack([1 - p, p], axis=1)


def by_sum(X):
    return two_columns(1 / (1 + np.exp(-2 * X[:, DECIDES].sum(1))))


def by_parity(X):
    return two_columns(np.where(X[:, DECIDES].prod(1) > 0, 0.95, 0.05))


def by_majority(X):
    return two_columns((X[:, DECIDES].sum(1) > 0).astype(float))


def by_switch(X):
    """Column 4 says which of 9 and 17 decides."""
    return two_columns(np.where(np.where(X[:, 4] > 0, X[:, 9], X[:, 17]) > 0, 0.9, 0.1))


def share_found(explanation):
    top = explanation.order(by="size")[:, :3].sort(1).values
    return float((top == torch.tensor(DECIDES)).all(1).float().mean())


@pytest.mark.parametrize(
    ("box", "fill"),
    [
        (by_sum, "background"),
        (by_sum, "mean"),
        (by_majority, "background"),  # under the mean fill the sign of a mean near 0 decides too: three of a kind
        (by_parity, "background"),  # cannot be outvoted, and a parity needs only some of the three
    ],
)
def test_three_of_twenty_columns_that_decide_are_the_top_three(box, fill):
    X = signs()
    explainer = aimwise.AIM().fit(box, X[:1000], features=aimwise.Columns(fill=fill))
    assert share_found(explainer.explain(X[1000:])) >= 0.95


def test_a_switch_is_explained_by_what_it_switches_to():
    X = signs()
    got = aimwise.AIM().fit(by_switch, X[:1000]).explain(X[1000:])
    weights = got.towards()
    on = torch.from_numpy(X[1000:, 4] > 0)
    assert float((weights[on, 9] > weights[on, 17]).float().mean()) > 0.9
    assert float((weights[~on, 17] > weights[~on, 9]).float().mean()) > 0.9


def test_an_empty_input_that_is_like_no_other_does_not_bend_the_weights():
    """Where nothing is left the box says nearly surely the first class; sums do not begin there."""
    worth = torch.randn(50, generator=torch.Generator().manual_seed(1))
    worth[0] = 0

    def by_words(ids):
        total = worth[ids].sum(1)
        return torch.stack([-total, total], 1).div(2).softmax(1).where((ids > 0).any(1)[:, None], torch.tensor([0.999, 0.001]))

    ids = torch.randint(1, 50, (600, 6), generator=torch.Generator().manual_seed(2))
    explainer = aimwise.AIM(epochs=8).fit(aimwise.FunctionBox(by_words), ids[:500], features=aimwise.Tokens())
    got = explainer.explain(ids[500:], check=32)
    assert abs(float(got.base[1] - got.base[0])) < 0.5  # log-odds; of the empty input they are -6.9
    assert float(got.check.agreement.mean()) > 0.9  # one mask in seven keeps nothing
    log_odds = (got.weights[..., 1] - got.weights[..., 0])[got.present]
    torch.testing.assert_close(log_odds, worth[ids[500:]].flatten(), atol=0.5, rtol=0.15)


def test_sums_begin_where_the_way_to_the_whole_input_does():
    """Answers on the straight way from (-1, 1) to the whole input in log-odds, but for those to the masks that keep nothing."""
    z = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 0, 0], [0, 1, 0], [1, 1, 0]]])
    present = torch.tensor([[True, True, True], [True, True, False]])
    whole, begin = torch.tensor([[2.0, -2], [0, 0]]), torch.tensor([-1.0, 1])
    share = z.sum(2) / present.sum(1)[:, None]
    scores = (1 - share[..., None]) * begin + share[..., None] * whole[:, None]
    scores[:, 0] = torch.tensor([5.0, -5])
    judge = Judge(Batch(torch.zeros(2, 3), present, np.zeros(2)), whole.softmax(1), z, scores.softmax(2))
    torch.testing.assert_close(judge.start(torch.zeros(2)), begin.log_softmax(0), atol=0.01, rtol=0)
    empty = dataclasses.replace(judge, z=torch.zeros_like(z))
    assert torch.equal(empty.start(torch.tensor([-3.0, 0])), torch.tensor([-3.0, 0]).log_softmax(0))


def test_a_linear_box_gets_its_own_coefficients(linear, table):
    explainer = aimwise.AIM().fit(linear, table, features=aimwise.Columns(fill="mean"))
    got = explainer.explain(table, check=32)
    log_odds = (got.weights[..., 1] - got.weights[..., 0]).numpy()  # (B, d)
    by_hand = (table - table.mean(0)) * linear.coefficients
    for j in (0, 1, 4):
        assert np.corrcoef(log_odds[:, j], by_hand[:, j])[0, 1] > 0.97
    assert np.abs(log_odds[:, 2:4]).mean() < 0.15 * np.abs(log_odds[:, 0]).mean()
    assert float(got.check.agreement.mean()) > 0.95
    assert float(got.check.without.mean()) < 0.8
    whole = got.additive(torch.ones(len(table), 1, 5)).squeeze(1)
    assert float((whole - got.probs).abs().mean()) < 0.05


def test_a_bad_explanation_says_so(linear, table):
    good = aimwise.AIM().fit(linear, table).explain(table[:50], check=32)
    bad = aimwise.Random().fit(linear, table).explain(table[:50], check=32)
    assert float(good.check.agreement.mean()) > float(bad.check.agreement.mean()) + 0.1
    assert float(bad.check.agreement.mean()) < float(bad.check.without.mean()) + 0.05


RECIPES = {"default": (aimwise.AIM, 0.95), "paper": (aimwise.AIM.paper, 0.85), "released": (aimwise.AIM.released, 0.5)}


@pytest.mark.parametrize("recipe", RECIPES)
def test_in_every_recipe_the_top_column_speaks_for_the_prediction(recipe, linear, table):
    make, share = RECIPES[recipe]  # the released networks do not know which column a value stands in
    got = make().fit(linear, table, features=aimwise.Columns(fill="mean")).explain(table)
    direction = np.where(got.prediction.numpy() == 1, 1, -1)[:, None]
    speaks = (table - table.mean(0)) * linear.coefficients * direction
    assert float((speaks[np.arange(240), got.order()[:, 0]] > 0).mean()) > share


@pytest.mark.parametrize("masks", ["concrete", "concrete_released", "hard", "straight_through", "uniform"])
@pytest.mark.parametrize("target", ["soft", "hard"])
def test_every_way_to_draw_masks_trains(masks, target, linear, table):
    quick = aimwise.AIM(masks=masks, target=target, epochs=4, least_rows=512, masks_per_row=2, exploration=0.5)
    got = quick.fit(linear, table)
    assert got.history_[got.best_epoch_]["tracking"] > 0.3


def test_recipes_are_what_they_are_called():
    paper, released = aimwise.AIM.paper(alpha=1.8, beta=1e-4, tau=0.5), aimwise.AIM.released()
    assert (paper.alpha, paper.beta, paper.tau, paper.masks, paper.target) == (1.8, 1e-4, 0.5, "concrete", "hard")
    assert (released.masks, released.loss, released.norm, released.networks) == ("concrete_released",) + ("released",) * 3
    assert released.selector_learns_from == "both"
    assert not paper.intercept
    assert "alpha=1.8" in repr(paper)
    assert repr(aimwise.AIM()) == "AIM()"


def test_history_tells_the_epochs(linear, table):
    explainer = aimwise.AIM(epochs=3, least_rows=256).fit(linear, table)
    assert len(explainer.history_) == 3
    assert set(explainer.history_[0]) == {"epoch", "loss", "agreement", "without", "tracking", "variation", "queries"}
    assert explainer.stopped_ == "epochs"
    assert explainer.queries_ == sum(linear.rows)
    assert explainer.fit_seconds_ > 0


@pytest.mark.parametrize("most", [1_500, 10_000, 40_000])
def test_a_small_budget_is_used_and_kept(most, linear, table):
    explainer = aimwise.AIM().fit(linear, table, max_queries=most)
    assert 0.8 * most <= sum(linear.rows) <= most
    got = explainer.explain(table, check=16).check
    assert float(got.agreement.mean()) > float(got.without.mean()) + (0.02 if most < 10_000 else 0.1)


def test_a_budget_that_ends_in_the_middle_keeps_what_was_learned(linear, table):
    explainer = aimwise.AIM.paper().fit(linear, table, max_queries=20_000)
    assert explainer.stopped_ == "queries"
    assert sum(linear.rows) <= 20_000
    assert len(explainer.explain(table, check=2)) == 240


def test_the_paper_to_the_letter_collapses_and_the_recipe_does_not():
    data = load("wine")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data.train.inputs, data.train.labels)
    sound = aimwise.AIM.paper(epochs=10)
    for literal in ({"exploration": 0.0}, {"exploration": 0.0, "selector_learns_from": "both"}):
        with pytest.raises(Collapsed, match=r"selector keeps everything .* raise exploration"):
            dataclasses.replace(sound, **literal).fit(model, data.train.inputs)
    sound.fit(model, data.train.inputs)
    assert 0.3 < sound.history_[sound.best_epoch_]["selected"] < 0.8


def test_weights_pressed_to_nothing_are_a_collapse(linear, table):
    with pytest.raises(Collapsed, match=r"same weight|do not follow"):
        aimwise.AIM(beta=1e3, epochs=5, least_rows=512).fit(linear, table)


def test_a_box_that_no_row_can_foretell_is_a_collapse(table):
    noise = np.random.default_rng(0)
    with pytest.raises(Collapsed, match="do not follow the black box"):
        aimwise.AIM(epochs=2, least_rows=256).fit(lambda x: two_columns(noise.random(len(x))), table)


def judge(said_varies=True):
    probs = torch.tensor([[0.2, 0.8]]).expand(8, 2)
    said = torch.rand(8, 32, 1, generator=torch.Generator().manual_seed(0)) if said_varies else torch.full((8, 32, 1), 0.5)
    batch = aimwise.Columns().fit(np.eye(8, 4)).encode(np.eye(8, 4))
    return Judge(batch, probs, torch.ones(8, 32, 4), torch.cat([1 - said, said], -1))


GOOD = {"loss": 0.5, "agreement": 0.9, "tracking": 0.8, "variation": 1.0, "selected": 0.5}


@pytest.mark.parametrize(
    ("sign", "message"),
    [
        ({"selected": 0.001}, "keeps nothing"),
        ({"selected": 0.999}, "keeps everything"),
        ({"variation": 1e-6}, "same weight"),
        ({"tracking": 0.02}, "do not follow"),
    ],
)
def test_each_sign_of_a_collapse_is_seen(sign, message):
    with pytest.raises(Collapsed, match=message):
        judge().refuse_collapse(Run(history=[GOOD | sign], best=0))
    judge().refuse_collapse(Run(history=[GOOD], best=0))
    judge(said_varies=False).refuse_collapse(Run(history=[GOOD | sign], best=0))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"masks": "gumbel"}, UnknownName, "no masks 'gumbel'"),
        ({"target": "logits"}, UnknownName, "no target 'logits'"),
        ({"networks": "huge"}, UnknownName, "networks for table 'huge'"),
        ({"selector_learns_from": "nothing"}, UnknownName, "selector_learns_from"),
        ({"masks_per_row": 0}, BadSetting, "masks_per_row=0"),
        ({"tau": 0.0}, BadSetting, "tau=0.0"),
        ({"epochs": 0}, BadSetting, "epochs=0"),
        ({"device": "abacus"}, BadSetting, "device='abacus'"),
    ],
)
def test_bad_settings_are_named(settings, error, message, linear, table):
    with pytest.raises(error, match=message):
        aimwise.AIM(**settings).fit(linear, table)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["breast_cancer", "wine", "planted"])
@pytest.mark.parametrize("seed", range(5))
def test_the_paper_recipe_does_not_collapse_on_the_demo_sets(name, seed):
    data = load(name)
    explainer = aimwise.AIM.paper().fit(zoo.random_forest(data), data.train.inputs, seed=seed)
    assert explainer.history_[explainer.best_epoch_]["tracking"] > 0.3
