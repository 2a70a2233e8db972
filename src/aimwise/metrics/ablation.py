"""One set of questions to the black box that every removal metric reads: the whole input, the chosen features, the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
    if fill is not None:
        box = box.through(box.features.filled(fill))
    batch = box.features.encode(inputs).to(torch.device("cpu"))
    z = explanation.chosen(k, target)
    rounds = draws if box.features.random else 1
    rng = torch.Generator().manual_seed(seed)
    kept = torch.stack([box(batch, z, rng) for _ in range(rounds)])
    rest = torch.stack([box(batch, 1 - z, rng) for _ in range(rounds)])
    return Ablation(explanation.probs, kept, rest, explanation.classes_of(target), k)
