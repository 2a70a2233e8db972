"""An epoch's rows in steps: inputs of like size go together, and the masks of several steps are asked about in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aimwise.batch import Batch
from aimwise.explainers.asked import Asked, Draw, by_size
from aimwise.masked import Masked

Ask = Callable[[Batch, Tensor, torch.Generator], Tensor]

STEPS_AHEAD = 16  # among so many steps' rows those of like size are looked for


def plain_steps(
    box: Masked, data: Batch, probs: Tensor, order: Tensor, *, size: int, rng: torch.Generator
) -> Iterator[tuple[Batch, Tensor]]:
    """For each step its rows and the black box's answers to them."""
    for ahead in torch.split(order, size * STEPS_AHEAD):
        steps = torch.split(by_size(data, ahead), size)
        for i in torch.randperm(len(steps), generator=rng).tolist():
            yield box.features.trim(data.pick(steps[i])), probs[steps[i].to(probs.device)]


def asked_steps(
    box: Masked,
    data: Batch,
    probs: Tensor,
    order: Tensor,
    *,
    size: int,
    masks: int,
    asked: Asked | None,
    draw: Draw,
    ask: Ask,
    rng: torch.Generator,
) -> Iterator[tuple[Batch, Tensor, Tensor, Tensor]]:
    """For each step its rows, the answers to them, masks of them (B, M, d), and the answers to those (B, M, C)."""
    steps_ahead = max(1, box.rows_per_call // (size * masks))
    for ahead in torch.split(order, size * steps_ahead):
        ahead = by_size(data, ahead)
        block, known = box.features.trim(data.pick(ahead)), probs[ahead.to(probs.device)]
        if asked is None:
            z = draw(block.present, masks, rng)  # (A, M, d)
            said = ask(block, z, rng)  # (A, M, C)
        else:
            z, said = asked.draw(ahead, masks, rng)
        steps = torch.split(torch.arange(len(ahead)), size)
        for i in torch.randperm(len(steps), generator=rng).tolist():
            batch, here = box.features.trim(block.pick(steps[i])), steps[i].to(probs.device)
            yield batch, known[here], z[here, :, : batch.present.shape[1]], said[here]
