"""The terms of the objective, equations (2), (4) and (5) of the paper, and the released code's readings of them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot


def additive(W: Float[Tensor, "B d C"], z: Float[Tensor, "B M d"], base: Float[Tensor, " C"]) -> Float[Tensor, "B M C"]:
    """Scores of the additive explanation, base + W^T z, for M masks a row."""
    return base + torch.einsum("bdc,bmd->bmc", W, z)


def cross_entropy(target: Float[Tensor, "*B C"], scores: Float[Tensor, "*B C"]) -> Float[Tensor, ""]:
    """CE(target, softmax(scores)), equations (2) and (4); the target is one-hot or a row of probabilities."""
    return -(target * log_softmax(scores, dim=-1)).sum(-1).mean()


def cross_entropy_released(target: Float[Tensor, "*B C"], scores: Float[Tensor, "*B C"]) -> Float[Tensor, ""]:
    """The released code's loss: softmax is applied twice, so that the loss is bounded."""
    return cross_entropy(target, scores.softmax(-1))


def hardened(probs: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    """The most probable class as a one-hot row."""
    return one_hot(probs.argmax(-1), probs.shape[-1]).to(probs.dtype)


def group_norm(W: Float[Tensor, "B d C"]) -> Float[Tensor, ""]:
    """The mean over inputs of ||W||_2,1 in equation (5): the classes of one feature are a group."""
    return smooth_norm(W, dim=2).sum(1).mean()


def group_norm_released(W: Float[Tensor, "B d C"]) -> Float[Tensor, ""]:
    """The released code's norm: the features of one class are a group, summed over the inputs."""
    return smooth_norm(W, dim=1).sum()


def smooth_norm(W: Tensor, dim: int) -> Tensor:
    """The Euclidean norm along one dimension, differentiable at 0."""
    return (W.square().sum(dim) + 1e-12).sqrt()


def decidedness(pi: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The mean KL divergence of Bernoulli(pi) from a fair coin: log 2 for features that are always or never kept."""
    pi = pi.clamp(1e-6, 1 - 1e-6)
    return (pi * (2 * pi).log() + (1 - pi) * (2 - 2 * pi).log()).mean()
