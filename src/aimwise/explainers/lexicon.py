"""A control: one list of words, or of columns, for all inputs. A method that is no better need not look at the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadSetting
from aimwise.explainers.base import Explainer
from aimwise.explainers.plain import table_owner, table_rows, word_counts
from aimwise.masked import Masked

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # from strong to weak
FOLD = 10  # one row in so many judges which of them is best
STEPS = 100
CLOSE = 1e-7  # a step that gains a smaller share of the loss is the last


@dataclass(eq=False, repr=False)
class Lexicon(Explainer):
    """One linear model for all inputs, fitted to the black box's probabilities of whole inputs by logistic regression.

    A word's weight is its coefficient, wherever it stands. A column's is its coefficient times how far its value is from the
    mean. penalty: of the squared coefficients beside the mean loss; if not given, the best of a few for rows held out.
    """

    method: ClassVar[str] = "lexicon"
    kinds: ClassVar[tuple[str, ...]] = ("table", "text")

    penalty: float | None = None

    @property
    def sampled(self) -> bool:
        return False

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if self.penalty is not None and self.penalty <= 0:
            raise BadSetting(f"penalty={self.penalty}, wanted a number above 0, or None to find one.")

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        from scipy.sparse import csr_matrix

        layout = box.features.layout
        is_text = box.features.kind == "text"
        rows = word_counts(data, layout.ids) if is_text else csr_matrix(table_rows(layout, data.x), dtype=np.float64)
        target = probs.cpu().double().numpy()
        coefficients = fitted(rows, target, self.penalty or best_penalty(rows, target))
        self.mean_ = torch.from_numpy(np.asarray(rows.mean(0), dtype=np.float32).reshape(-1))
        self.coefficients_ = torch.from_numpy(coefficients[:-1].astype(np.float32))  # (ids or q, C), without the intercept

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        if box.features.kind == "text":
            return self.coefficients_[batch.x.cpu().long()].to(probs.device)
        layout = box.features.layout
        rows = torch.from_numpy(table_rows(layout, batch.x)).float() - self.mean_  # (B, q)
        W = torch.zeros(*batch.present.shape, probs.shape[1])
        W.index_add_(1, torch.from_numpy(table_owner(layout)), rows[..., None] * self.coefficients_)
        return W.to(probs.device)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"coefficients": self.coefficients_, "mean": self.mean_}

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.coefficients_, self.mean_ = tensors["coefficients"], tensors["mean"]


def best_penalty(rows: Any, target: np.ndarray) -> float:
    """The penalty under which rows held out are told best, weaker ones tried until it gets worse."""
    held = np.arange(len(target)) % FOLD == FOLD - 1
    if not held.any():
        return PENALTIES[0]
    best, least, start = PENALTIES[0], np.inf, None
    for penalty in PENALTIES:
        start = fitted(rows[~held], target[~held], penalty, start)
        loss = -(target[held] * log_softmax(scores(rows[held], start))).sum(1).mean()
        if loss >= least:
            break
        best, least = penalty, loss
    return best


def fitted(rows: Any, target: np.ndarray, penalty: float, start: np.ndarray | None = None) -> np.ndarray:
    """Coefficients (q + 1, C) of a multinomial logistic regression on probabilities, the intercepts last and free."""
    from scipy.optimize import minimize

    shape = rows.shape[1] + 1, target.shape[1]
    start = np.zeros(shape) if start is None else start
    squares = np.asarray(rows.multiply(rows).mean(0)).ravel()
    unit = np.append(1 / np.sqrt(squares / 4 + penalty), 1.0)[:, None]  # of like curvature everywhere, so few steps are enough

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        B = flat.reshape(shape) * unit
        logs = log_softmax(scores(rows, B))  # (N, C)
        error = (np.exp(logs) - target) / len(target)
        slope = np.vstack([rows.T @ error + penalty * B[:-1], error.sum(0)])
        return -(target * logs).sum() / len(target) + penalty / 2 * (B[:-1] ** 2).sum(), (slope * unit).ravel()

    options = {"maxiter": STEPS, "ftol": CLOSE}
    best = minimize(loss, (start / unit).ravel(), jac=True, method="L-BFGS-B", options=options).x
    found: np.ndarray = best.reshape(shape) * unit
    return found


def scores(rows: Any, B: np.ndarray) -> np.ndarray:
    """What the linear model says of rows: (N, C)."""
    found: np.ndarray = rows @ B[:-1] + B[-1]
    return found


def log_softmax(s: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities from scores."""
    s = s - s.max(1, keepdims=True)
    found: np.ndarray = s - np.log(np.exp(s).sum(1, keepdims=True))
    return found
