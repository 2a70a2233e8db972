"""Inputs as plain rows of numbers for linear models and forests: scaled numbers and one column a level, or counts of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.features.columns import TableLayout

FAR = 8.0  # standard deviations, beyond which a number is taken for this far


def table_rows(layout: TableLayout, x: Float[Tensor, "B p"]) -> np.ndarray:
    """Encoded cells as (B, q): a number is one column, and its median if it is missing; a category has a column a level."""
    parts = []
    for j, (numeric, codes) in enumerate(zip(layout.numeric.tolist(), layout.codes.tolist(), strict=True)):
        if numeric:
            parts.append(x[:, j : j + 1].nan_to_num(0.0, FAR, -FAR).clamp(-FAR, FAR))
        else:
            level = x[:, j].nan_to_num().long().clamp(0, codes - 1)
            parts.append(torch.nn.functional.one_hot(level, codes).to(x.dtype))
    return torch.cat(parts, 1).cpu().numpy()


def table_owner(layout: TableLayout) -> np.ndarray:
    """The feature that each column of `table_rows` belongs to: (q,)."""
    wide = np.where(layout.numeric.numpy(), 1, layout.codes.numpy())
    return np.repeat(layout.owner.numpy(), wide)


def word_counts(batch: Batch, ids: int) -> Any:
    """How often every id stands in each text: a sparse (B, ids) matrix."""
    from scipy.sparse import csr_matrix

    present = batch.present.cpu().numpy()
    row, column = np.nonzero(present)[0], batch.x.cpu().numpy()[present]
    return csr_matrix((np.ones(len(row)), (row, column)), shape=(len(batch), ids))
