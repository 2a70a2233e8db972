"""Occlusion: take one feature away and see what changes (Zeiler & Fergus 2014; Li et al. 2016 for words)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadSetting, unknown
from aimwise.explainers.base import Explainer
from aimwise.masked import Masked

SCALES = ("probability", "log_odds")
CERTAIN = 1e-6  # probabilities nearer to 0 or 1 have no log-odds of use
CELLS = 1 << 24  # numbers that masks made at once may have together


@dataclass(eq=False, repr=False)
class Occlusion(Explainer):
    """Leave one feature out: its weight for a class is what the class loses without it.

    scale: what is lost, "probability" or "log_odds". draws: how often a random fill is drawn for each feature, and the answers
    averaged.
    """

    method: ClassVar[str] = "occlusion"
    rows_at_once: ClassVar[int] = 64

    scale: str = "probability"
    draws: int = 16

    @property
    def asks(self) -> bool:
        return True

    @property
    def sampled(self) -> bool:
        return False

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)
        if self.draws < 1:
            raise BadSetting(f"draws={self.draws}, wanted at least 1.")

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        pass

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        W = torch.zeros(*batch.present.shape, probs.shape[1], device=probs.device)
        # a random fill is drawn anew for each row: its draws must not hang on which other rows are asked about
        rows = torch.split(torch.arange(len(batch)), 1 if box.features.random else max(len(batch), 1))
        for some in rows:
            part, rng = batch.pick(some), torch.Generator().manual_seed(self.seed_)
            pairs = part.present.nonzero()  # (n, 2) rows and the features they have
            for row, feature in ((p[:, 0], p[:, 1]) for p in torch.split(pairs, max(1, CELLS // W.shape[1]))):
                z = torch.ones(len(row), W.shape[1], device=probs.device)
                z[torch.arange(len(row)), feature] = 0
                without = box.averaged(self.draws).some(part, row, z, rng)  # (n, C)
                at = some.to(row.device)[row]
                W[at, feature] = self._scaled(probs[at]) - self._scaled(without)
        return W

    def _scaled(self, probs: Tensor) -> Tensor:
        return probs.double().logit(eps=CERTAIN).float() if self.scale == "log_odds" else probs
