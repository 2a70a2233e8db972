"""A method of one's own, included in the page about it."""

from dataclasses import dataclass
from typing import ClassVar

import torch

import aimwise


@dataclass(eq=False, repr=False)
class LeaveOneIn(aimwise.Explainer):
    """Show the model one feature alone: its weight for a class is what the class gains over an empty input."""

    method: ClassVar[str] = "leave_one_in"
    rows_at_once: ClassVar[int] = 1  # a random fill is drawn anew for every row, whatever rows come with it

    draws: int = 16

    @property
    def asks(self):
        return True  # explaining asks about changed inputs

    @property
    def sampled(self):
        return False  # the same weights whatever the seed, but for a random fill

    def _fit(self, box, data, probs, seed, folder):
        pass  # nothing is learned

    def _weigh(self, box, batch, probs):
        rng = torch.Generator().manual_seed(self.seed_)
        features = batch.present.shape[1]
        z = torch.eye(features).expand(len(batch), -1, -1)  # (B, d, d): mask i keeps feature i alone
        alone = box.averaged(self.draws).each(batch, z, rng)  # (B, d, C)
        return alone - self.base_.softmax(-1)
