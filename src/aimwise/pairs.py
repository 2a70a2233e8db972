"""What features say in twos, beyond the weight of each: small enough to be learned for every input, and quick to rank by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Pairs:
    """A quadratic form of the mask for every class, sum_r forms[r, c] (sum_i z_i parts[i, r])^2, to be added to base + W^T z.

    Two features that say the same, or nothing one without the other, are known by it. `parts` of absent features are 0.
    """

    parts: Float[Tensor, "B d r"]
    forms: Float[Tensor, "B r C"]

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """Those of several batches of one width, one behind the other."""
        return cls(torch.cat([one.parts for one in parts]), torch.cat([one.forms for one in parts]))

    def scores(self, z: Float[Tensor, "B M d"]) -> Float[Tensor, "B M C"]:
        """What features that are kept by z say in twos."""
        held = torch.einsum("bdr,bmd->bmr", self.parts, z)
        return torch.einsum("bmr,brc->bmc", held.square(), self.forms)

    def whole(self) -> Float[Tensor, "B C"]:
        """What all features say in twos."""
        return torch.einsum("br,brc->bc", self.parts.sum(1).square(), self.forms)

    def rows(self, take: Int[Tensor, " b"] | slice) -> Pairs:
        """Those of some inputs."""
        return Pairs(self.parts[take], self.forms[take])
