"""A batch of encoded inputs: what every layer above passes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


@runtime_checkable
class Rows(Protocol):
    """Inputs in the black box's own form that can be picked by row number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


@dataclass(frozen=True)
class Batch:
    """Encoded inputs `x`, which features each of them has, and the raw inputs themselves."""

    x: Shaped[Tensor, "B ..."]
    present: Bool[Tensor, "B d"]
    raw: Rows

    def __len__(self) -> int:
        return len(self.present)

    def pick(self, index: Int[Tensor, " n"]) -> Batch:
        """The rows of these numbers, in this order; a number may come twice."""
        index = index.to(self.x.device)
        raw = self.raw[index.to(self.raw.device)] if isinstance(self.raw, Tensor) else self.raw[index.cpu().numpy()]
        return Batch(self.x[index], self.present[index], raw)

    def cut(self, start: int, stop: int) -> Batch:
        """The rows from start up to stop."""
        rows = self.raw[np.arange(start, min(stop, len(self)))]
        return Batch(self.x[start:stop], self.present[start:stop], rows)

    def to(self, device: torch.device) -> Batch:
        """The same batch with its tensors on a device; raw inputs stay where they are."""
        return Batch(self.x.to(device), self.present.to(device), self.raw)
