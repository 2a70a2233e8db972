"""Explanations improved for each row alone, and how much one pass leaves to improve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.explanation import Explanation
from aimwise.masked import Masked
from aimwise.nn.losses import additive
from aimwise.nn.sampling import uniform_masks
from aimwise.progress import bar

HELD = 0.25  # of the masks: they decide when to stop
STEPS = 300
LR = 0.01
CELLS = 1 << 22  # of masks that are worked on at once


def refined(box: Masked, data: Batch, explanation: Explanation, budget: int, seed: int) -> Explanation:
    """The explanation with weights that follow the black box's answers to `budget` random masks of each row."""
    rows = max(1, CELLS // (budget * data.present.shape[1]))
    weights = explanation.weights.clone()
    with bar(len(data), "refine") as shown:
        for start in range(0, len(data), rows):
            part = slice(start, start + rows)
            batch = data.cut(start, start + rows)
            rng = torch.Generator().manual_seed(seed)
            z = uniform_masks(batch.present, budget - budget % 2, rng, noise=box.features.noise)  # (B, M, d)
            said = box.each(batch, z, rng)  # (B, M, C)
            weights[part] = followed(weights[part], explanation.base, z, said) * batch.present[..., None]
            shown.update(len(batch))
    return replace(explanation, weights=weights, method=f"{explanation.method}, refined", check=None, trials=(), scores=True)


def followed(
    W: Float[Tensor, "B d C"], base: Float[Tensor, " C"], z: Float[Tensor, "B M d"], said: Float[Tensor, "B M C"]
) -> Float[Tensor, "B d C"]:
    """Weights that start at W and follow the answers for as many steps as were best on masks held back, all rows together."""
    held = max(1, round(HELD * z.shape[1]))
    order = torch.arange(z.shape[1]).reshape(2, -1).T.flatten()  # a mask and its complement stand together
    z, said = z[:, order], said[:, order]
    lowest, best = float(per_row(W, base, z[:, :held], said[:, :held]).mean()), 0
    for step, now in enumerate(descent(W, base, z[:, held:], said[:, held:]), start=1):
        left = float(per_row(now, base, z[:, :held], said[:, :held]).mean())
        if left < lowest:
            lowest, best = left, step
    steps = descent(W, base, z, said)  # with all masks, as far as was best
    for _ in range(best):
        W = next(steps)
    return W


def descent(W: Tensor, base: Tensor, z: Tensor, said: Tensor) -> Iterator[Tensor]:
    """The weights after each step down the cross entropy of every row."""
    moving = W.clone().requires_grad_()
    optimizer = torch.optim.Adam([moving], lr=LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.autograd.backward(per_row(moving, base, z, said).sum())
        optimizer.step()
        yield moving.detach().clone()


def per_row(W: Tensor, base: Tensor, z: Tensor, said: Tensor) -> Float[Tensor, " B"]:
    """The cross entropy of each row's additive explanation with the black box's answers, the mean over its masks."""
    return -(said * additive(W, z, base).log_softmax(-1)).sum(-1).mean(1)
