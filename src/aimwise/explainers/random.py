"""A control: weights drawn at random. A method that is no better explains nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.explainers.base import Explainer
from aimwise.masked import Masked


@dataclass(eq=False, repr=False)
class Random(Explainer):
    """Noise for weights, the same whenever the same input is explained."""

    method: ClassVar[str] = "random"

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        pass

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        x = batch.x.cpu().flatten(1).double().contiguous().view(torch.int64)  # (B, p) the bits of each number
        place = torch.arange(batch.present.shape[1] * probs.shape[1])  # (d * C,)
        stirred = mixed(x + mixed(torch.arange(x.shape[1]) + self.seed_))  # (B, p)
        key = torch.where(x == 0, 0, stirred).sum(1)  # (B,), padding does not count
        bits = mixed(key[:, None] + mixed(place + self.seed_))  # (B, d * C)
        noise = (bits >> 11).double() / 2**52  # uniform in [-1, 1)
        return noise.float().reshape(*batch.present.shape, probs.shape[1]).to(probs.device)


def mixed(bits: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Whole numbers stirred until nothing of their order is left; whole-number overflow wraps around."""
    for _ in range(3):
        bits = (bits ^ (bits >> 29)) * -4658895280553007687
    return bits ^ (bits >> 32)
