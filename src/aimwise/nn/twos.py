"""The head of a network that tells what features say in twos."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from aimwise.pairs import Pairs

SIZE = 192


class Twos(nn.Module):
    """A few numbers of each feature, and what the squares of their sums speak for in this input. At first they say nothing.

    They learn from what E sees without changing it: else its weights, which few inputs are enough for, learn too much by heart.
    """

    def __init__(self, each: int, whole: int, classes: int, count: int) -> None:
        super().__init__()
        last = nn.Linear(SIZE, count, bias=False)
        self.part = nn.Sequential(nn.Linear(each, SIZE), nn.GELU(), last)
        self.form = nn.Linear(whole, count * classes)
        self.shape = (count, classes)
        with torch.no_grad():
            self.form.weight.zero_()
            self.form.bias.zero_()
            last.weight *= 3

    def forward(self, each: Float[Tensor, "B d k"], whole: Float[Tensor, "B h"], present: Bool[Tensor, "#B d"]) -> Pairs:
        each, whole = each.detach(), whole.detach()
        count = present.sum(1).clamp_min(1)[:, None, None]
        parts = self.part(each) * present[..., None] * count**-0.5  # sums of many features are no larger than of few
        forms = self.form(whole).unflatten(1, self.shape)
        return Pairs(parts, forms - forms.mean(-1, keepdim=True))
