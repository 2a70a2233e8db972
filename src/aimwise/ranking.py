"""In which order features make up a class: by the additive explanation itself, each given those before it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.pairs import Pairs

ONE_BY_ONE = 32  # so many features are chosen one at a time; of long inputs the later ones, which matter less, in groups
CELLS = 1 << 24  # numbers that are compared at once
LOW = 1e30
TINY = 1e-37


def by_weight(weights: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Int[Tensor, "B d"]:
    """Feature numbers from the largest weight to the smallest; absent ones last."""
    return weights.masked_fill(~present, -torch.inf).argsort(dim=1, descending=True, stable=True)


def enough(
    W: Float[Tensor, "B d C"],
    present: Bool[Tensor, "B d"],
    start: Float[Tensor, "B C"],
    target: Int[Tensor, " B"],
    pairs: Pairs | None = None,
) -> Int[Tensor, "B d"]:
    """Features in the order in which they, added to an empty input of scores `start`, raise the target's probability most."""
    return _greedy(W, present, start, target, pairs, sign=1.0)


def needed(
    W: Float[Tensor, "B d C"],
    present: Bool[Tensor, "B d"],
    start: Float[Tensor, "B C"],
    target: Int[Tensor, " B"],
    pairs: Pairs | None = None,
) -> Int[Tensor, "B d"]:
    """Features in the order in which they, taken from a whole input of scores `start`, lower the target's probability most."""
    return _greedy(W, present, start, target, pairs, sign=-1.0)


def _greedy(W: Tensor, present: Tensor, start: Tensor, target: Tensor, pairs: Pairs | None, *, sign: float) -> Tensor:
    if W.shape[2] <= 2 and pairs is None:  # the odds of two classes move with the difference of their weights alone
        return by_weight(W.gather(2, target[:, None, None].expand(-1, W.shape[1], 1)).squeeze(2), present)
    numbers = W[0].numel() + (0 if pairs is None else pairs.parts[0].numel()) if len(W) else 1
    rows = max(1, CELLS // max(numbers, 1))
    parts = []
    for part in (slice(i, i + rows) for i in range(0, max(len(W), 1), rows)):
        one = W[part], present[part], start[part], target[part]
        parts.append(_one_by_one(*one, sign=sign) if pairs is None else _in_twos(*one, pairs.rows(part), sign=sign))
    return torch.cat(parts)


def _in_twos(W: Tensor, present: Tensor, start: Tensor, target: Tensor, pairs: Pairs, *, sign: float) -> Tensor:
    """Each step weighs what is left against what is chosen, or what is left of the input, by the pairs as well."""
    rows, d, _ = W.shape
    scores, own = start.clone(), target[:, None, None].expand(-1, d, 1)
    held = pairs.parts.sum(1) if sign < 0 else torch.zeros_like(pairs.parts[:, 0])  # (B, r)
    by_itself = sign * W * present[..., None] + torch.einsum("bdr,brc->bdc", pairs.parts.square(), pairs.forms)
    last = torch.where(present, 0.0, -LOW)
    chosen: list[Tensor] = []
    for size in group_sizes(d):
        moved = by_itself + torch.einsum("bdr,brc->bdc", pairs.parts, 2 * sign * held[..., None] * pairs.forms)
        moved += scores[:, None]  # (B, d, C) the scores after each step that could be taken
        odds = moved.gather(2, own).squeeze(2) - moved.scatter(2, own, -torch.inf).logsumexp(2)
        best = (sign * odds + last).topk(size, dim=1).indices  # (B, size)
        chosen.append(best)
        after = held + sign * pairs.parts.gather(1, best[..., None].expand(-1, -1, held.shape[1])).sum(1)
        scores = scores + sign * (W * present[..., None]).gather(1, best[..., None].expand(-1, -1, W.shape[2])).sum(1)
        scores = scores + torch.einsum("br,brc->bc", after.square() - held.square(), pairs.forms)
        held, last = after, last.scatter(1, best, -torch.inf)
    return torch.cat(chosen, 1) if chosen else torch.zeros(rows, 0, dtype=torch.long)


def _one_by_one(W: Tensor, present: Tensor, start: Tensor, target: Tensor, *, sign: float) -> Tensor:
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
