"""The methods that train networks: Shapley values by enumeration, planted features, and the parts they are made of."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
import torch

import aimwise
from aimwise.errors import BadSetting, Collapsed, UnknownName
from aimwise.explainers.judge import held_out
from aimwise.explainers.realx import steadied
from aimwise.explainers.selecting import divergence, variation
from aimwise.explainers.vibi import from_uniform
from aimwise.features import Columns, Patches, Words
from aimwise.features.words import TextLayout
from aimwise.nn import sampling
from aimwise.nn.rivals import RecurrentTextApproximator, RecurrentTextLogits

SELECTING = ("l2x", "vibi", "invase", "realx")
LEARNED = (*SELECTING, "fastshap")
SETTINGS = {"l2x": {"k": 2}, "vibi": {"k": 2}, "invase": {"lam": 0.2}, "realx": {"lam": 0.2}, "fastshap": {"masks_per_row": 4}}
WORDS = ["the", "film", "was", "seen", "by", "many", "people", "in", "a", "town", "near", "here"]


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def sure(yes):
    """Probabilities of a box that is 95 % sure."""
    p = np.where(yes, 0.95, 0.05)
    return np.stack([1 - p, p], 1)


def columns_box(x):
    return sure((np.asarray(x)[:, 2] > 0) ^ (np.asarray(x)[:, 5] > 0))


def words_box(texts):
    return sure(np.array(["great" in t.split() for t in texts]))


def patch_box(images):
    return sure(np.asarray(images)[:, :4, 4:].mean((1, 2)) > 0.5)


def table_data(n):
    return np.random.default_rng(n).normal(size=(n, 8))


def text_data(n):
    rng = np.random.default_rng(n)
    texts = []
    for i in range(n):
        words = list(rng.choice(WORDS, rng.integers(5, 12)))
        words[rng.integers(len(words))] = ("great", "awful")[i % 2]
        texts.append(" ".join(words))
    return texts


def image_data(n):
    return (
        np.random.default_rng(n).random((n, 8, 8)).astype(np.float32) * 0.6
        + np.random.default_rng(n + 1).integers(0, 2, (n, 2, 2)).repeat(4, 1).repeat(4, 2).astype(np.float32) * 0.4
    )


KINDS = {
    "table": (columns_box, table_data, Columns),
    "text": (words_box, text_data, lambda: Words(buckets=64)),
    "image": (patch_box, image_data, lambda: Patches(4)),
}


def planted(kind, data, present):
    """Which features decide: (n, d)."""
    truth = torch.zeros(present.shape)
    if kind == "table":
        truth[:, [2, 5]] = 1
    elif kind == "image":
        truth[:, 1] = 1
    else:
        for i, text in enumerate(data):
            truth[i, next(j for j, w in enumerate(text.split()) if w in ("great", "awful"))] = 1
    return truth


FOUND = {  # how long it takes to find the planted features
    "l2x": {"table": {"epochs": 8}, "text": {"k": 1, "epochs": 5}, "image": {"k": 1, "epochs": 8}},
    "vibi": {"table": {"epochs": 10}, "text": {"k": 1, "epochs": 5}, "image": {"k": 1, "epochs": 8}},
    "invase": {"table": {"epochs": 12}, "text": {"epochs": 6, "lr": 2e-3}, "image": {"epochs": 8, "lr": 2e-3}},
    "realx": {"table": {"epochs": 8}, "text": {"epochs": 8, "lam": 0.5}, "image": {"epochs": 8}},
}
SMALL = {"least_rows": 512, "batch_size": 32}  # for networks that take longer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SELECTING)
def test_planted_features_are_found(name, kind):
    box, make, features = KINDS[kind]
    data, new = make(1500 if kind == "table" else 500), make(200)
    settings = SETTINGS[name] | FOUND[name][kind] | (SMALL if kind != "table" else {})
    method = aimwise.METHODS[name](**settings)
    got = method.fit(box, data, features=features(), seed=0).explain(new)
    truth = planted(kind, new, got.present)
    first = got.order()[:, : int(truth[0].sum())]
    assert float(truth.gather(1, first).mean()) > 0.95
    if name in ("invase", "realx"):
        selected = ((got.towards() > 0) & got.present).float()
        assert float(truth.mul(selected).sum() / selected.sum()) > 0.9
        assert float(truth.mul(selected).sum() / truth.sum()) > 0.9


def quick(name, **more):
    return aimwise.METHODS[name](**({"epochs": 2, "least_rows": 128, "batch_size": 64} | SETTINGS[name] | more))


def tolerant(method, *args, **more):
    """A fit of two epochs, of which nobody asks that it found anything."""
    if isinstance(method, aimwise.explainers.selecting.Selecting):
        method._refuse_collapse = lambda run: None
    return method.fit(*args, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_fastshap_adds_up_to_what_the_input_changes(kind):
    box, make, features = KINDS[kind]
    got = quick("fastshap").fit(box, make(120), features=features(), seed=1).explain(make(60))
    torch.testing.assert_close(got.weights.sum(1), got.probs - got.base.softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "more"), [*((name, {}) for name in LEARNED), ("fastshap", {"surrogate": True})])
@pytest.mark.parametrize("stop", [1, 3])
def test_a_fit_that_was_killed_goes_on_to_the_same_weights(name, more, stop, tmp_path, monkeypatch):
    data = table_data(100)
    whole = tolerant(quick(name, epochs=3, **more), columns_box, data, seed=4).explain(data[:5]).weights
    saved, saves = aimwise.training._State.save, []

    def killed(self, *args):
        saved(self, *args)
        saves.append(1)
        if len(saves) == stop:
            raise SystemExit

    monkeypatch.setattr(aimwise.training._State, "save", killed)
    with pytest.raises(SystemExit):
        tolerant(quick(name, epochs=3, **more), columns_box, data, seed=4, folder=tmp_path)
    monkeypatch.undo()
    again = tolerant(quick(name, epochs=3, **more), columns_box, data, seed=4, folder=tmp_path)
    assert torch.equal(again.explain(data[:5]).weights, whole)
    assert (tmp_path / "predictor").is_dir() == (name == "realx" or "surrogate" in more)


def shapley(value, d):
    """Shapley values by their definition; value: mask -> (C,)."""
    masks = {m: value(np.array(m, dtype=float)) for m in product((0, 1), repeat=d)}
    out = np.zeros((d, len(masks[(0,) * d])))
    for m, v in masks.items():
        s = sum(m)
        for i in range(d):
            if not m[i]:
                out[i] += (masks[(*m[:i], 1, *m[i + 1 :])] - v) / (d * comb(d - 1, s))
    return out


def curved(x):
    x = np.asarray(x)
    score = np.stack([x[:, 0] * x[:, 1], np.abs(x[:, 2]) + x[:, 3], np.sin(2 * x[:, 4]) - x[:, 5] * (x[:, 0] > 0)], 1)
    return np.exp(score) / np.exp(score).sum(1, keepdims=True)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_fastshap_is_near_the_exact_shapley_values(link):
    data = np.random.default_rng(0).normal(size=(3000, 6))
    method = aimwise.METHODS["fastshap"](link=link, epochs=10, patience=None)
    got = method.fit(curved, data, features=Columns(fill="mean"), seed=0).explain(data[:40])
    mean = data.mean(0)

    def value_of(row):
        def value(m):
            p = curved((m * row + (1 - m) * mean)[None])[0]
            return p if link == "identity" else np.log(p) - np.log(p).mean()

        return value

    want = np.stack([shapley(value_of(row), 6) for row in data[:40]])
    assert np.corrcoef(got.weights.numpy().ravel(), want.ravel())[0, 1] > 0.98
    assert np.abs(got.weights.numpy() - want).mean() < 0.15 * np.abs(want).mean()


def test_fastshap_with_a_surrogate_asks_about_whole_inputs_alone():
    rows = []

    def box(x):
        rows.append(len(x))
        return columns_box(x)

    data = table_data(400)
    method = aimwise.METHODS["fastshap"](surrogate=True, epochs=3, least_rows=512).fit(box, data, seed=0)
    assert sum(rows) == 400 + 256  # whole inputs, and empty ones, where every explanation starts from
    got = method.explain(data[:50])
    torch.testing.assert_close(got.weights.sum(1), got.probs - got.base.softmax(-1), atol=1e-5, rtol=0)


def test_shapley_masks_have_the_sizes_of_the_kernel_and_come_in_pairs():
    present = torch.ones(4000, 5, dtype=torch.bool)
    present[:, 4] = False  # four features
    z = sampling.shapley_masks(present, 4, gen())
    torch.testing.assert_close(z[:, 2:], present[:, None].float() - z[:, :2])
    sizes = z.sum(-1).flatten().long().bincount(minlength=6) / 16000
    weight = torch.tensor([0, 1 / 3, 1 / 4, 1 / 3, 0, 0])
    torch.testing.assert_close(sizes, weight / weight.sum(), atol=0.01, rtol=0)
    torch.testing.assert_close(z.mean((0, 1)), torch.tensor([0.5, 0.5, 0.5, 0.5, 0.0]), atol=0.01, rtol=0)
    for n in (0, 1):
        lone = torch.zeros(3, 5, dtype=torch.bool)
        lone[:, :n] = True
        assert (sampling.shapley_masks(lone, 2, gen())[:, 0] == lone).all()


def test_relaxed_draws_of_k_features():
    logits = torch.tensor([[4.0, 0.0, 0.0, 9.0]]).expand(5000, -1)
    present = torch.tensor([[True, True, True, False]]).expand(5000, -1)
    z = sampling.gumbel_top(logits, present, 1, 0.01, gen())
    assert (z[:, 3] == 0).all()
    torch.testing.assert_close(z.round().mean(0)[:3], logits[0, :3].softmax(0), atol=0.015, rtol=0)
    assert (sampling.gumbel_top(logits, present, 2, 0.01, gen()).sum(1) < 2.01).all()
    assert sampling.top(logits[:1], present[:1], 2).sum() == 2
    assert sampling.top(logits[:1], present[:1], 1)[0, 0] == 1
    assert (sampling.gumbel_top(logits[:2], torch.zeros(2, 4, dtype=torch.bool), 1, 0.1, gen()) == 0).all()


def test_rebar_is_unbiased_and_steadier_than_the_score_function():
    logits = torch.tensor([0.3, -0.7, 1.0])
    f = lambda z: (z @ torch.tensor([1.0, -2.0, 0.5]) + z[:, 0] * z[:, 1] - 0.3).square()  # noqa: E731
    exact = torch.zeros(3)
    pi = logits.sigmoid()
    for m in product((0.0, 1.0), repeat=3):
        b = torch.tensor(m)
        p = torch.where(b > 0, pi, 1 - pi).prod()
        exact += p * f(b[None])[0] * (b - pi)
    n = 60_000
    leaf = logits.expand(n, 3).clone().requires_grad_()
    z, soft, again = sampling.rebar(leaf.sigmoid(), 0.5, gen())
    torch.testing.assert_close(z.mean(0), pi, atol=0.01, rtol=0)
    assert ((again > 0.5) == (z > 0.5)).all()
    likely = (torch.nn.functional.logsigmoid(leaf) * z + torch.nn.functional.logsigmoid(-leaf) * (1 - z)).sum(1)
    steadied(f(z), f(soft), f(again), likely).sum().backward()
    torch.testing.assert_close(leaf.grad.mean(0), exact, atol=0.02, rtol=0)
    plain = f(z)[:, None] * (z - pi)
    assert (leaf.grad.std(0) < plain.std(0)).all()


def test_divergences_by_hand():
    probs, scores = torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[0.0, float(np.log(3.0))], [2.0, 2.0]])
    want = [0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75), np.log(2.0)]
    torch.testing.assert_close(divergence(probs, scores), torch.tensor(want, dtype=torch.float32))
    present = torch.tensor([[True, True, False], [True, True, True]])
    even = from_uniform(torch.tensor([[1.0, 1.0, 9.0], [50.0, 0.0, 0.0]]), present)
    torch.testing.assert_close(even, torch.tensor([0.0, np.log(3.0)], dtype=torch.float32), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SELECTING)
def test_a_constant_box_is_an_ordinary_case(name):
    got = quick(name).fit(lambda x: np.tile([0.3, 0.7], (len(x), 1)), table_data(60)).explain(table_data(5))
    assert (got.weights == 0).all()


def test_a_selector_that_selects_nothing_is_reported():
    with pytest.raises(Collapsed, match=r"selects nothing.*Lower lam"):
        quick("invase", lam=50.0, epochs=6, lr=1e-2).fit(columns_box, table_data(200))


def test_a_selector_that_ranks_nothing_is_reported(monkeypatch):
    monkeypatch.setattr(
        aimwise.nn.rivals.TableLogits, "forward", lambda self, x: self.head(self.dense(self.cells(x).flatten(1))) * 0
    )
    with pytest.raises(Collapsed, match="same weight"):
        quick("l2x").fit(columns_box, table_data(100))


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("l2x", {"k": 0}, BadSetting, "k=0, wanted at least 1"),
        ("l2x", {"tau": 0.0}, BadSetting, "tau=0.0, wanted more than 0"),
        ("vibi", {"beta": -1.0}, BadSetting, "beta=-1.0"),
        ("vibi", {"approximator": "gru"}, UnknownName, "no approximator 'gru'; known: lstm, cnn"),
        ("invase", {"lam": -0.1}, BadSetting, "lam=-0.1"),
        ("realx", {"tau": -1.0}, BadSetting, "tau=-1.0"),
        ("fastshap", {"link": "log"}, UnknownName, "no link 'log'; known: identity, logit"),
        ("fastshap", {"masks_per_row": 0}, BadSetting, "masks_per_row=0"),
    ],
)
def test_bad_settings_are_named(name, settings, error, message):
    with pytest.raises(error, match=message):
        aimwise.METHODS[name](**settings).fit(columns_box, table_data(20))


def test_the_other_approximator_of_texts_and_a_text_without_words():
    method = tolerant(quick("vibi", approximator="cnn"), words_box, text_data(80), seed=0)
    assert torch.isfinite(method.explain(["", "great film"]).weights).all()


def test_held_out_rows_are_not_learned_from():
    out, rest = held_out(100, gen())
    assert sorted([*out.tolist(), *rest.tolist()]) == list(range(100))
    assert len(out) == 16


def test_vibis_recurrent_networks_read_texts_as_packed_ones_would():
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.manual_seed(0)
    x = torch.randint(1, 30, (7, 12))
    x[torch.arange(12) >= torch.tensor([12, 1, 5, 3, 9, 2, 7])[:, None]] = 0
    lengths, z = (x > 0).sum(1), torch.rand(7, 12)

    def packed(lstm, words):
        given = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(lstm(given)[0], batch_first=True, total_length=12)[0]

    logits, guess = RecurrentTextLogits(TextLayout(30)), RecurrentTextApproximator(TextLayout(30), 3)
    both = torch.nn.LSTM(100, 25, batch_first=True, bidirectional=True)
    back = {f"{name}_reverse": value for name, value in logits.back.state_dict().items()}
    both.load_state_dict({**logits.forth.state_dict(), **back})
    wanted = logits.head(packed(both, logits.embedding(x))).squeeze(-1)
    torch.testing.assert_close(logits(x)[x > 0], wanted[x > 0])
    seen = packed(guess.lstm, guess.embedding(x) * z[..., None])
    torch.testing.assert_close(guess(x, z), guess.head(seen.amax(1)))


def test_the_variation_of_weights_is_that_of_single_inputs():
    weights, present = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)), torch.rand(20, 6) < 0.5
    slow = max(float(w[there].std()) for w, there in zip(weights, present, strict=True) if there.sum() > 1)
    assert variation(weights, present) == pytest.approx(slow, abs=1e-6)
    assert variation(weights, torch.eye(20, 6, dtype=torch.bool)) == 1.0
