"""Answers about random masks, asked for once and learned from in every epoch: for black boxes that may be asked little."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import OutOfQueries
from aimwise.masked import Masked
from aimwise.nn.sampling import uniform_masks
from aimwise.training import Plan


@dataclass(frozen=True)
class Asked:
    """M masks of each of n rows and what the black box said of them."""

    place: Int[Tensor, " N"]  # where a row's masks stand below
    z: Bool[Tensor, "n M d"]
    said: Float[Tensor, "n M C"]

    @classmethod
    def within_budget(
        cls, box: Masked, data: Batch, rows: Int[Tensor, " n"], masks: int, plan: Plan, rng: torch.Generator
    ) -> Asked | None:
        """None if the black box may be asked about fresh masks in every epoch; else all that it may still be asked."""
        left = box.meter.left
        if left is None or left >= plan.epochs * plan.rows(len(rows)) * masks:
            return None
        each = left // len(rows)
        if each < 1:
            raise OutOfQueries(
                f"{left} queries are left for {len(rows)} rows, wanted at least one for each row to learn from. "
                "Raise max_queries, or fit on fewer rows."
            )
        batch = data.pick(rows)
        z = uniform_masks(batch.present, each, rng)  # (n, M, d)
        place = torch.full((len(data),), -1)
        place[rows] = torch.arange(len(rows))
        return cls(place, z.bool(), box.each(batch, z, rng))

    def draw(self, rows: Int[Tensor, " A"], masks: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Some of the masks of these rows, and the answers to them."""
        chosen = torch.rand(len(rows), self.z.shape[1], generator=rng).argsort(1)[:, :masks].to(self.z.device)  # (A, M)
        at = self.place[rows].to(self.z.device)[:, None]
        return self.z[at, chosen].float(), self.said[at, chosen]
