"""How far two explanations of the same inputs agree."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation, Target


def overlap(one: Explanation, other: Explanation, *, k: int, target: Target = None) -> Float[Tensor, " B"]:
    """How many of the top k features are the same, as a share of all that either has there (intersection over union)."""
    alike(one, other)
    return iou(one.chosen(k, target) > 0, other.chosen(k, target) > 0)


def rank_correlation(one: Explanation, other: Explanation, *, target: Target = None) -> Float[Tensor, " B"]:
    """Spearman's correlation of the weights of the features that are there; NaN where one of them ranks nothing."""
    alike(one, other)
    first, second = (ranks(e.towards(target), e.present) for e in (one, other))
    sizes = torch.linalg.vector_norm(first, dim=1) * torch.linalg.vector_norm(second, dim=1)
    return torch.where(sizes > 0, (first * second).sum(1) / sizes.clamp_min(1e-12), torch.nan)


def sign_agreement(one: Explanation, other: Explanation, *, k: int, target: Target = None) -> Float[Tensor, " B"]:
    """Of the features among the k largest of either, by size, the share whose weights have the same sign."""
    alike(one, other)
    chosen = torch.zeros_like(one.present)
    for e in (one, other):
        order = e.order(target, by="size")[:, :k]
        chosen |= torch.zeros_like(chosen).scatter(1, order, torch.ones_like(order, dtype=torch.bool))
    chosen &= one.present
    same = one.towards(target).sign() == other.towards(target).sign()
    return (same & chosen).sum(1) / chosen.sum(1).clamp_min(1)


def pairwise_iou(explanation: Explanation, *, k: int) -> Float[Tensor, " B"]:
    """The mean overlap of the top k features for two different classes, over all pairs of classes. Lower is better."""
    classes = range(len(explanation.classes))
    chosen = [explanation.chosen(k, c) > 0 for c in classes]
    return torch.stack([iou(chosen[a], chosen[b]) for a in classes for b in classes if a < b]).mean(0)


def iou(one: Bool[Tensor, "B d"], other: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """Intersection over union of two sets of features; 1 where both are empty."""
    union = (one | other).sum(1)
    return torch.where(union > 0, (one & other).sum(1) / union.clamp_min(1), 1.0)


def ranks(weights: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
    """The places of the weights among those that are there, ties sharing their mean place, centred; 0 where there is none."""
    far = weights.double().masked_fill(~present, torch.inf)
    sorted_, order = far.sort(dim=1)
    _, group = torch.unique_consecutive(sorted_.flatten() + 0.0, return_inverse=True)
    group = group.reshape(sorted_.shape)
    starts = torch.cat([torch.ones_like(group[:, :1], dtype=torch.bool), group[:, 1:] != group[:, :-1]], 1)
    run = starts.cumsum(1) - 1 + torch.arange(len(weights))[:, None] * weights.shape[1]  # a number for every run of ties
    place = torch.arange(weights.shape[1], dtype=torch.double).expand_as(far)
    total = torch.zeros(run.numel(), dtype=torch.double).index_add(0, run.flatten(), place.flatten())
    count = torch.zeros(run.numel(), dtype=torch.double).index_add(0, run.flatten(), torch.ones(run.numel(), dtype=torch.double))
    shared = (total / count.clamp_min(1))[run]
    back = torch.zeros_like(shared).scatter(1, order, shared)
    there = present.sum(1, keepdim=True)
    return torch.where(present, back - (there - 1) / 2, 0.0).float()


def alike(one: Explanation, other: Explanation) -> None:
    """Refuse explanations of different inputs or classes."""
    if one.weights.shape != other.weights.shape or not torch.equal(one.present, other.present):
        raise BadSetting(
            f"The explanations have shapes {tuple(one.weights.shape)} and {tuple(other.weights.shape)}, or other features; "
            "wanted two explanations of the same inputs with the same features and classes."
        )
