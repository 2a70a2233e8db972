"""One set of questions to the black box that every removal metric reads: the whole input, the chosen features, the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.explanation import Explanation, Target
from aimwise.masked import Masked

DRAWS = 10


@dataclass(frozen=True)
class Ablation:
    """What the black box says of whole inputs, of the chosen features alone and of all others; R draws of a random fill."""

    whole: Float[Tensor, "B C"]
    kept: Float[Tensor, "R B C"]
    rest: Float[Tensor, "R B C"]
    target: Int[Tensor, " B"]
    k: int


def ablate(
    box: Masked,
    inputs: Any,
    explanation: Explanation,
    *,
    k: int,
    fill: str | None = None,
    target: Target = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Ablation:
    """Ask the black box about the k features that speak most for a class (the predicted one), and about the others."""
    return ablations(box, inputs, explanation, ks=(k,), fill=fill, target=target, draws=draws, seed=seed)[0]


def ablations(
    box: Masked,
    inputs: Any,
    explanation: Explanation,
    *,
    ks: Sequence[int],
    fill: str | None = None,
    target: Target = None,
    draws: int = DRAWS,
    seed: int = 0,
    order: Int[Tensor, "B d"] | None = None,
) -> list[Ablation]:
    """The same for several k, all asked about together: two questions for each input and k, and each draw of a random fill.

    order: the explanation's own, where it is known already.
    """
    if fill is not None:
        box = box.through(box.features.filled(fill))
    batch = inputs if isinstance(inputs, Batch) else box.features.encode(inputs).to(torch.device("cpu"))
    ranked = explanation.order(target) if order is None else order
    chosen = torch.stack([first(ranked, explanation.present, k) for k in ks], 1)  # (B, K, d)
    z = torch.cat([chosen, explanation.present[:, None].float() - chosen], 1)  # (B, 2K, d)
    rng = torch.Generator().manual_seed(seed)
    said = torch.stack([box.each(batch, z, rng) for _ in range(draws if box.features.random else 1)])  # (R, B, 2K, C)
    wanted = explanation.classes_of(target)
    return [Ablation(explanation.probs, said[:, :, i], said[:, :, len(ks) + i], wanted, k) for i, k in enumerate(ks)]


def first(order: Int[Tensor, "B d"], present: Tensor, k: int) -> Float[Tensor, "B d"]:
    """1 for the first k features of an order that are there, else 0."""
    return torch.zeros(present.shape).scatter(1, order[:, :k], 1.0) * present
