"""The rivals that need no gradients and train no networks, against oracles; what all methods keep to is in test_contract."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
import torch

import aimwise
from aimwise.errors import BadFeatures, BadSetting, MissingExtra, UnknownName
from aimwise.explainers.lime import PAPER_KERNEL_WIDTH, PAPER_SAMPLES, places_left

SLOPES = np.array([3.0, -2.0, 1.2, 0.6, -0.3])
MEANING = {"good": 1.6, "fine": 0.8, "odd": -0.5, "bad": -1.5, "worst": -2.4}
FILLER = [f"word{i}" for i in range(12)]


def softmaxed(scores):
    positive = 1 / (1 + np.exp(-np.asarray(scores)))
    return np.stack([1 - positive, positive], 1)


def rows_box(x):
    return softmaxed(np.asarray(x) @ SLOPES)


def words_box(texts):
    return softmaxed([sum(MEANING.get(w, 0.0) for w in text.split()) for text in texts])


LIGHT = np.random.default_rng(7).normal(size=(8, 8))


def image_box(images):
    return softmaxed((np.asarray(images) * LIGHT).sum((1, 2)) / 4)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(300, 5))


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(1)
    bag = [*MEANING, *FILLER]
    return [" ".join(rng.choice(bag, size=rng.integers(3, 12))) for _ in range(300)]


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(2).random((40, 8, 8)).astype(np.float32)


def ranks_agree(found, true, least):
    """How like two orders are, from -1 to 1."""
    order = lambda v: np.argsort(np.argsort(np.asarray(v)))  # noqa: E731
    assert np.corrcoef(order(found), order(true))[0, 1] >= least - 1e-9


PER_INPUT = {"lime": {"samples": 600}, "kernel_shap": {}, "occlusion": {}}


@pytest.mark.parametrize("name", PER_INPUT)
def test_a_linear_model_on_a_table_gets_its_coefficients_order(name, rows):
    method = aimwise.METHODS[name](**PER_INPUT[name])
    # LIME draws cells by quartile, so the row must stand outside the middle; the others compare it with the column means, 0
    row = np.full((1, 5), 1.5)
    got = method.fit(rows_box, rows * 0.3, features=aimwise.Columns(fill="mean")).explain(row * 0.3)
    ranks_agree(got.weights[0, :, 1], SLOPES, 1.0)
    torch.testing.assert_close(got.weights[..., 0], -got.weights[..., 1], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", PER_INPUT)
def test_a_bag_of_words_gets_its_coefficients_order(name, texts):
    words = ["word1", *MEANING]
    got = aimwise.METHODS[name](**PER_INPUT[name]).fit(words_box, texts).explain([" ".join(words), "good bad", ""])
    ranks_agree(got.weights[0, : len(words), 1], [MEANING.get(w, 0.0) for w in words], 1.0)
    assert got.weights[1, 0, 1] > 0 > got.weights[1, 1, 1]
    assert not got.weights[1, 2:].any()
    assert not got.weights[2].any()


@pytest.mark.parametrize("name", PER_INPUT)
def test_a_linear_model_on_images_gets_its_coefficients_order(name, images):
    features = aimwise.Patches(2, fill="zero")
    got = aimwise.METHODS[name](**PER_INPUT[name]).fit(image_box, images, features=features).explain(images[:2])
    true = (images[:2] * LIGHT).reshape(2, 4, 2, 4, 2).sum((2, 4)).reshape(2, 16)
    for i in range(2):
        ranks_agree(got.weights[i, :, 1], true[i], 0.99 if name != "lime" else 0.9)


def test_lime_on_token_ids_weighs_tokens_that_are_there(texts):
    ids = np.array([[0, 1, 2, 3], [4, 3, 0, 0], [1, 1, 4, 0]])  # 0 is padding, also in front

    def box(x):
        return softmaxed((np.asarray(x) == 1).sum(1) * 2.0 - (np.asarray(x) == 3).sum(1))

    got = aimwise.METHODS["lime"](samples=300).fit(box, ids, features=aimwise.Tokens()).explain(ids)
    assert got.weights[0, 1, 1] > 0.1 > 0.05 > got.weights[0, 2, 1].abs()
    assert got.weights[0, 3, 1] < -0.05
    assert not got.weights[~got.present].any()


def test_lime_reads_off_what_is_left():
    np.testing.assert_array_equal(places_left(["0 1 2", " 1 ", "  ", "0  2"], 3), [[1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1]])


def test_lime_is_the_package_itself(rows, texts):
    """The same weights as a call of lime by hand."""
    from lime.lime_tabular import LimeTabularExplainer
    from lime.lime_text import LimeTextExplainer

    got = aimwise.METHODS["lime"](samples=200).fit(rows_box, rows, seed=5).explain(rows[:2])
    for i in range(2):
        theirs = LimeTabularExplainer(rows, feature_selection="none", random_state=5)
        if i == 0:  # whose generator is fresh then
            found = theirs.explain_instance(rows[i], rows_box, labels=(0, 1), num_features=5, num_samples=200).as_map()[1]
            np.testing.assert_allclose(got.weights[i, [j for j, _ in found], 1], [w for _, w in found], atol=1e-6)
    text = "good odd bad word1 fine"
    got = aimwise.METHODS["lime"](samples=200, kernel_width=20.0).fit(words_box, texts, seed=5).explain([text])
    theirs = LimeTextExplainer(kernel_width=20, feature_selection="none", random_state=5)
    found = dict(theirs.explain_instance(text, words_box, num_features=5, num_samples=200).as_list())
    np.testing.assert_allclose(got.weights[0, :, 1], [found[w] for w in text.split()], atol=1e-6)
    assert PAPER_KERNEL_WIDTH["imdb"] == 20
    assert PAPER_SAMPLES == 5000


def test_lime_keeps_groups_together_and_takes_frames_with_everything_missing_somewhere(frame):
    def box(x):
        return softmaxed((x["text"] == "a").to_numpy() * 2.0 + (x["whole"] > 4).to_numpy() * 1.0)

    features = aimwise.Columns(groups={"both": ["text", "whole"]})
    got = aimwise.METHODS["lime"](samples=300).fit(box, frame, features=features).explain(frame.head(12))
    apart = aimwise.METHODS["lime"](samples=300).fit(box, frame).explain(frame.head(12))
    assert torch.isfinite(got.weights).all()
    alone = apart.weights[:, [apart.names.index("text"), apart.names.index("whole")]].sum(1)
    torch.testing.assert_close(got.weights[:, got.names.index("both")], alone)
    others = [i for i, n in enumerate(got.names) if n != "both"]
    assert float(got.weights[:, others].abs().mean()) < 0.2 * float(alone.abs().mean())


def gated(z):
    """A nonlinear box over three classes that knows which of its columns are there."""
    x = np.asarray(z)
    scores = np.stack([x[:, 0] * x[:, 1], np.abs(x[:, 2] - x[:, 3]) + x[:, 4] * x[:, 5], x.sum(1) ** 2 / 8], 1)
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def exact_shapley(worth, d):
    """Shapley values by going through every coalition."""
    masks = np.array(list(itertools.product((0, 1), repeat=d)))
    value = {tuple(m): v for m, v in zip(masks, worth(masks), strict=True)}
    out = np.zeros((d, len(next(iter(value.values())))))
    for mask in masks:
        size = int(mask.sum())
        for j in np.flatnonzero(mask == 0):
            more = mask.copy()
            more[j] = 1
            weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            out[j] += weight * (value[tuple(more)] - value[tuple(mask)])
    return out


@pytest.mark.parametrize(("via", "link", "samples", "far"), [
    ("shap", "identity", None, 2e-6),
    ("shap", "logit", None, 2e-5),
    ("captum", "identity", 4000, 0.02),
])  # fmt: skip
def test_kernel_shap_gives_the_exact_shapley_values(via, link, samples, far):
    rng = np.random.default_rng(3)
    data, row = rng.normal(size=(200, 7)), rng.normal(size=(1, 7)) * 1.5
    method = aimwise.METHODS["kernel_shap"](via=via, link=link, samples=samples)
    got = method.fit(gated, data, features=aimwise.Columns(fill="mean")).explain(row)

    def worth(mask):
        p = gated(np.where(mask, row, data.mean(0)))
        return np.log(p / (1 - p)) if link == "logit" else p

    np.testing.assert_allclose(got.weights[0].numpy(), exact_shapley(worth, 7), atol=far)


def test_kernel_shap_asks_no_coalition_twice_and_only_about_what_is_there(texts):
    method = aimwise.METHODS["kernel_shap"](via="captum", samples=300).fit(words_box, texts)
    before = method.box_.meter.queries
    got = method.explain(["good bad odd", "fine", ""])
    assert method.box_.meter.queries - before <= 3 + 7 + 1
    p = words_box(["fine", ""])
    np.testing.assert_allclose(got.weights[1, 0], p[0] - p[1], atol=1e-6)


def test_kernel_shap_averages_a_random_fill_until_values_are_steady(rows):
    first, second = (aimwise.METHODS["kernel_shap"]().fit(rows_box, rows, seed=s).explain(rows[:8]).weights for s in (0, 1))
    assert float((first - second).abs().mean()) < 0.02
    once = aimwise.METHODS["kernel_shap"](draws=1).fit(rows_box, rows).explain(rows[:8]).weights
    assert float((first - once).abs().mean()) > 0.03


def test_occlusion_is_what_a_class_loses_and_asks_about_present_features_alone(texts):
    method = aimwise.METHODS["occlusion"]().fit(words_box, texts)
    before = method.box_.meter.queries
    got = method.explain(["good bad", "odd good fine word1", ""])
    assert method.box_.meter.queries - before == 3 + 6
    p = words_box(["good bad", "bad", "good"])
    np.testing.assert_allclose(got.weights[0, :2], p[0] - p[1:], atol=1e-6)
    odds = aimwise.METHODS["occlusion"](scale="log_odds").fit(words_box, texts).explain(["odd good fine word1"])
    np.testing.assert_allclose(odds.weights[0, :, 1], [MEANING["odd"], MEANING["good"], MEANING["fine"], 0], atol=1e-4)


def test_a_lexicon_recovers_the_words_of_a_bag(texts):
    words = ["word1", *MEANING]
    got = aimwise.METHODS["lexicon"](penalty=1e-5).fit(words_box, texts).explain([" ".join(words), "bad bad"])
    # a word adds w to the log-odds of one class and takes it from the other: half of it each
    np.testing.assert_allclose(2 * got.weights[0, :6, 1], [MEANING.get(w, 0.0) for w in words], atol=0.05)
    assert float(got.weights[1, 0, 1]) == float(got.weights[1, 1, 1])
    chosen = aimwise.METHODS["lexicon"]().fit(words_box, texts).explain([" ".join(words)])
    ranks_agree(chosen.weights[0, :, 1], [MEANING.get(w, 0.0) for w in words], 1.0)


def test_a_lexicon_of_columns_weighs_numbers_and_levels(frame):
    def box(x):
        return softmaxed((x["text"] == "a").to_numpy() * 2.0 + x["number"].fillna(0).to_numpy())

    got = aimwise.METHODS["lexicon"](penalty=1e-4).fit(box, frame).explain(frame.iloc[20:40])
    number, text = (2 * got.weights[:, got.names.index(n), 1].numpy() for n in ("number", "text"))
    assert np.corrcoef(number, frame["number"][20:40])[0, 1] > 0.999
    is_a = (frame["text"][20:40] == "a").to_numpy()
    assert abs((text[is_a].mean() - text[~is_a].mean()) - 2) < 0.1


def test_maple_finds_the_column_that_counts_here():
    rng = np.random.default_rng(4)
    data = rng.uniform(-1, 1, size=(600, 4))

    def box(x):  # left of 0 the second column counts, right of it the third
        return softmaxed(np.where(np.asarray(x)[:, 0] < 0, 2 * x[:, 1], -2 * x[:, 2]))

    here = np.array([[-0.5, 0.8, 0.8, 0.8], [0.5, 0.8, 0.8, 0.8], [-0.5, -0.8, 0.8, 0.8], [0.5, 0.8, -0.8, 0.8]])
    got = aimwise.METHODS["maple"](trees=50).fit(box, data).explain(here).weights[..., 1]
    assert got[:, 1:].abs().argmax(1).tolist() == [0, 1, 0, 1]
    assert got[0, 1] > 0.03 > -0.03 > got[2, 1]
    assert got[3, 2] > 0.03 > -0.03 > got[1, 2]


def test_maple_is_a_ridge_regression_weighted_by_shared_leaves():
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(6)
    data = rng.normal(size=(200, 3)).astype(np.float32)

    def box(x):
        return softmaxed(np.asarray(x)[:, 0] * np.asarray(x)[:, 1])

    method = aimwise.METHODS["maple"](trees=12, least_leaf=5).fit(box, data)
    rows, target, kept = method.rows_, method.target_, method.kept_
    forest = RandomForestRegressor(12, min_samples_leaf=5, max_features=0.5, random_state=0).fit(rows, target[:, 0])
    np.testing.assert_array_equal(method.forest_.leaves(rows) - method.forest_.roots, forest.apply(rows))
    scaled = method.box_.features.encode(data[:3]).x.numpy()
    got = method.explain(data[:3]).weights[..., 1]
    for i in range(3):
        same = forest.apply(scaled[i : i + 1]) == forest.apply(rows)  # (N, trees)
        weight = (same / same.sum(0)).mean(1)
        fitted = Ridge(alpha=method.ridge).fit(rows[:, kept], target[:, 1], sample_weight=weight)
        true = np.zeros(3)
        true[kept] = fitted.coef_ * (scaled[i, kept] - weight @ rows[:, kept])
        np.testing.assert_allclose(got[i], true, atol=1e-6)


def test_maple_on_bags_of_words(texts):
    got = aimwise.METHODS["maple"](trees=50).fit(words_box, texts).explain(["good word1 word2 bad", "worst worst never-seen"])
    ranks_agree(got.weights[0, [0, 3], 1], [1, -1], 1.0)
    assert got.weights[0, 0, 1] > 0.02 > -0.02 > got.weights[0, 3, 1]
    assert float(got.weights[1, 0, 1]) == float(got.weights[1, 1, 1]) < -0.02
    assert not got.weights[1, 2].any()


def test_the_inverse_is_the_reverse(rows, tmp_path):
    other = aimwise.METHODS["lexicon"](penalty=1e-3).fit(rows_box, rows).explain(rows[:9])
    inverse = aimwise.METHODS["inverse"](of="lexicon", settings={"penalty": 1e-3}).fit(rows_box, rows)
    got = inverse.explain(rows[:9])
    assert torch.equal(got.weights, -other.weights)
    assert got.method == "inverse"
    inverse.save(tmp_path / "inverse")
    assert torch.equal(aimwise.load(tmp_path / "inverse", rows_box).explain(rows[:9]).weights, got.weights)
    with pytest.raises(UnknownName, match=r"no method 'lexikon'.*Did you mean 'lexicon'"):
        aimwise.METHODS["inverse"](of="lexikon").fit(rows_box, rows)


def test_the_inverse_refuses_what_the_other_refuses(images):
    with pytest.raises(BadFeatures, match="Choose another method"):
        aimwise.METHODS["inverse"](of="lexicon").fit(lambda x: pytest.fail("asked"), images, features=aimwise.Patches(2))


def test_the_inverse_of_a_learned_method_learns_and_is_saved(rows, tmp_path):
    settings = {"epochs": 2, "least_rows": 128, "masks_per_row": 2}
    aim = aimwise.AIM(**settings).fit(rows_box, rows, seed=3).explain(rows[:5])
    inverse = aimwise.METHODS["inverse"](of="aim", settings=settings).fit(rows_box, rows, seed=3)
    assert torch.equal(inverse.explain(rows[:5]).weights, -aim.weights)
    inverse.save(tmp_path / "i")
    assert torch.equal(aimwise.load(tmp_path / "i", rows_box).explain(rows[:5]).weights, -aim.weights)


@pytest.mark.parametrize(
    ("name", "settings", "package"),
    [
        ("lime", {}, "lime"),
        ("kernel_shap", {}, "shap"),
        ("kernel_shap", {"via": "captum"}, "captum.attr"),
        ("inverse", {"of": "lime"}, "lime"),
    ],
)
def test_a_missing_package_is_named_before_any_work(name, settings, package, monkeypatch, rows):
    asked = []
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"pip install 'aimwise\[rivals\]'"):
        aimwise.METHODS[name](**settings).fit(lambda x: asked.append(1) or rows_box(x), rows)
    assert asked == []


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("lime", {"samples": 1}, BadSetting),
        ("lime", {"kernel_width": 0.0}, BadSetting),
        ("kernel_shap", {"samples": 2}, BadSetting),
        ("kernel_shap", {"l1_reg": "num_features"}, BadSetting),
        ("kernel_shap", {"l1_reg": "aic", "via": "captum"}, BadSetting),
        ("kernel_shap", {"via": "shape"}, UnknownName),
        ("kernel_shap", {"link": "probit"}, UnknownName),
        ("occlusion", {"scale": "odds"}, UnknownName),
        ("occlusion", {"draws": 0}, BadSetting),
        ("lexicon", {"penalty": -1.0}, BadSetting),
        ("maple", {"share": 0.0}, BadSetting),
    ],
)
def test_bad_settings_are_named_before_any_work(name, settings, error, rows):
    with pytest.raises(error):
        aimwise.METHODS[name](**settings).fit(lambda x: pytest.fail("asked"), rows)


def test_kernel_shap_takes_shaps_own_selection_of_features(rows):
    got = aimwise.METHODS["kernel_shap"](l1_reg="num_features(2)").fit(rows_box, rows).explain(rows[:3])
    assert ((got.weights[..., 1] != 0).sum(1) <= 2).all()
