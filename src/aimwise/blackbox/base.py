"""What a black box is, the checks every answer passes, and the two that need no framework of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.errors import BadBlackBox, BadSetting

Move = Callable[[Tensor, Tensor, Tensor | None], Tensor]
OUTPUTS = ("auto", "probs", "logits", "binary_probs", "binary_logits")
SUM_TOLERANCE = 1e-2


class BlackBox(ABC):
    """A model to be explained: `probs(inputs) -> (n, C)`, checked row by row."""

    class_names: tuple[str, ...] | None = None
    output: str = "probs"
    n_classes: int | None = None
    inside: frozenset[str] = frozenset()
    """The fills that it can do inside itself, given gates."""
    word_fill: str = "delete"
    """How a word is taken away from the texts it is asked about, where the user does not say."""
    rows_per_call: int = 8192
    """How many inputs it is best asked about at once."""
    traced_per_call: int = 1 << 16
    """How many numbers or tokens it is asked about at once where all that it computes is kept for gradients."""
    gradients: bool = False
    """Whether gradients flow through `scores` back to what it is asked about."""
    shows: bool = False
    """Whether it can be looked into while it answers: see `looked`."""

    @property
    def called(self) -> str:
        """What people call the model, as far as that is known."""
        return type(self).__name__

    @abstractmethod
    def _answer(self, inputs: Any) -> Any:
        """Ask the model; whatever it returns is checked by `probs`."""

    def probs(self, inputs: Any) -> Float[Tensor, "B C"]:
        """The probability of every class for every input."""
        return self._checked(self._answer(inputs), len(inputs))

    def looked(self, inputs: Any) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B d h"]] | None:
        """The probabilities, and what the model computes at each feature of inputs that have places (`Features.placed`), from one
        question; None if it shows nothing."""
        found = self._looked(inputs)
        return None if found is None else (self._checked(found[0], len(inputs)), found[1])

    def scores(self, inputs: Any) -> Float[Tensor, "B C"]:
        """A score for every class and input, as the model gives them, through which gradients flow."""
        raise no_gradients(self)

    def near(self, inputs: Any, move: Move) -> Float[Tensor, "B C"]:
        """Probabilities of what `move` makes of the numbers that the model computes with, through which gradients flow.

        move: is given row numbers (b,), the numbers of these rows, and, where these are embeddings (b, L, e), the feature that
        each of the L belongs to, -1 for none. Inputs that are numbers themselves are moved as they are, without the last.
        """
        raise no_gradients(self)

    def _looked(self, inputs: Any) -> tuple[Tensor, Tensor] | None:
        """Ask the model and look into it meanwhile; its answer is checked by `looked`."""
        return None

    def _checked(self, answer: Any, n: int) -> Tensor:
        """An answer about n inputs as probabilities, or an error."""
        said = as_matrix(answer, n).detach()
        self._check_classes(said.shape[1])
        return check_rows(said)

    def _check_classes(self, found: int) -> None:
        if self.n_classes is None:
            names = self.class_names
            if names is not None and len(set(names)) < len(names):
                raise BadBlackBox(f"Two classes have the same name ({', '.join(names)}). Give every class a name of its own.")
            if names is not None and len(names) != found:
                raise BadBlackBox(
                    f"The black box returned {found} columns but has {len(names)} class names "
                    f"({', '.join(names)}). Pass one class name for each column."
                )
            self.n_classes = found
        elif found != self.n_classes:
            raise BadBlackBox(
                f"The black box returned {found} classes, earlier it returned {self.n_classes}. "
                "Make it return the same columns on every call."
            )


def no_gradients(box: BlackBox) -> BadBlackBox:
    """The error for a method that needs gradients and a black box that has none."""
    return BadBlackBox(
        f"This method needs gradients and {type(box).__name__} has none. Hand over the torch module itself, in aimwise.TorchBox "
        "or aimwise.TextBox, or use a method without gradients."
    )


class FunctionBox(BlackBox):
    """Any function from inputs to an array of shape (n, C)."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        output: str = "probs",
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.function = function
        self.output = known_output(output)
        self.class_names = tuple(map(str, class_names)) if class_names is not None else None

    def _answer(self, inputs: Any) -> Any:
        answer = as_matrix(self.function(inputs), len(inputs))
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)


class SklearnBox(BlackBox):
    """A classifier or pipeline with `predict_proba`, as in scikit-learn, XGBoost or LightGBM; images are flattened for it."""

    def __init__(self, model: Any, *, class_names: Sequence[str] | None = None) -> None:
        self.model = model
        names = model.classes_ if class_names is None else class_names
        self.class_names = tuple(map(str, names))

    @property
    def called(self) -> str:
        return type(self.model).__name__

    def _answer(self, inputs: Any) -> Any:
        inputs = inputs.cpu().numpy() if isinstance(inputs, Tensor) else inputs
        if isinstance(inputs, np.ndarray) and inputs.ndim > 2 and getattr(self.model, "n_features_in_", 0) == inputs[:1].size:
            inputs = inputs.reshape(len(inputs), -1)  # images for a model of flat rows
        answer = self.model.predict_proba(inputs)
        if isinstance(answer, list):
            raise BadBlackBox(
                f"predict_proba returned a list of {len(answer)} arrays: the classifier has several outputs. "
                "Explain one output at a time: pass lambda X: model.predict_proba(X)[0]."
            )
        return answer


def as_matrix(answer: Any, n: int) -> Float[Tensor, "B C"]:
    """What a model returned as a matrix with one row per input, or an error that says what came."""
    if isinstance(answer, Tensor):
        matrix = answer
    else:
        try:
            matrix = torch.from_numpy(np.array(answer, dtype=np.float64))
        except (TypeError, ValueError) as e:
            raise BadBlackBox(
                f"The black box returned {type(answer).__name__} that is not an array of numbers ({e}). "
                "Return probabilities of shape (n, C)."
            ) from e
    if matrix.ndim == 1 and len(matrix) == n:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or len(matrix) != n:
        raise BadBlackBox(
            f"The black box returned shape {tuple(matrix.shape)} for {n} inputs, wanted ({n}, C). "
            "Return one row of class probabilities per input, in the order of the inputs."
        )
    return matrix.float()


def normalised(answer: Tensor, output: str) -> Tensor:
    """Probabilities from what the model is said to return."""
    if output in ("binary_probs", "binary_logits"):
        if answer.shape[1] != 1:
            raise BadBlackBox(
                f"output={output!r} wants one column, the black box returned {answer.shape[1]}. "
                f"Use output={output.removeprefix('binary_')!r}."
            )
        positive = answer.sigmoid() if output == "binary_logits" else answer
        return torch.cat([1 - positive, positive], dim=1)
    return answer.softmax(1) if output == "logits" else answer


def centred(answer: Tensor, output: str) -> Tensor:
    """One score for each class from what the model returns; a single one speaks for one class and against the other."""
    if output == "binary_logits":
        return torch.cat([-answer, answer], dim=1) / 2
    return normalised(answer, output) if output == "binary_probs" else answer


def settled(output: str, answer: Tensor) -> str:
    """What the model returns, found out from its first answers if it was not said."""
    if output != "auto" or len(answer) == 0:
        return output
    inside = bool(((answer >= 0) & (answer <= 1 + SUM_TOLERANCE)).all())
    if inside and not bool(((answer.sum(1) - 1).abs() < SUM_TOLERANCE).all()):
        raise BadBlackBox(
            "The black box's first answers lie in [0, 1] but do not add up to 1: they may be logits or several yes-or-no "
            "outputs. Say which: aimwise.TorchBox(module, output='logits'), or make each row a distribution over the classes."
        )
    return "probs" if inside else "logits"


def check_rows(answer: Tensor) -> Tensor:
    """The rows as probabilities that add up to exactly 1, or an error that names the first bad row."""
    if answer.shape[1] < 2:
        raise BadBlackBox(
            "The black box returned one column, wanted one for each class (two at least). For a single probability "
            "or logit of the positive class wrap it: aimwise.FunctionBox(f, output='binary_probs' or 'binary_logits'), "
            "or aimwise.TorchBox for a module."
        )
    total = answer.sum(1)
    bad = ~torch.isfinite(answer).all(1) | (answer < -SUM_TOLERANCE).any(1) | ((total - 1).abs() > SUM_TOLERANCE)
    if bad.any():
        row = int(bad.nonzero()[0])
        shown = ", ".join(f"{v:.4g}" for v in answer[row, :6].tolist()) + (", ..." if answer.shape[1] > 6 else "")
        raise BadBlackBox(
            f"The black box's answer in row {row} is not a row of probabilities: [{shown}], sum {float(total[row]):.4g} "
            f"({int(bad.sum())} of {len(answer)} rows are bad). Return finite values in [0, 1] that add up to 1; "
            "for logits wrap the model: aimwise.FunctionBox(f, output='logits') or aimwise.TorchBox(module, output='logits')."
        )
    answer = answer.clamp_min(0)
    return answer / answer.sum(1, keepdim=True)


def known_output(output: str) -> str:
    """The setting itself, or an error that lists the allowed ones."""
    if output not in OUTPUTS:
        raise BadSetting(f"output={output!r}, wanted one of {', '.join(OUTPUTS)}.")
    return output
