"""What every method keeps to, whatever it does inside."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import aimwise
from aimwise.errors import BadBlackBox, BadFeatures, BadFile, BadSetting, NotFitted, OutOfQueries, UnknownName
from aimwise.explainers.learned import Learned

FOR_TABLES = {name: method for name, method in aimwise.METHODS.items() if "table" in method.kinds}
QUICK = {
    "aim": {"epochs": 3, "least_rows": 256, "masks_per_row": 4},
    "inverse": {"of": "occlusion", "settings": {"draws": 2}},
    "invase": {"lam": 0.01},  # so little training would end with nothing selected
    "kernel_shap": {"samples": 30, "draws": 1},
    "lime": {"samples": 30},
    "maple": {"trees": 8},
    "occlusion": {"draws": 2},
}


def settings(name):
    """What makes a method quick: little training, few samples."""
    learns = {"epochs": 3, "least_rows": 256} if issubclass(aimwise.METHODS[name], Learned) else {}
    return learns | QUICK.get(name, {})


def make(name):
    return aimwise.METHODS[name](**settings(name))


@pytest.fixture(params=[name for name, method in FOR_TABLES.items() if not method.gradients])
def name(request):
    """A method that explains any function of a table; those that need gradients refuse one."""
    return request.param


@pytest.fixture
def fitted(name, linear, table):
    return make(name).fit(linear, table, class_names=["no", "yes"], seed=1)


def test_an_explanation_has_a_weight_for_every_feature_and_class(fitted, linear, table):
    got = fitted.explain(table[:7])
    assert got.weights.shape == (7, 5, 2)
    assert torch.isfinite(got.weights).all()
    np.testing.assert_allclose(got.probs.numpy(), linear(table[:7]), atol=1e-6)
    assert got.classes == ("no", "yes")
    assert got.names == tuple(f"column {i}" for i in range(5))
    assert got.method == fitted.method
    np.testing.assert_array_equal(got.values, table[:7])


def test_the_same_input_gets_the_same_answer_in_any_company(fitted, table):
    rows = table[:40] if fitted.asks else table  # which takes longer
    whole, part = fitted.explain(rows), fitted.explain(rows[30:33])
    torch.testing.assert_close(part.weights, whole[30:33].weights, atol=1e-5, rtol=1e-4)
    assert torch.equal(fitted.explain(rows).weights, whole.weights)


def test_the_same_seed_gives_the_same_explainer_and_leaves_generators_alone(name, linear, table):
    torch.manual_seed(42)
    np.random.seed(42)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first, second = (make(name).fit(linear, table, seed=3).explain(table[:5]).weights for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    if make(name).sampled:
        third = make(name).fit(linear, table, seed=4).explain(table[:5]).weights
        assert not torch.equal(first, third)


@pytest.mark.parametrize("name", [name for name, method in FOR_TABLES.items() if method.gradients])
def test_methods_that_need_gradients_refuse_a_function_before_any_work(name, linear, table):
    with pytest.raises(BadBlackBox, match="needs gradients"):
        make(name).fit(linear, table)
    assert linear.rows == []


def test_settings_are_fields_and_can_be_cloned(name):
    method = make(name)
    assert method.get_params() == {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    copy = clone(method)
    assert copy.get_params() == method.get_params()
    assert repr(copy) == repr(method)


def test_before_fit_nothing_is_explained_or_saved(name, table, tmp_path):
    for use in (lambda m: m.explain(table), lambda m: m.save(tmp_path / "x")):
        with pytest.raises(NotFitted, match="Call fit"):
            use(make(name))
    assert not (tmp_path / "x").exists()


def test_a_failed_fit_leaves_no_half_fitted_explainer(fitted, table):
    with pytest.raises(BadBlackBox):
        fitted.fit(lambda x: np.full((len(x), 2), np.nan), table)
    with pytest.raises(NotFitted):
        fitted.explain(table)


def test_known_answers_spare_the_black_box(fitted, linear, table):
    table = table[:20]
    known = linear(table)
    linear.rows.clear()
    got = fitted.explain(table, probs=known)
    asked = sum(linear.rows)
    assert (asked > 0) == fitted.asks  # about changed inputs, never about those whose answers are known
    torch.testing.assert_close(got.weights, fitted.explain(table).weights, atol=1e-5, rtol=1e-4)
    assert sum(linear.rows) == 2 * asked + len(table)
    with pytest.raises(BadSetting, match=r"shape \(3, 2\), wanted \(20, 2\)"):
        fitted.explain(table, probs=known[:3])


def test_a_check_records_how_far_each_row_can_be_trusted(fitted, table):
    got = fitted.explain(table[:20], check=16)
    assert got.check.agreement.shape == (20,)
    assert ((got.check.agreement >= 0) & (got.check.agreement <= 1)).all()
    assert got.check.masks == 16
    assert fitted.explain(table[:2]).check is None
    assert torch.equal(got.check.agreement, fitted.explain(table[:20], check=16).check.agreement)


def test_a_limit_on_queries_is_kept(name, linear, table):
    with pytest.raises(OutOfQueries, match="max_queries=100"):
        make(name).fit(linear, table, max_queries=100)
    assert sum(linear.rows) == 0
    limited = make(name).fit(linear, table, max_queries=60_000)
    assert sum(linear.rows) <= 60_000
    assert len(limited.explain(table[:20])) == 20  # the limit was for the fit


def test_wrong_width_is_named(fitted, table):
    with pytest.raises(BadFeatures, match=r"shape \(n, 5\), got \(240, 3\)"):
        fitted.explain(table[:, :3])


def test_too_few_inputs_are_named(name, linear, table):
    with pytest.raises(BadFeatures, match="Got 1 inputs"):
        make(name).fit(linear, table[:1])


def test_no_inputs_give_an_empty_explanation(fitted, table):
    got = fitted.explain(table[:0])
    assert len(got) == 0
    assert got.to_frame().empty


def test_unknown_classes_are_named(fitted, table):
    with pytest.raises(UnknownName, match="no class 'maybe'; known: no, yes"):
        fitted.explain(table[:1])[0].top(3, target="maybe")


def test_frames_with_every_kind_of_column(name, frame):
    def box(x):
        assert isinstance(x, pd.DataFrame)
        p = np.where(x["text"].to_numpy(dtype=object) == "a", 0.9, 0.2)
        return np.stack([1 - p, p], 1)

    got = make(name).fit(box, frame).explain(frame.head(6), check=4)
    assert got.weights.shape == (6, frame.shape[1], 2)
    assert got.names == tuple(frame.columns)
    aimwise.Explanation.from_json(got.to_json())


@pytest.mark.parametrize("name", FOR_TABLES)
def test_torch_modules_and_tensors(name):
    torch.manual_seed(0)
    X = torch.randn(80, 4)
    got = make(name).fit(nn.Linear(4, 3), X).explain(X[:5])
    assert got.weights.shape == (5, 4, 3)
    assert got.classes == ("class 0", "class 1", "class 2")


def test_a_forest_of_many_classes(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.argsort(np.argsort(X[:, 0])) * 12 // 200
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    got = make(name).fit(model, X).explain(X[:4])
    assert got.weights.shape == (4, 3, 12)
    assert got.classes == tuple(map(str, range(12)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: np.where(np.arange(len(p))[:, None] == 3, np.nan, p),
        lambda p: p * 1.5,
        lambda p: p[:-1],
        lambda p: p[:, :1],
    ],
    ids=["nan", "unnormalised", "too few rows", "one column"],
)
def test_bad_black_boxes_are_named_before_anything_is_learned(name, linear, table, spoil):
    with pytest.raises(BadBlackBox, match=r"row|shape|column"):
        make(name).fit(lambda x: spoil(linear(x)), table)


def test_a_box_that_fails_now_and_then_is_an_ordinary_case(name, linear, table):
    calls = []

    def flaky(x):
        calls.append(1)
        if len(calls) % 5 == 0:
            raise TimeoutError("busy")
        return linear(x)

    calm = make(name).fit(linear, table, seed=2).explain(table[:4]).weights
    assert torch.equal(make(name).fit(flaky, table, seed=2, retries=2).explain(table[:4]).weights, calm)


def test_constant_boxes_get_explanations_that_say_so(name, table):
    got = make(name).fit(lambda x: np.tile([0.3, 0.7], (len(x), 1)), table).explain(table[:4], check=8)
    assert float(got.check.without.min()) > 0.99  # nothing a mask could change
    if name != "random":  # which weighs at random whatever the box says
        assert float(got.weights.abs().max()) < 0.3


def test_nothing_is_printed_when_it_is_not_a_terminal():
    code = (
        "import torch, aimwise; torch.manual_seed(0); torch.set_num_threads(1); X = torch.randn(50, 3)\n"
        f"for name, settings in {[(name, settings(name)) for name in FOR_TABLES]!r}:\n"
        "    aimwise.METHODS[name](**settings).fit(torch.nn.Linear(3, 2), X).explain(X)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == out.stderr == ""


def test_a_checkpoint_of_another_model_is_refused(linear, table, tmp_path):
    quick = aimwise.AIM(**QUICK["aim"])
    quick.fit(linear, table, folder=tmp_path)
    with pytest.raises(BadFile, match="another model"):
        quick.fit(lambda x: linear(x[:, ::-1]), table, folder=tmp_path)


def test_known_answers_are_checked_too(fitted, table):
    with pytest.raises(BadBlackBox, match="row 0 is not a row of probabilities"):
        fitted.explain(table[:2], probs=[[np.nan, 1.0], [0.5, 0.5]])
    assert len(fitted.explain(table[:2], probs=pd.DataFrame([[0.2, 0.8], [0.5, 0.5]]))) == 2


def test_no_rows_can_be_checked(fitted, table):
    assert fitted.explain(table[:0], check=4).check.agreement.shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"retries": -1}, BadSetting, "retries=-1, wanted a whole number of at least 0"),
        ({"max_queries": 0}, BadSetting, "max_queries=0"),
        ({"seed": 2**70}, BadSetting, "seed="),
    ],
)
def test_bad_arguments_are_named_before_any_work(name, arguments, error, message, linear, table):
    with pytest.raises(error, match=message):
        make(name).fit(linear, table, **arguments)
    assert linear.rows == []
