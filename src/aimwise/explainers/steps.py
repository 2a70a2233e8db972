"""An epoch's rows in steps: inputs of like size go together, and the masks of several steps are asked about in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from aimwise.batch import Batch
from aimwise.explainers.asked import Asked, Draw, by_size
from aimwise.masked import Masked
from aimwise.nn.sampling import Source
from aimwise.processes import Draws, Share

Ask = Callable[[Batch, Tensor, torch.Generator], Tensor]

STEPS_AHEAD = 16  # among so many steps' rows those of like size are looked for
CELLS_AHEAD = 1 << 24  # of masks that are laid out for the steps ahead
SEEN_AHEAD = 1 << 27  # numbers that the black box shows at once


@dataclass(frozen=True, eq=False)
class Step:
    """The rows of a step that this process learns from, and all of them."""

    batch: Batch
    whole: Batch
    share: Share

    @classmethod
    def of(cls, box: Masked, rows: Batch) -> Step:
        """This process's part of a step."""
        whole, share = box.features.trim(rows), box.processes.step(len(rows))
        return cls(whole if share.count == 1 else box.features.part(whole, share.rows), whole, share)

    def own(self, rows: Tensor) -> Tensor:
        """Of something that all rows have, that of its own rows."""
        return rows if self.share.count == 1 else rows[self.share.rows]

    def asked(self, box: Masked, z: Tensor, rng: torch.Generator) -> Tensor:
        """The answers to masks (B, M, d) of its own rows, (B, M, C); each process asks about its own."""
        if self.share.count == 1:
            return box.each(self.batch, z, rng)
        wide = pad(z, (0, self.whole.present.shape[1] - z.shape[2]))
        every = box.processes.gathered(wide[: 0 if self.share.idle else None], self.share)  # a random fill is drawn for all rows
        return self.own(box.each(self.whole, every, rng))

    def drawing(self, rng: torch.Generator) -> Source:
        """Randomness for its own rows."""
        return rng if self.share.count == 1 else Draws(rng, self.share, self.whole.present.shape[1])


def plain_steps(
    box: Masked, data: Batch, probs: Tensor, order: Tensor, *, size: int, rng: torch.Generator
) -> Iterator[tuple[Step, Tensor]]:
    """For each step its rows and the black box's answers to them."""
    for ahead in torch.split(order, size * STEPS_AHEAD):
        steps = torch.split(by_size(data, ahead), size)
        for i in torch.randperm(len(steps), generator=rng).tolist():
            step = Step.of(box, data.pick(steps[i]))
            yield step, probs[step.own(steps[i]).to(probs.device)]


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
    sight: int = 0,
) -> Iterator[tuple[Step, Tensor, Tensor, Tensor, Tensor | None]]:
    """For each step its rows, the answers to them, masks of them (B, M, d), the answers to those (B, M, C), and what the black
    box shows of the rows, (B, d, sight), if one process learns."""
    each = size * masks
    if asked is None:
        steps_ahead = max(1, box.rows_per_call // each)
    else:
        steps_ahead = max(1, min(STEPS_AHEAD, CELLS_AHEAD // (each * data.present.shape[1])))
    if sight:
        steps_ahead = max(1, min(steps_ahead, SEEN_AHEAD // (size * data.present.shape[1] * sight)))
    for ahead in torch.split(order, size * steps_ahead):
        ahead = by_size(data, ahead)
        block, known = box.features.trim(data.pick(ahead)), probs[ahead.to(probs.device)]
        if asked is None:
            z = draw(block.present, masks, rng)  # (A, M, d)
            said = ask(block, z, rng)  # (A, M, C)
        else:
            z, said = asked.draw(ahead, masks, rng)
        looked = box.looked(block) if sight and box.processes.count == 1 else None
        seen = None if looked is None else looked[1]  # (A, d, h)
        steps = torch.split(torch.arange(len(ahead)), size)
        for i in torch.randperm(len(steps), generator=rng).tolist():
            step = Step.of(box, block.pick(steps[i]))
            here, width = step.own(steps[i]).to(probs.device), step.batch.present.shape[1]
            yield step, known[here], z[here, :, :width], said[here], None if seen is None else seen[here, :width]
