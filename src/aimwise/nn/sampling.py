"""Ways to draw z, the share of each feature that is kept."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Noise = Callable[[tuple[int, int, int], torch.Generator], Tensor]


def uniform_masks(
    present: Bool[Tensor, "B d"], masks: int, rng: torch.Generator, *, noise: Noise, paired: bool = True
) -> Float[Tensor, "B M d"]:
    """Random masks whose size is uniform between none and all; the second half are complements of the first.

    noise: a number between 0 and 1 for each feature; features of like numbers are kept or taken away together.
    """
    drawn = (masks + 1) // 2 if paired else masks
    drawing = noise((len(present), drawn, present.shape[1]), rng)
    share = torch.rand(len(present), drawn, 1, generator=rng)
    z = (drawing < share).float().to(present.device)
    if paired:
        z = torch.cat([z, 1 - z], dim=1)[:, :masks]
    return z * present[:, None, :]


def shared_masks(present: Bool[Tensor, "B d"], masks: int, seed: int) -> Float[Tensor, "B M d"]:
    """The same M masks for every row, so that what is measured on them depends on the row alone."""
    rng = torch.Generator().manual_seed(seed)
    share = torch.rand(masks, generator=rng)
    noise = torch.rand(present.shape[1], masks, generator=rng)  # column by column: a longer row extends a shorter one
    z = (noise < share).float().T.to(present.device)  # (M, d)
    return z[None] * present[:, None, :]


def concrete(pi: Float[Tensor, "*B d"], tau: float, rng: torch.Generator) -> Float[Tensor, "*B d"]:
    """A Concrete sample, the equation before (2): softmax over {keep, drop} of (log pi + Gumbel noise) / tau."""
    return torch.sigmoid((log_odds(pi) + logistic_noise(pi, rng)) / tau)


def concrete_released(pi: Float[Tensor, "*B d"], tau: float, rng: torch.Generator) -> Float[Tensor, "*B d"]:
    """The released code's sample, in which the temperature cancels."""
    return torch.sigmoid(log_odds(pi) + logistic_noise(pi, rng))


def hard(pi: Float[Tensor, "*B d"], tau: float, rng: torch.Generator) -> Float[Tensor, "*B d"]:
    """A Bernoulli sample, 0 or 1, through which no gradient flows."""
    return (concrete(pi.detach(), tau, rng) > 0.5).to(pi.dtype)


def straight_through(pi: Float[Tensor, "*B d"], tau: float, rng: torch.Generator) -> Float[Tensor, "*B d"]:
    """0 or 1 forward, the Concrete sample's gradient backward."""
    return snap(concrete(pi, tau, rng))


def snap(z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B d"]:
    """z rounded to 0 or 1, with the gradient of z."""
    return z + ((z > 0.5).to(z.dtype) - z).detach()


def snap_where(z: Float[Tensor, "*B d"], soft: Bool[Tensor, "*s"]) -> Float[Tensor, "*B d"]:
    """z rounded to 0 or 1 for the features that cannot be kept by a share."""
    return torch.where(soft, z, snap(z))


def log_odds(pi: Tensor) -> Tensor:
    """log pi - log (1 - pi), finite."""
    return torch.logit(pi, eps=1e-6)


def logistic_noise(like: Tensor, rng: torch.Generator) -> Tensor:
    """The difference of two Gumbel draws."""
    u = torch.rand(like.shape, generator=rng).clamp(1e-7, 1 - 1e-7)
    return torch.logit(u).to(like.device)
