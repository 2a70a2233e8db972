"""Black boxes: anything that turns inputs into one row of class probabilities each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from aimwise.blackbox.base import BlackBox as BlackBox
from aimwise.blackbox.base import FunctionBox as FunctionBox
from aimwise.blackbox.base import SklearnBox as SklearnBox
from aimwise.blackbox.http import HttpBox as HttpBox
from aimwise.blackbox.modules import TorchBox as TorchBox
from aimwise.blackbox.onnx import OnnxBox as OnnxBox
from aimwise.blackbox.text import TextBox as TextBox
from aimwise.blackbox.text import comes_from, labels_of, of_pipeline
from aimwise.errors import BadBlackBox


def as_blackbox(model: Any, *, class_names: Sequence[str] | None = None) -> BlackBox:
    """Wrap a classifier, a torch module, a pipeline of transformers or a function; a `BlackBox` passes through."""
    if isinstance(model, BlackBox):
        if class_names is None:
            return model
        named = copy.copy(model)
        named.class_names = tuple(map(str, class_names))
        return named
    if comes_from(model, "transformers") and not isinstance(model, nn.Module):
        return of_pipeline(model, class_names)
    if comes_from(model, "transformers") and model.main_input_name == "input_ids":
        raise BadBlackBox(
            f"{type(model).__name__} takes token ids, and only its tokenizer makes them from texts. Pass "
            "aimwise.TextBox(model, tokenizer), or a transformers pipeline, which holds both."
        )
    if comes_from(model, "transformers"):
        return TorchBox(model, output="logits", class_names=class_names or labels_of(model))
    if isinstance(model, nn.Module):
        return TorchBox(model, class_names=class_names)
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        return SklearnBox(model, class_names=class_names)
    if hasattr(model, "predict"):
        raise without_probabilities(model)
    if callable(model):
        return FunctionBox(model, class_names=class_names)
    raise BadBlackBox(
        f"Cannot use {type(model).__name__} as a black box. Pass a fitted classifier with predict_proba, "
        "a torch module, a transformers pipeline, or a function inputs -> (n, C) probabilities."
    )


def without_probabilities(model: Any) -> BadBlackBox:
    """What to do about a model that predicts, but gives no probabilities: not fitted, of margins, or of numbers."""
    name = type(model).__name__
    if hasattr(model, "decision_function") and hasattr(model, "classes_"):
        output = "binary_logits" if len(model.classes_) == 2 else "logits"
        return BadBlackBox(
            f"{name} has scores but no predict_proba, and probabilities are what is explained. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV; or, to take its scores for log-odds, pass "
            f"aimwise.FunctionBox(model.decision_function, output={output!r})."
        )
    if comes_from(model, "sklearn") and predicts_numbers(model):
        return BadBlackBox(
            f"{name} predicts numbers, and probabilities of classes are what is explained. Pass a function inputs -> (n, C), for "
            "instance how likely its number is to lie above a threshold."
        )
    return BadBlackBox(
        f"{name} is not fitted or has no predict_proba, and probabilities are what is explained. Fit it first, "
        "wrap it in sklearn.calibration.CalibratedClassifierCV, or pass a function inputs -> (n, C)."
    )


def predicts_numbers(model: Any) -> bool:
    """Whether a model of scikit-learn is a regressor."""
    from sklearn.base import is_regressor

    return bool(is_regressor(model))
