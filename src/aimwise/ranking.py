"""In which order features make up a class: by the additive explanation itself, each given those before it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ONE_BY_ONE = 32  # so many features are chosen one at a time; of long inputs the later ones, which matter less, in groups
CELLS = 1 << 24  # numbers that are compared at once
LOW = 1e30
TINY = 1e-37


def by_weight(weights: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Int[Tensor, "B d"]:
    """Feature numbers from the largest weight to the smallest; absent ones last."""
    return weights.masked_fill(~present, -torch.inf).argsort(dim=1, descending=True, stable=True)


def enough(
    W: Float[Tensor, "B d C"], present: Bool[Tensor, "B d"], start: Float[Tensor, "B C"], target: Int[Tensor, " B"]
) -> Int[Tensor, "B d"]:
    """Features in the order in which they, added to an empty input of scores `start`, raise the target's probability most."""
    return _greedy(W, present, start, target, sign=1.0)


def needed(
    W: Float[Tensor, "B d C"], present: Bool[Tensor, "B d"], start: Float[Tensor, "B C"], target: Int[Tensor, " B"]
) -> Int[Tensor, "B d"]:
    """Features in the order in which they, taken from a whole input of scores `start`, lower the target's probability most."""
    return _greedy(W, present, start, target, sign=-1.0)


def _greedy(W: Tensor, present: Tensor, start: Tensor, target: Tensor, *, sign: float) -> Tensor:
    if W.shape[2] <= 2:  # the odds of two classes move with the difference of their weights alone
        return by_weight(W.gather(2, target[:, None, None].expand(-1, W.shape[1], 1)).squeeze(2), present)
    rows = max(1, CELLS // max(W[0].numel(), 1)) if len(W) else 1
    parts = [
        _greedy_rows(*(t[i : i + rows] for t in (W, present, start, target)), sign=sign) for i in range(0, max(len(W), 1), rows)
    ]
    return torch.cat(parts)


def _greedy_rows(W: Tensor, present: Tensor, start: Tensor, target: Tensor, *, sign: float) -> Tensor:
    rows, d, classes = W.shape
    scores, moves = start.clone(), sign * W * present[..., None]
    last = torch.where(present, 0.0, -LOW)  # (B, d): absent features come behind all others, and chosen ones never again
    own = moves.gather(2, target[:, None, None].expand(-1, d, 1)).squeeze(2)  # (B, d)
    rivals = moves.scatter(2, target[:, None, None].expand(-1, d, 1), -torch.inf)  # (B, d, C)
    most = rivals.amax(2)  # (B, d)
    shares = (rivals - most[..., None]).exp()  # (B, d, C), so that a step needs one product instead of a softmax a feature
    chosen: list[Tensor] = []
    for size in group_sizes(d):
        others = scores.scatter(1, target[:, None], -torch.inf)  # (B, C)
        top = others.amax(1, keepdim=True)  # (B, 1)
        against = torch.einsum("bdc,bc->bd", shares, (others - top).exp()).clamp_min(TINY).log() + most + top
        odds = scores.gather(1, target[:, None]) + own - against  # (B, d) the target's log-odds, which do not saturate
        best = (sign * odds + last).topk(size, dim=1).indices  # (B, size)
        chosen.append(best)
        scores = scores + moves.gather(1, best[..., None].expand(-1, -1, classes)).sum(1)
        last = last.scatter(1, best, -torch.inf)
    return torch.cat(chosen, 1) if chosen else torch.zeros(rows, 0, dtype=torch.long)


def group_sizes(d: int) -> Iterator[int]:
    """How many features are chosen in each step: one, and in time an eighth of those there already are."""
    done = 0
    while done < d:
        size = min(1 if done < ONE_BY_ONE else max(1, done // 8), d - done)
        yield size
        done += size
