"""What a loader hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and their labels, 0 to C-1."""

    inputs: Any
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in two parts or three, the names of its classes, and a note on the choices made in loading it."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    note: str
    dev: Split | None = None
