"""A metric of one's own, included in the page about it."""

import torch

from aimwise.metrics import Ablation


def lead(ablation: Ablation) -> torch.Tensor:
    """By how much the chosen features alone put the class ahead of its strongest rival. Higher is better."""
    kept = ablation.kept.mean(0)  # (B, C): the mean over the draws of a random fill
    rows = torch.arange(len(kept))
    rivals = kept.clone()
    rivals[rows, ablation.target] = -1
    return kept[rows, ablation.target] - rivals.amax(1)
