"""For each kind of inputs: a few of them, a function, and a torch module with gradients; both count what they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import aimwise
from conftest import logistic
from gradient_boxes import Counted, Reader, Viewer, make, perceptron, texts, tokenizer

ROWS = 120
WORTH = {"good": 2.0, "warm": 1.0, "dull": -1.5, "bad": -2.0}
LIGHT = np.random.default_rng(7).normal(size=(6, 6))


class Function:
    """A function box that counts the inputs it is asked about."""

    def __init__(self, rule: Callable[[Any], np.ndarray]) -> None:
        self.rule, self.asked = rule, 0

    def __call__(self, inputs: Any) -> np.ndarray:
        self.asked += len(inputs)
        return self.rule(inputs)


def of_columns(rows: np.ndarray) -> np.ndarray:
    return logistic(np.asarray(rows) @ np.array([2.0, -1.5, 0.5, 0.0]))


def of_words(written: list[str]) -> np.ndarray:
    return logistic(np.array([sum(WORTH.get(word, 0.0) for word in text.split()) for text in written]))


def of_pixels(images: np.ndarray) -> np.ndarray:
    return logistic(((np.asarray(images) - 0.5) * LIGHT).sum((1, 2)))


@dataclass(frozen=True)
class Modality:
    """Inputs of one kind and what can be asked about them."""

    inputs: Any
    sizes: list[int]
    """How many features each input has."""
    rule: Callable[[Any], np.ndarray]
    module: Callable[[], torch.nn.Module]
    bad: Any
    """Inputs that are none of this kind, and what is said of them."""
    complaint: str
    features: aimwise.Features | None = None
    tokenizer: Callable[[list[str]], Any] | None = None

    def box(self, gradients: bool) -> Function | Counted:
        """A new black box: its answers are the same each time."""
        return Counted(self.module()) if gradients else Function(self.rule)

    def model(self, box: Function | Counted) -> Any:
        """What is handed to `fit`."""
        return aimwise.TextBox(box, self.tokenizer, output="logits") if self.tokenizer and isinstance(box, Counted) else box

    def answers(self, gradients: bool) -> np.ndarray:
        """The black box's probabilities, computed past the library."""
        if not gradients:
            return self.rule(self.inputs)
        given = self.tokenizer(self.inputs)["input_ids"] if self.tokenizer else self.inputs
        return self.module()(torch.as_tensor(given)).softmax(1).detach().numpy()


RNG = np.random.default_rng(5)
TABLE, TEXTS, IMAGES = RNG.normal(size=(ROWS, 4)), texts(ROWS), RNG.random((ROWS, 6, 6)).astype(np.float32)
MODALITIES = {
    "table": Modality(TABLE, [4] * ROWS, of_columns, perceptron, TABLE[:, :3], r"shape \(n, 4\), got \(120, 3\)"),
    "text": Modality(
        TEXTS, [len(t.split()) for t in TEXTS], of_words, partial(make, Reader), [1, 2], "text", tokenizer=tokenizer
    ),
    "image": Modality(
        IMAGES,
        [9] * ROWS,
        of_pixels,
        partial(make, Viewer),
        IMAGES[:, :4],
        r"\(1, 4, 6\).*wanted \(1, 6, 6\)",
        features=aimwise.Patches(2),
    ),
}
