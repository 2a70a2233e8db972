"""Whether the chosen features are enough, and whether they are needed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from aimwise.metrics.ablation import Ablation


def faithfulness(ablation: Ablation) -> Float[Tensor, " B"]:
    """The share of draws in which the chosen features alone keep the prediction. Higher is better."""
    return (ablation.kept.argmax(-1) == ablation.whole.argmax(-1)).float().mean(0)


def sufficiency(ablation: Ablation) -> Float[Tensor, " B"]:
    """How much of the class's probability is lost when only the chosen features are kept. Lower is better."""
    return drop(ablation, ablation.kept)


def comprehensiveness(ablation: Ablation) -> Float[Tensor, " B"]:
    """How much of the class's probability is lost when the chosen features are removed. Higher is better."""
    return drop(ablation, ablation.rest)


def drop(ablation: Ablation, left: Float[Tensor, "R B C"]) -> Float[Tensor, " B"]:
    """The class's probability for the whole input, less that for what is left of it."""
    target = ablation.target[:, None]
    return ablation.whole.gather(1, target).squeeze(1) - left.mean(0).gather(1, target).squeeze(1)
