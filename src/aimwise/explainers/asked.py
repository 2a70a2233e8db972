"""Answers about random masks, asked for once and learned from in every epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import OutOfQueries
from aimwise.masked import Masked
from aimwise.training import Plan

Draw = Callable[[Tensor, int, torch.Generator], Tensor]

FEWEST = 4  # masks of a row: rather fewer rows than fewer masks of each
MOST_CELLS = 1 << 28  # of all masks together


@dataclass(frozen=True)
class Asked:
    """M masks of each of n rows and what the black box said of them."""

    rows: Int[Tensor, " n"]
    place: Int[Tensor, " N"]  # where a row's masks stand below
    z: Bool[Tensor, "n M d"]
    said: Float[Tensor, "n M C"]

    @classmethod
    def within_budget(
        cls,
        box: Masked,
        data: Batch,
        rows: Int[Tensor, " n"],
        masks: int,
        most: int | None,
        plan: Plan,
        rng: torch.Generator,
        *,
        draw: Draw,
    ) -> Asked | None:
        """None if the black box may be asked about fresh masks in every epoch; else as many as it may be asked about.

        most: asking about more than so many masks is not worth the time, even if it is allowed.
        draw: how masks of rows are drawn, from which features are present and how many masks are wanted.
        """
        left = min((limit for limit in (box.meter.left, most) if limit is not None), default=None)
        if left is None or left >= plan.epochs * plan.rows(len(rows)) * masks:
            return None
        if left < 1:
            raise OutOfQueries(f"{left} queries are left to learn from {len(rows)} rows. Raise max_queries.")
        some = rows[torch.randperm(len(rows), generator=rng)[: max(1, left // FEWEST)]] if left < FEWEST * len(rows) else rows
        batch = data.pick(some)
        each = min(left // len(some), max(FEWEST, MOST_CELLS // batch.present.numel()))
        z = draw(batch.present, each, rng)  # (n, M, d)
        place = torch.full((len(data),), -1)
        place[some] = torch.arange(len(some))
        return cls(some, place, z.bool(), box.each(batch, z, rng))

    def draw(self, rows: Int[Tensor, " A"], masks: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Some of the masks of these rows, and the answers to them."""
        known = self.z.shape[1]
        if known > 4 * masks:  # one mask twice is rare and does no harm
            chosen = torch.randint(known, (len(rows), masks), generator=rng).to(self.z.device)  # (A, M)
        else:
            chosen = torch.rand(len(rows), known, generator=rng).argsort(1)[:, :masks].to(self.z.device)
        at = self.place[rows].to(self.z.device)[:, None]
        return self.z[at, chosen].float(), self.said[at, chosen]
