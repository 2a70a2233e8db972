"""What the black box says of the strongest features of each row alone, and of all the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aimwise.batch import Batch
from aimwise.explanation import Explanation, Trial
from aimwise.masked import Masked


def tried(box: Masked, data: Batch, explanation: Explanation, ks: Sequence[int], seed: int) -> tuple[Trial, ...]:
    """Ask about the k strongest features of every row alone and about the others, for all k at once."""
    if not ks:
        return ()
    if not len(data):
        return tuple(Trial(k, explanation.probs, explanation.probs, explanation.images, explanation.images) for k in ks)
    kept = torch.stack([explanation.chosen(k) for k in ks], 1)  # (B, K, d)
    said = box.each(data, torch.cat([kept, 1 - kept], 1), torch.Generator().manual_seed(seed))  # (B, 2 K, C)
    out = []
    for n, k in enumerate(ks):
        images = []
        if explanation.images is not None:
            for z in (kept[:, n], 1 - kept[:, n]):
                rng = torch.Generator().manual_seed(seed)
                images.append(box.features.pictures(box.features.dim(data, z * data.present, rng)))
        out.append(Trial(k, said[:, n], said[:, len(ks) + n], *images))
    return tuple(out)
