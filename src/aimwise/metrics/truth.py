"""Explanations against what is known to be right: the true features of generated data, and what people marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.errors import BadFeatures, BadSetting
from aimwise.explanation import Explanation

OVERLAP = 0.5  # of token sets, from which on a rationale counts as found


def true_positive_rate(chosen: Bool[Tensor, "B d"], truth: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The share of the true features that were chosen; NaN where there are none. Higher is better."""
    right, wanted = (chosen & truth).sum(1), truth.sum(1)
    return torch.where(wanted > 0, right / wanted.clamp_min(1), torch.nan)


def false_discovery_rate(chosen: Bool[Tensor, "B d"], truth: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The share of the chosen features that are not true ones; 0 where none were chosen. Lower is better."""
    wrong, all_ = (chosen & ~truth).sum(1), chosen.sum(1)
    return torch.where(all_ > 0, wrong / all_.clamp_min(1), 0.0)


def token_f1(chosen: Bool[Tensor, "B d"], truth: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The harmonic mean of precision and recall over the features of each input. Higher is better."""
    right = (chosen & truth).sum(1)
    return 2 * right / (chosen.sum(1) + truth.sum(1)).clamp_min(1)


def iou_f1(chosen: Bool[Tensor, "B d"], truth: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """1 where the chosen features and the rationale overlap by at least half, as one span each, else 0. Higher is better."""
    union = (chosen | truth).sum(1)
    return ((chosen & truth).sum(1) / union.clamp_min(1) >= OVERLAP).float()


def auprc(weights: Float[Tensor, "B d"], present: Bool[Tensor, "B d"], truth: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The area under precision against recall when features are taken in the order of their weights: average precision.

    NaN where there is nothing to find. Higher is better.
    """
    order = weights.masked_fill(~present, -torch.inf).argsort(dim=1, descending=True, stable=True)
    hits = (truth & present).gather(1, order).double()
    precision = hits.cumsum(1) / torch.arange(1, hits.shape[1] + 1)
    wanted = hits.sum(1)
    return torch.where(wanted > 0, (precision * hits).sum(1) / wanted.clamp_min(1), torch.nan).float()


def marked(explanation: Explanation, tokens: Sequence[Sequence[str]], marks: Sequence[Sequence[int]]) -> Bool[Tensor, "B d"]:
    """Which features stand at the tokens that people marked, where the texts are those tokens joined by blanks."""
    if explanation.spans is None or explanation.sources is None:
        raise BadFeatures("People's marks belong to places in a text; these features have none. Explain strings with Words.")
    if len(tokens) != len(explanation) or len(marks) != len(explanation):
        raise BadSetting(f"Got marks for {len(marks)} texts, wanted one list for each of the {len(explanation)} explained ones.")
    found = torch.zeros_like(explanation.present)
    for row, (words, flags) in enumerate(zip(tokens, marks, strict=True)):
        if " ".join(words) != explanation.sources[row]:
            raise BadSetting(f"Text {row} is not its tokens joined by blanks. Explain the texts that the marks belong to.")
        ends = np.cumsum([len(word) + 1 for word in words])
        letters = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=bool)
        for word, end, flag in zip(words, ends, flags, strict=False):
            letters[end - 1 - len(word) : end - 1] = bool(flag)
        before = np.concatenate([[0], np.cumsum(letters)])
        spans = np.minimum(explanation.spans[row], len(letters))
        found[row] = torch.from_numpy(before[spans[:, 1]] > before[spans[:, 0]]) & explanation.present[row]
    return found


def rationale(annotators: Sequence[Sequence[int]], length: int, *, by: str = "majority") -> list[int]:
    """The tokens that any annotator marked (by="union"), or more than half of those who marked any (by="majority")."""
    if by not in ("union", "majority"):
        raise BadSetting(f"by={by!r}, wanted 'union' or 'majority'.")
    if not annotators:
        return [0] * length
    votes = np.zeros(length)
    for marks in annotators:
        votes[: len(marks)] += np.asarray(marks[:length]) > 0
    taken = votes > 0 if by == "union" else votes * 2 > len(annotators)
    return [int(mark) for mark in taken]
