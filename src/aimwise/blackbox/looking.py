"""What a torch module computes at each of the ids that it reads, for those who may look: no gradients, nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

PARTS = (nn.Embedding, nn.RNNBase, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.LayerNorm, nn.Linear)


@dataclass
class Sight:
    """The first and the last of what parts said that had one vector for each id: how ids are read, and what came of them."""

    ids: Int[Tensor, "B L"]
    first: Tensor | None = None
    last: Tensor | None = None

    def note(self, part: nn.Module, given: tuple[Any, ...], made: Any) -> None:
        """Take what a part said, if it is about each id."""
        made = made[0] if isinstance(made, tuple) else made
        if not isinstance(made, Tensor) or made.ndim != 3:
            return
        turned = made.shape[:2] == self.ids.T.shape  # words before texts, as some networks have it
        if not turned and made.shape[:2] != self.ids.shape:
            return
        if isinstance(part, nn.Embedding) and not (given and self._are_ids(given[0], turned)):
            return  # it embeds something else, such as places
        made = made.transpose(0, 1) if turned else made
        if self.first is None:
            self.first = made
        else:
            self.last = made

    def _are_ids(self, given: Any, turned: bool) -> bool:
        return isinstance(given, Tensor) and torch.equal(given.T if turned else given, self.ids)

    @property
    def vectors(self) -> Float[Tensor, "B L h"] | None:
        """Both side by side; None where no part spoke of each id."""
        found = [made for made in (self.first, self.last) if made is not None]
        return torch.cat([made.float() for made in found], 2) if found else None


def told_apart(texts: int, width: int) -> Int[Tensor, " n"]:
    """Numbers of all texts, the last once more where another axis could be taken for them: one text for something that all
    share, as many texts as words for the words."""
    more = next(n for n in range(3) if texts + n not in (1, width)) if texts else 0
    return torch.arange(texts + more).clamp_max(texts - 1)


@contextmanager
def looking(module: nn.Module, ids: Int[Tensor, "B L"]) -> Iterator[Sight]:
    """Inside, what the module computes at each of these ids is noted while it is asked about them."""
    sight = Sight(ids)
    hooks = [part.register_forward_hook(sight.note) for part in module.modules() if isinstance(part, PARTS)]
    try:
        yield sight
    finally:
        for hook in hooks:
            hook.remove()
