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
Orders = tuple[Int[Tensor, "B d"], Int[Tensor, "B d"]]


@dataclass(frozen=True)
class Ablation:
    """What the black box says of whole inputs, of the first k features alone and without the first k; R draws of a fill."""

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
    """Ask the black box about the k features that are said to be enough for a class (the predicted one), alone, and about the
    input without the k that are said to be needed; for two classes, and for most methods, those are the same features."""
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
    orders: Orders | None = None,
) -> list[Ablation]:
    """The same for several k, all asked about together: two questions for each input and k, and each draw of a random fill.

    orders: the explanation's own, where they are known already.
    """
    if fill is not None:
        box = box.through(box.features.filled(fill))
    batch = inputs if isinstance(inputs, Batch) else box.features.encode(inputs).to(torch.device("cpu"))
    ranked = both_orders(explanation, target) if orders is None else orders
    kept, gone = (torch.stack([first(order, explanation.present, k) for k in ks], 1) for order in ranked)  # (B, K, d)
    z = torch.cat([kept, explanation.present[:, None].float() - gone], 1)  # (B, 2K, d)
    rng = torch.Generator().manual_seed(seed)
    said = torch.stack([box.each(batch, z, rng) for _ in range(draws if box.features.random else 1)])  # (R, B, 2K, C)
    wanted = explanation.classes_of(target)
    return [Ablation(explanation.probs, said[:, :, i], said[:, :, len(ks) + i], wanted, k) for i, k in enumerate(ks)]


def both_orders(explanation: Explanation, target: Target = None) -> Orders:
    """In which order features are kept, and in which they are taken away."""
    return explanation.order(target, by="enough"), explanation.order(target, by="needed")


def first(order: Int[Tensor, "B d"], present: Tensor, k: int) -> Float[Tensor, "B d"]:
    """1 for the first k features of an order that are there, else 0."""
    return torch.zeros(present.shape).scatter(1, order[:, :k], 1.0) * present
