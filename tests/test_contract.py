"""What every method keeps to, whatever it does inside, on every kind of inputs that it declares."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import aimwise
from aimwise.errors import BadBlackBox, BadFeatures, BadFile, BadSetting, NotFitted, OutOfQueries, SingleClass, UnknownName
from aimwise.explainers.learned import Learned
from aimwise.explainers.selecting import Selecting
from modalities import MODALITIES, ROWS, Function

SEED = -3
SOME = 24  # rows that are explained
CLASSES = ("no", "yes", "perhaps")
QUICK = {
    "aim": {"epochs": 3, "least_rows": 256, "masks_per_row": 4},
    "fastshap": {"masks_per_row": 4},
    "fi": {"samples": 4},
    "ig": {"steps": 5, "draws": 2},
    "inverse": {"of": "occlusion", "settings": {"draws": 2}},
    "kernel_shap": {"samples": 30, "draws": 1},
    "lime": {"samples": 30},
    "maple": {"trees": 8, "words": 6},
    "occlusion": {"draws": 2},
    "smoothgrad": {"samples": 4, "draws": 2},
}
PAIRS = [(name, kind) for name, method in aimwise.METHODS.items() for kind in method.kinds]
REFUSED = [(name, kind) for name in aimwise.METHODS for kind in MODALITIES if (name, kind) not in PAIRS]


def make(name):
    """A method with what makes it quick: little training, few samples."""
    learns = {"epochs": 2, "least_rows": 128} if issubclass(aimwise.METHODS[name], Learned) else {}
    method = aimwise.METHODS[name](**learns | QUICK.get(name, {}))
    if isinstance(method, Selecting):
        method._refuse_collapse = lambda run: None  # of so little training nobody asks that it found anything
    return method


PLAIN = [pair for pair in PAIRS if not make(pair[0]).gradients]
NEEDY = [pair for pair in PAIRS if make(pair[0]).gradients]
FOR_TABLES = [name for name, kind in PLAIN if kind == "table"]
on_functions = pytest.mark.parametrize("case", PLAIN, indirect=True, ids="-".join)


class Case:
    """A method, a kind of inputs, and a black box for both."""

    def __init__(self, name, kind):
        self.name, self.data, self.needy = name, MODALITIES[kind], make(name).gradients
        self.inputs, self.some = self.data.inputs, self.data.inputs[:SOME]
        self.answers = self.data.answers(self.needy)
        self.classes = CLASSES[: self.answers.shape[1]]
        self.box = self.data.box(self.needy)

    def fit(self, box=None, inputs=None, **arguments):
        """The method fitted anew."""
        model = self.data.model(self.box if box is None else box)
        given = {"features": self.data.features, "class_names": self.classes, "seed": SEED} | arguments
        return make(self.name).fit(model, self.inputs if inputs is None else inputs, **given)

    def asked(self, work):
        """What comes of some work, and how many inputs the black box was asked about for it."""
        before = self.box.asked
        return work(), self.box.asked - before


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def case(request):
    return Case(*request.param)


@pytest.fixture(scope="module")
def fitted(case):
    """Fitted once for all tests of a method on a kind of inputs."""
    made, made.asked_ = case.asked(case.fit)
    return made


@pytest.fixture(scope="module")
def whole(case, fitted):
    """The explanation of some rows."""
    return fitted.explain(case.some)


def same(some, rows, **close):
    """Hold an explanation against the same rows of another, whose longest input may be longer."""
    d = some.weights.shape[1]
    torch.testing.assert_close(some.weights, rows.weights[:, :d], **close or {"atol": 1e-5, "rtol": 1e-4})
    assert not rows.weights[:, d:].any()


def test_an_explanation_has_a_weight_for_every_feature_and_class(case, fitted, whole):
    d = max(case.data.sizes[:SOME])
    assert whole.weights.shape == (SOME, d, len(case.classes))
    assert whole.weights.dtype == whole.probs.dtype == torch.float32
    assert torch.isfinite(whole.weights).all()
    assert whole.present.sum(1).tolist() == case.data.sizes[:SOME]
    assert whole.weights[whole.present].any()
    assert not whole.weights[~whole.present].any()
    np.testing.assert_allclose(whole.probs.numpy(), case.answers[:SOME], atol=1e-6)
    assert whole.classes == case.classes
    assert whole.method == case.name == fitted.method
    assert np.asarray(whole.values).shape[:2] == (SOME, d)


def test_the_same_input_gets_the_same_answer_in_any_company_and_order(case, fitted, whole):
    order = np.random.default_rng(0).permutation(SOME).tolist()
    torch.manual_seed(7), np.random.seed(7)  # what others draw has no say
    assert torch.equal(fitted.explain(case.some).weights, whole.weights)
    same(fitted.explain(case.some[9:12]), whole[9:12])
    same(fitted.explain(case.some[5:6]), whole[5:6])
    same(fitted.explain([case.some[i] for i in order] if isinstance(case.some, list) else case.some[order]), whole[order])


def test_the_same_seed_gives_the_same_weights_quietly_and_leaves_generators_alone(case, whole, capfd, caplog):
    torch.manual_seed(42), np.random.seed(42)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = case.fit().explain(case.some)
    assert torch.equal(again.weights, whole.weights)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_another_seed_gives_other_weights_where_they_are_sampled(case, fitted, whole):
    if fitted.sampled:
        assert not torch.equal(case.fit(seed=4).explain(case.some).weights, whole.weights)


def test_what_was_saved_says_the_same(case, fitted, whole, tmp_path):
    back = aimwise.load(fitted.save(tmp_path / "saved"), case.data.model(case.box))
    got = back.explain(case.some)
    assert torch.equal(got.weights, whole.weights)
    assert torch.equal(got.probs, whole.probs)
    assert (repr(back), got.classes, got.names) == (repr(fitted), whole.classes, whole.names)


def test_one_class_or_all_are_weighed_as_declared(case, fitted, whole):
    if fitted.every_class:
        assert whole.only is None
        assert all(whole.towards(c).any() for c in case.classes)
        return
    assert torch.equal(whole.only, whole.prediction)
    others = (whole.prediction + 1) % len(case.classes)
    with pytest.raises(SingleClass, match=f"{case.name} explained row 0"):
        whole.towards(others)
    for row, other in zip(whole.weights, others, strict=True):
        assert not row[:, other].any()


def test_questions_are_counted(case, fitted):
    assert fitted.queries_ == fitted.asked_ >= ROWS
    before = fitted.box_.meter.queries
    _, asked = case.asked(lambda: fitted.explain(case.some))
    assert fitted.box_.meter.queries - before == asked
    assert (asked > SOME) == fitted.asks


def test_a_limit_on_what_explaining_asks_keeps_the_rows_that_are_finished(case, fitted, whole, monkeypatch):
    monkeypatch.setattr(fitted, "rows_at_once", 6)
    _, needed = case.asked(lambda: fitted.explain(case.some))
    with pytest.raises(OutOfQueries, match="max_queries") as caught:
        fitted.explain(case.some, max_queries=needed - 1)
    done = caught.value.explanation
    assert len(done) == len(caught.value.rows) == SOME - 6
    same(done, whole[caught.value.rows])
    before = case.box.asked
    with pytest.raises(OutOfQueries):
        fitted.explain(case.some, max_queries=needed // 2)
    assert case.box.asked - before <= needed // 2
    same(fitted.explain(case.some), whole)  # the limit was for that call


def test_a_limit_on_what_fitting_asks_is_kept(case, fitted):
    before = case.box.asked
    with pytest.raises(OutOfQueries):
        case.fit(max_queries=ROWS - 1)
    assert case.box.asked == before
    least = ROWS + 256  # the inputs, and empty ones
    beyond = fitted.queries_ - least
    most = least + (beyond // 2 if isinstance(fitted, Learned) else beyond)  # who learns from masks learns from fewer
    limited, asked = case.asked(lambda: case.fit(max_queries=most))
    assert asked <= most
    assert torch.isfinite(limited.explain(case.some[:6]).weights).all()  # without a limit


def test_known_answers_spare_the_black_box(case, fitted, whole):
    known, n = case.answers[:SOME], len(case.classes)
    got, asked = case.asked(lambda: fitted.explain(case.some, probs=known))
    assert (asked > 0) == fitted.asks  # about changed inputs, never about those whose answers are known
    assert case.asked(lambda: fitted.explain(case.some))[1] == asked + SOME
    same(got, whole)
    with pytest.raises(BadSetting, match=rf"shape \(3, {n}\), wanted \({SOME}, {n}\)"):
        fitted.explain(case.some, probs=known[:3])
    with pytest.raises(BadBlackBox, match="row 1 is not a row of probabilities"):
        fitted.explain(case.some[:2], probs=[known[0], np.full(n, np.nan)])
    assert len(fitted.explain(case.some[:2], probs=pd.DataFrame(known[:2]))) == 2


def test_a_check_records_how_far_each_row_can_be_trusted(case, fitted, whole):
    got = fitted.explain(case.some, check=8)
    assert got.check.agreement.shape == (SOME,)
    assert ((got.check.agreement >= 0) & (got.check.agreement <= 1)).all()
    assert got.check.masks == 8
    assert whole.check is None
    assert torch.equal(got.check.agreement, fitted.explain(case.some, check=8).check.agreement)


@pytest.mark.parametrize("case", [pair for pair in PAIRS if pair[1] == "text"], indirect=True, ids="-".join)
def test_a_text_without_words_gets_no_weights(case, fitted, whole):
    got = fitted.explain(["", case.some[0], ""])
    assert not got.weights[[0, 2]].any()
    same(got[1:2], whole[0:1])


def test_no_inputs_give_an_empty_explanation(case, fitted):
    got, asked = case.asked(lambda: fitted.explain(case.some[:0], check=4))
    assert asked == len(got) == 0
    assert got.to_frame().empty
    assert got.check.agreement.shape == (0,)


def test_other_inputs_are_named_before_any_question(case, fitted):
    before = case.box.asked
    with pytest.raises(BadFeatures, match=case.data.complaint):
        fitted.explain(case.data.bad)
    with pytest.raises(BadFeatures, match="Got 1 inputs"):
        case.fit(inputs=case.some[:1])
    assert case.box.asked == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retries": -1}, "retries=-1, wanted a whole number of at least 0"),
        ({"max_queries": 0}, "max_queries=0"),
        ({"seed": 2**70}, "seed="),
    ],
    ids=["retries", "max_queries", "seed"],
)
def test_bad_arguments_are_named_before_any_question(case, arguments, message):
    before = case.box.asked
    with pytest.raises(BadSetting, match=message):
        case.fit(**arguments)
    assert case.box.asked == before


def test_unknown_classes_are_named(case, whole):
    with pytest.raises(UnknownName, match=f"no class 'never'; known: {', '.join(case.classes)}"):
        whole[0].top(3, target="never")


def test_a_failed_fit_leaves_no_half_fitted_explainer(case, fitted):
    again = copy.copy(fitted)
    with pytest.raises((BadBlackBox, OutOfQueries)):
        again.fit(case.data.model(case.box), case.inputs, features=case.data.features, max_queries=ROWS + 1)
    with pytest.raises(NotFitted):
        again.explain(case.some)
    fitted.explain(case.some[:2])


@on_functions
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
def test_bad_black_boxes_are_named_before_anything_is_learned(case, spoil):
    with pytest.raises(BadBlackBox, match=r"row|shape|column"):
        case.fit(lambda x: spoil(case.data.rule(x)))


@on_functions
def test_a_box_that_fails_now_and_then_is_an_ordinary_case(case, whole):
    calls = []

    def flaky(x):
        calls.append(1)
        if len(calls) % 5 == 0:
            raise TimeoutError("busy")
        return case.data.rule(x)

    assert torch.equal(case.fit(flaky, retries=2).explain(case.some).weights, whole.weights)


@on_functions
def test_constant_boxes_get_explanations_that_say_so(case):
    got = case.fit(lambda x: np.tile([0.3, 0.7], (len(x), 1))).explain(case.some[:4], check=8)
    assert float(got.check.without.min()) > 0.99  # nothing a mask could change
    if case.name != "random":  # which weighs at random whatever the box says
        assert float(got.weights.abs().max()) < 0.3


@pytest.mark.parametrize(("name", "kind"), [*NEEDY, *(("inverse", kind) for kind in MODALITIES)])
def test_methods_that_need_gradients_refuse_a_function_before_any_question(name, kind):
    data, box = MODALITIES[kind], MODALITIES[kind].box(gradients=False)
    method = make(name) if name != "inverse" else aimwise.METHODS[name](of="ig")
    assert method.gradients
    with pytest.raises(BadBlackBox, match="needs gradients"):
        method.fit(box, data.inputs, features=data.features)
    assert box.asked == 0


@pytest.mark.parametrize(("name", "kind"), REFUSED)
def test_a_kind_that_is_not_declared_is_refused_before_any_question(name, kind):
    data, box = MODALITIES[kind], MODALITIES[kind].box(gradients=False)
    with pytest.raises(BadFeatures, match="Choose another method"):
        make(name).fit(box, data.inputs, features=data.features)
    assert box.asked == 0


@pytest.mark.parametrize("name", aimwise.METHODS)
def test_settings_are_fields_and_can_be_cloned(name):
    method = make(name)
    assert method.get_params() == {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    copied = clone(method)
    assert copied.get_params() == method.get_params()
    assert repr(copied) == repr(method)


@pytest.mark.parametrize("name", aimwise.METHODS)
def test_before_fit_nothing_is_explained_or_saved(name, tmp_path):
    for use in (lambda m: m.explain(MODALITIES["table"].inputs), lambda m: m.save(tmp_path / "x")):
        with pytest.raises(NotFitted, match="Call fit"):
            use(make(name))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", FOR_TABLES)
def test_frames_with_every_kind_of_column(name, frame):
    def box(x):
        assert isinstance(x, pd.DataFrame)
        p = np.where(x["text"].to_numpy(dtype=object) == "a", 0.9, 0.2)
        return np.stack([1 - p, p], 1)

    got = make(name).fit(box, frame).explain(frame.head(6), check=4)
    assert got.weights.shape == (6, frame.shape[1], 2)
    assert got.names == tuple(frame.columns)
    aimwise.Explanation.from_json(got.to_json())


@pytest.mark.parametrize("name", aimwise.METHODS)
def test_torch_modules_and_tensors(name):
    torch.manual_seed(0)
    X = torch.randn(80, 4)
    got = make(name).fit(nn.Linear(4, 3), X).explain(X[:5])
    assert got.weights.shape == (5, 4, 3)
    assert got.classes == ("class 0", "class 1", "class 2")
    assert got.names == tuple(f"column {i}" for i in range(4))
    np.testing.assert_array_equal(got.values, X[:5])


@pytest.mark.parametrize("name", FOR_TABLES)
def test_a_forest_of_many_classes(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.argsort(np.argsort(X[:, 0])) * 12 // 200
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    got = make(name).fit(model, X).explain(X[:4])
    assert got.weights.shape == (4, 3, 12)
    assert got.classes == tuple(map(str, range(12)))


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    data = MODALITIES["table"]
    make("aim").fit(data.box(gradients=False), data.inputs, folder=tmp_path)
    with pytest.raises(BadFile, match="another model"):
        make("aim").fit(Function(lambda x: data.rule(x[:, ::-1])), data.inputs, folder=tmp_path)
