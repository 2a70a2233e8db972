"""Ways to draw z, the share of each feature that is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.processes import Draws

Source = torch.Generator | Draws
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


def concrete(pi: Float[Tensor, "*B d"], tau: float, rng: Source) -> Float[Tensor, "*B d"]:
    """A Concrete sample, the equation before (2): softmax over {keep, drop} of (log pi + Gumbel noise) / tau."""
    return torch.sigmoid((log_odds(pi) + logistic_noise(pi, rng)) / tau)


def concrete_released(pi: Float[Tensor, "*B d"], tau: float, rng: Source) -> Float[Tensor, "*B d"]:
    """The released code's sample, in which the temperature cancels."""
    return torch.sigmoid(log_odds(pi) + logistic_noise(pi, rng))


def hard(pi: Float[Tensor, "*B d"], tau: float, rng: Source) -> Float[Tensor, "*B d"]:
    """A Bernoulli sample, 0 or 1, through which no gradient flows."""
    return (concrete(pi.detach(), tau, rng) > 0.5).to(pi.dtype)


def straight_through(pi: Float[Tensor, "*B d"], tau: float, rng: Source) -> Float[Tensor, "*B d"]:
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


def uniform(shape: Sequence[int], rng: Source, *, rows: int = 0) -> Tensor:
    """Numbers between 0 and 1. rows: the dimension along which inputs stand."""
    return rng.uniform(shape, rows) if isinstance(rng, Draws) else torch.rand(shape, generator=rng)


def logistic_noise(like: Tensor, rng: Source) -> Tensor:
    """The difference of two Gumbel draws."""
    u = uniform(like.shape, rng).clamp(1e-7, 1 - 1e-7)
    return torch.logit(u).to(like.device)


def gumbel_top(
    logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"], k: int, tau: float, rng: Source
) -> Float[Tensor, "B d"]:
    """K relaxed one-hot draws over the features and their maximum (Chen et al. 2018, equation 6): at most K are kept."""
    u = uniform((len(logits), k, logits.shape[1]), rng).clamp(1e-7, 1 - 1e-7).to(logits.device)
    noisy = only_present(logits, present)[:, None] - (-u.log()).log()  # (B, K, d)
    return (noisy / tau).softmax(-1).amax(1) * present


def top(logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"], k: int) -> Float[Tensor, "B d"]:
    """1 for the K features of the largest logits, 0 for the others."""
    first = only_present(logits, present).topk(min(k, logits.shape[1]), dim=1).indices
    return torch.zeros_like(logits).scatter(1, first, 1.0) * present


def only_present(logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
    """Logits under which softmax leaves nothing to features that are not there."""
    return logits.masked_fill(~present, -1e9)


def shapley_masks(present: Bool[Tensor, "B d"], masks: int, rng: torch.Generator) -> Float[Tensor, "B M d"]:
    """Masks from the Shapley kernel: of s features with probability in proportion to 1 / (s (n - s)), in complementary pairs.

    A row of one feature has no such mask and is kept whole.
    """
    drawn, n = (masks + 1) // 2, present.sum(1).cpu()  # n: (B,)
    sizes = torch.arange(present.shape[1] + 1)  # (d + 1,)
    inside = (sizes > 0) & (sizes < n[:, None])  # (B, d + 1)
    weight = inside / (sizes * (n[:, None] - sizes)).clamp_min(1)
    weight = torch.where(inside.any(1, keepdim=True), weight, (sizes == n[:, None]).float())
    size = torch.multinomial(weight, drawn, replacement=True, generator=rng).to(present.device)  # (B, drawn)
    u = torch.rand(len(present), drawn, present.shape[1], generator=rng).to(present.device)
    rank = u.masked_fill(~present[:, None], 2.0).argsort(-1).argsort(-1)
    z = (rank < size[..., None]).float() * present[:, None]
    return torch.cat([z, present[:, None].float() - z], 1)[:, :masks]


def rebar(pi: Float[Tensor, "B d"], tau: float, rng: Source) -> tuple[Tensor, Tensor, Tensor]:
    """For REBAR (Tucker et al. 2017): a Bernoulli sample, its relaxation, and the relaxation drawn again given the sample."""
    noise = uniform((2, *pi.shape), rng, rows=1).clamp(1e-6, 1 - 1e-6).to(pi.device)
    free = log_odds(pi) + torch.logit(noise[0])  # (B, d)
    z = (free > 0).to(pi.dtype)
    p = pi.clamp(1e-6, 1 - 1e-6)
    given = torch.where(z > 0, noise[1] * p + 1 - p, noise[1] * (1 - p))
    again = log_odds(pi) + torch.logit(given, eps=1e-6)
    return z, torch.sigmoid(free / tau), torch.sigmoid(again / tau)
