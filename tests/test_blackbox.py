"""Black boxes: what is accepted, what is refused, and how the refusal reads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from aimwise.blackbox import FunctionBox, SklearnBox, TorchBox, as_blackbox
from aimwise.errors import BadBlackBox, BadSetting

X = np.random.default_rng(0).normal(size=(50, 3))
Y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]


def answers(*rows):
    return FunctionBox(lambda inputs: np.array(rows))


def test_scikit_learn_classifier_brings_its_class_names():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    box = as_blackbox(model)
    assert isinstance(box, SklearnBox)
    assert box.class_names == ("no", "yes")
    np.testing.assert_allclose(box.probs(X).numpy(), model.predict_proba(X), atol=1e-6)


def test_class_names_given_win():
    box = as_blackbox(LogisticRegression().fit(X, Y), class_names=["bad", "good"])
    assert box.class_names == ("bad", "good")


def test_a_box_handed_over_is_not_changed_by_names():
    box = FunctionBox(lambda x: np.full((len(x), 2), 0.5))
    assert as_blackbox(box, class_names=["a", "b"]).class_names == ("a", "b")
    assert box.class_names is None


def test_pipeline_over_a_frame_gets_the_frame():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LogisticRegression().fit(frame, Y)
    np.testing.assert_allclose(as_blackbox(model).probs(frame).numpy(), model.predict_proba(frame), atol=1e-6)


@pytest.mark.parametrize("output", ["auto", "logits"])
def test_torch_logits_become_probabilities(output):
    module = nn.Linear(3, 4)
    x = torch.randn(7, 3)
    got = TorchBox(module, output=output).probs(x)
    torch.testing.assert_close(got, module(x).softmax(1))


def test_torch_probabilities_are_found_out():
    module = nn.Sequential(nn.Linear(3, 4), nn.Softmax(1))
    x = torch.randn(7, 3)
    box = as_blackbox(module)
    torch.testing.assert_close(box.probs(x), module(x))
    assert box.output == "probs"


def test_torch_module_that_was_found_out_is_checked_on_every_call():
    class Changing(nn.Module):
        def forward(self, x):
            return x.softmax(1) if x.max() < 10 else x

    box = as_blackbox(Changing())
    box.probs(torch.randn(4, 3))
    with pytest.raises(BadBlackBox, match="row 0 is not a row of probabilities"):
        box.probs(torch.full((2, 3), 20.0))


def test_torch_dropout_is_off_while_asking_and_on_again_afterwards():
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.9))
    x = torch.randn(5, 3)
    box = as_blackbox(module)
    torch.testing.assert_close(box.probs(x), box.probs(x))
    assert module.training


def test_torch_module_takes_arrays_and_frames():
    module = nn.Linear(3, 2)
    want = TorchBox(module).probs(torch.from_numpy(X).float())
    torch.testing.assert_close(TorchBox(module).probs(X), want)
    torch.testing.assert_close(TorchBox(module).probs(pd.DataFrame(X)), want)


def test_one_column_is_refused_or_said():
    one = lambda x: np.full(len(x), 0.2)  # noqa: E731
    with pytest.raises(BadBlackBox, match="binary_probs"):
        FunctionBox(one).probs(X)
    got = FunctionBox(one, output="binary_probs").probs(X)
    assert got.shape == (50, 2)
    assert float(got[0, 1]) == pytest.approx(0.2)
    logit = FunctionBox(lambda x: np.zeros((len(x), 1)), output="binary_logits").probs(X)
    assert float(logit[0, 0]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.5], [np.nan, 1.0]], r"row 1 .*\[nan, 1\].*1 of 2 rows"),
        ([[0.5, 0.5], [0.7, 0.7]], r"row 1 .*sum 1\.4"),
        ([[2.0, -1.0], [0.5, 0.5]], r"row 0 .*\[2, -1\]"),
        ([[np.inf, 0.0], [0.5, 0.5]], "row 0"),
        ([[0.5, 0.5]], r"shape \(1, 2\) for 2 inputs, wanted \(2, C\)"),
        ([[[0.5, 0.5]], [[0.5, 0.5]]], r"shape \(2, 1, 2\)"),
        ([["a", "b"], ["c", "d"]], "not an array of numbers"),
    ],
)
def test_bad_answers_are_named(rows, message):
    with pytest.raises(BadBlackBox, match=message):
        answers(*rows).probs(X[:2])


def test_a_changing_number_of_classes_is_named():
    box = FunctionBox(lambda x: np.full((len(x), 2 if len(x) > 3 else 4), 1 / (2 if len(x) > 3 else 4)))
    box.probs(X)
    with pytest.raises(BadBlackBox, match="returned 4 classes, earlier it returned 2"):
        box.probs(X[:2])


def test_names_that_do_not_fit_are_named():
    with pytest.raises(BadBlackBox, match="2 columns but has 3 class names"):
        FunctionBox(lambda x: np.full((len(x), 2), 0.5), class_names="abc").probs(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RidgeClassifier().fit(X, Y), r"CalibratedClassifierCV.*FunctionBox\(model\.decision_function, output='binary_logits'\)"),
        (Ridge().fit(X, X[:, 0]), "Ridge predicts numbers.*above a threshold"),
        (LogisticRegression(), "not fitted"),
        ("model.pkl", "Cannot use str"),
        (LogisticRegression, "not a row|not fitted|Cannot use|predict"),
    ],
)
def test_what_is_no_black_box_is_refused(model, message):
    with pytest.raises(BadBlackBox, match=message):
        as_blackbox(model)


def test_several_outputs_are_refused():
    model = MultiOutputClassifier(LogisticRegression()).fit(X, np.stack([Y, Y], 1))
    with pytest.raises(BadBlackBox, match="several outputs"):
        SklearnBox(model, class_names=["no", "yes"]).probs(X)


def test_unknown_output_is_refused():
    with pytest.raises(BadSetting, match="wanted one of auto, probs"):
        TorchBox(nn.Linear(3, 2), output="scores")


def test_rounding_is_forgiven_and_mended():
    got = answers([0.3333, 0.3333, 0.3333]).probs(X[:1])
    assert float(got.sum()) == pytest.approx(1, abs=1e-6)


def test_yes_or_no_outputs_are_not_taken_for_logits():
    with pytest.raises(BadBlackBox, match="do not add up to 1"):
        TorchBox(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid())).probs(torch.randn(5, 3))


def test_every_part_of_a_module_keeps_its_own_mode():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    module.train()
    module[1].eval()
    TorchBox(module, output="logits").probs(torch.randn(5, 3))
    assert [part.training for part in module] == [True, False, True]


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(BadBlackBox, match="same name"):
        FunctionBox(lambda x: np.full((len(x), 2), 0.5), class_names=["a", "a"]).probs(X)


class Hungry(torch.nn.Module):
    """Takes no more than three rows at a time."""

    def __init__(self, most=3):
        super().__init__()
        self.most, self.rows = most, []

    def forward(self, x):
        self.rows.append(len(x))
        if len(x) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return torch.stack([x[:, 0], 1 - x[:, 0]], 1)


def test_rows_are_halved_until_they_fit_the_memory():
    x = torch.rand(10, 2)
    box = TorchBox(Hungry(), output="probs")
    torch.testing.assert_close(box.probs(x)[:, 0], x[:, 0])
    assert box.rows_per_call == 2, "the next calls are small from the start"
    with pytest.raises(torch.cuda.OutOfMemoryError):
        TorchBox(Hungry(0), output="probs").probs(x)


@pytest.mark.parametrize(("labels", "output"), [(Y, "binary_logits"), (np.digitize(X[:, 0], [-0.5, 0.5]), "logits")])
def test_scores_taken_for_log_odds_as_the_error_says(labels, output):
    model = RidgeClassifier().fit(X, labels)
    with pytest.raises(BadBlackBox, match=f"output='{output}'"):
        as_blackbox(model)
    said = FunctionBox(model.decision_function, output=output).probs(X)
    np.testing.assert_array_equal(model.classes_[said.argmax(1).numpy()], model.predict(X))
