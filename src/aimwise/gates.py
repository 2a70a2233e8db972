"""Inputs whose features are kept by a share inside the model: what a black box must be told to do that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class GatedTexts:
    """Texts with the character places of their features, the share by which each is kept, and what stands in for the rest."""

    texts: Sequence[str]
    spans: np.ndarray  # (B, d, 2), start and end; the same number twice where there is no feature
    share: Float[Tensor, "B d"]
    fill: str  # "mask", "pad" or "zero"

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: slice | np.ndarray) -> GatedTexts:
        index = np.arange(len(self))[rows]
        return replace(self, texts=[self.texts[i] for i in index], spans=self.spans[index], share=self.share[index])


@dataclass(frozen=True)
class GatedIds:
    """Token ids and the share by which the embedding of each is kept."""

    ids: Int[Tensor, "B L"]
    share: Float[Tensor, "B L"]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice | np.ndarray) -> GatedIds:
        return GatedIds(self.ids[rows], self.share[rows])
