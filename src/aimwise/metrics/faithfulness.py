"""Whether the chosen features are enough, and whether they are needed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from aimwise.metrics.ablation import Ablation

CLIP = 1e-6  # probabilities nearer than this to 0 or 1 count as that near in log-odds and logarithms


def faithfulness(ablation: Ablation) -> Float[Tensor, " B"]:
    """The share of draws in which the chosen features alone keep the prediction. Higher is better."""
    return (ablation.kept.argmax(-1) == ablation.whole.argmax(-1)).float().mean(0)


def class_faithfulness(ablation: Ablation) -> Float[Tensor, " B"]:
    """The share of draws in which the features that speak most for a class, alone, are given that class. Higher is better.

    It is contrastive: asking for a class chooses features that point to it, whatever the whole input says.
    """
    return (ablation.kept.argmax(-1) == ablation.target).float().mean(0)


def sufficiency(ablation: Ablation) -> Float[Tensor, " B"]:
    """How much of the class's probability is lost when only the chosen features are kept. Lower is better."""
    return drop(ablation, ablation.kept)


def comprehensiveness(ablation: Ablation) -> Float[Tensor, " B"]:
    """How much of the class's probability is lost when the chosen features are removed. Higher is better."""
    return drop(ablation, ablation.rest)


def flips(ablation: Ablation) -> Float[Tensor, " B"]:
    """The share of draws in which the prediction changes when the chosen features are removed. Higher is better."""
    return (ablation.rest.argmax(-1) != ablation.whole.argmax(-1)).float().mean(0)


def divergence(ablation: Ablation) -> Float[Tensor, " B"]:
    """KL(p(y | x) || p(y | chosen features)), probabilities clipped at CLIP. Lower is better."""
    whole = ablation.whole.clamp_min(CLIP)
    return (whole * (whole.log() - ablation.kept.clamp_min(CLIP).log())).sum(-1).mean(0)


def positive_log_odds(ablation: Ablation) -> Float[Tensor, " B"]:
    """How far the class's log-odds fall when the chosen features are removed, clipped at CLIP. Higher is better."""
    return fall(ablation, ablation.rest)


def negative_log_odds(ablation: Ablation) -> Float[Tensor, " B"]:
    """How far the class's log-odds fall when all other features are removed, clipped at CLIP. Lower is better."""
    return fall(ablation, ablation.kept)


def drop(ablation: Ablation, left: Float[Tensor, "R B C"]) -> Float[Tensor, " B"]:
    """The class's probability for the whole input, less that for what is left of it."""
    return of_class(ablation.whole, ablation.target) - of_class(left, ablation.target).mean(0)


def fall(ablation: Ablation, left: Float[Tensor, "R B C"]) -> Float[Tensor, " B"]:
    """The class's log-odds for the whole input, less those for what is left of it."""
    return log_odds(ablation.whole, ablation.target) - log_odds(left, ablation.target).mean(0)


def of_class(probs: Float[Tensor, "*R B C"], target: Tensor) -> Float[Tensor, "*R B"]:
    """The probability of each row's class."""
    return probs.gather(-1, target[:, None].expand(*probs.shape[:-1], 1)).squeeze(-1)


def log_odds(probs: Float[Tensor, "*R B C"], target: Tensor) -> Float[Tensor, "*R B"]:
    """log p - log (1 - p) of each row's class, both clipped; 1 - p is the sum of the others, which rounding spares."""
    others = probs.scatter(-1, target[:, None].expand(*probs.shape[:-1], 1), 0.0).sum(-1)
    return of_class(probs, target).clamp(CLIP, 1 - CLIP).log() - others.clamp(CLIP, 1 - CLIP).log()
