"""What a method finds of some inputs, before it becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Weighed:
    """The black box's answers to inputs, their weights, and what features say in twos if the method tells."""

    probs: Float[Tensor, "B C"]
    W: Float[Tensor, "B d C"]
    pairs: Pairs | None = None

    @classmethod
    def nothing(cls, present: Bool[Tensor, "B d"], classes: int) -> Weighed:
        """Room for what will be found of inputs."""
        return cls(torch.zeros(len(present), classes), torch.zeros(*present.shape, classes))

    def placed(self, rows: Int[Tensor, " b"], part: Weighed, present: Bool[Tensor, "b d"]) -> Weighed:
        """This with some rows found, written in place; nothing is said of features that are absent."""
        there = present[..., None]
        self.W[rows, : part.W.shape[1]], self.probs[rows] = (part.W * there).cpu(), part.probs.cpu()
        if part.pairs is None:
            return self
        parts, forms, pairs = part.pairs.parts * there, part.pairs.forms, self.pairs
        if pairs is None:
            pairs = Pairs(torch.zeros(*self.W.shape[:2], parts.shape[2]), torch.zeros(len(self.W), *forms.shape[1:]))
        pairs.parts[rows, : parts.shape[1]], pairs.forms[rows] = parts.cpu(), forms.cpu()
        return replace(self, pairs=pairs)


def together(parts: Sequence[Weighed]) -> Weighed:
    """What was found of several batches of like width."""
    pairs = [part.pairs for part in parts if part.pairs is not None]
    both = torch.cat([part.probs for part in parts]), torch.cat([part.W for part in parts])
    return Weighed(*both, Pairs.joined(pairs) if pairs else None)
