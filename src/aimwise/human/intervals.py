"""Shares with intervals that hold for other participants and other items, and tests between methods.

An answer depends on who gives it and on what is shown, so neither answers, nor participants, nor items alone are independent
draws. The variance is that of a crossed design: what participants differ by, plus what items differ by, less what single answers
are counted for in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

EXACT = 12  # with so many participants or items, every one of the 2^n ways to swap is tried
DRAWS = 4096
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A figure and the 95 % interval around it, NaN where there is too little to tell."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Share:
    """Which answers count, and which of them are hits: (P, I) each."""

    hit: Bool[np.ndarray, "P I"]
    counted: Bool[np.ndarray, "P I"]

    @property
    def of_each(self) -> Float[np.ndarray, " P"]:
        """Every participant's share; NaN for one without an answer that counts."""
        return ratio((self.hit & self.counted).sum(1), self.counted.sum(1))

    @property
    def value(self) -> float:
        """The mean over participants of their shares, as in the paper."""
        known = self.of_each[~np.isnan(self.of_each)]
        return float(known.mean()) if len(known) else math.nan

    def pull(self) -> Float[np.ndarray, "P I"]:
        """By how much each answer moves the value (its influence); they add up to 0."""
        each = self.counted.sum(1, keepdims=True)
        people = max(int((each > 0).sum()), 1)
        out: np.ndarray = np.where(self.counted, (self.hit - self.value) / (people * np.maximum(each, 1)), 0.0)
        return out


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """A share where there is anything to share, else NaN."""
    out: np.ndarray = np.where(bottom > 0, top / np.maximum(bottom, 1), np.nan)
    return out


def interval(share: Share) -> Interval:
    """The interval of a share over participants and items: Wilson's, with as many independent answers as the variance tells.

    Where all hit or all miss there is no variance to see; then participants or items, whichever are fewer, are taken for the
    number of independent answers. With one participant or one item there is no interval.
    """
    value, (people, items) = share.value, sizes(share.counted)
    if math.isnan(value) or min(people, items) < 2:
        return Interval(value)
    spread = crossed(share.pull(), people, items)
    count = value * (1 - value) / spread if spread > 0 and 0 < value < 1 else float(min(people, items))
    t = quantile(min(people, items) - 1)
    middle = (value + t**2 / (2 * count)) / (1 + t**2 / count)
    half = t / (1 + t**2 / count) * math.sqrt(value * (1 - value) / count + t**2 / (4 * count**2))
    return Interval(value, max(0.0, min(middle - half, value)), min(1.0, max(middle + half, value)))


def over_items(share: Share) -> Interval:
    """The interval of one reader's share over other items, where there are no participants to differ: Wilson's."""
    (_, items), value = sizes(share.counted), share.value
    if math.isnan(value) or items < 2:
        return Interval(value)
    t = quantile(items - 1)
    middle = (value + t**2 / (2 * items)) / (1 + t**2 / items)
    half = t / (1 + t**2 / items) * math.sqrt(value * (1 - value) / items + t**2 / (4 * items**2))
    return Interval(value, max(0.0, middle - half), min(1.0, middle + half))


def difference(one: Share, other: Share) -> Interval:
    """How much larger one share is than another of the same participants and items."""
    value = one.value - other.value
    people, items = sizes(one.counted | other.counted)
    if math.isnan(value) or min(people, items) < 2:
        return Interval(value)
    half = quantile(min(people, items) - 1) * math.sqrt(crossed(one.pull() - other.pull(), people, items))
    return Interval(value, max(-1.0, value - half), min(1.0, value + half))


def crossed(pull: Float[np.ndarray, "P I"], people: int, items: int) -> float:
    """The variance of a sum of influences where participants and items are both drawn at random."""
    by_person = float((pull.sum(1) ** 2).sum()) * people / (people - 1)
    by_item = float((pull.sum(0) ** 2).sum()) * items / (items - 1)
    return max(by_person + by_item - float((pull**2).sum()), by_person, by_item)


def sizes(counted: Bool[np.ndarray, "P I"]) -> tuple[int, int]:
    """How many participants and items have an answer that counts."""
    return int(counted.any(1).sum()), int(counted.any(0).sum())


def quantile(freedom: int) -> float:
    """Student's t, for a 95 % interval."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, freedom))


@dataclass(frozen=True)
class Paired:
    """Whether two methods differ: the chance of so large a difference if their names meant nothing.

    people: names swapped for whole participants; items: for whole items. The larger one counts: a difference should hold for
    other people and for other inputs.
    """

    people: float
    items: float
    exact: bool

    @property
    def p(self) -> float:
        """The larger of the two."""
        return max(self.people, self.items)


def paired(one: Share, other: Share, *, seed: int = 0) -> Paired:
    """A permutation test over participants and one over items, each exact where at most 12 of them have answers."""
    both = one.counted.any(1) & other.counted.any(1)
    hits = [(share.hit & share.counted)[both].astype(float) for share in (one, other)]  # (P, I) each
    counts = [share.counted[both].astype(float) for share in (one, other)]
    seen = (counts[0] + counts[1]).any(0)
    (h1, h2), (n1, n2) = ([each[:, seen] for each in pair] for pair in (hits, counts))
    if not len(h1):
        return Paired(math.nan, math.nan, True)
    gaps = ratio(h1.sum(1), n1.sum(1)) - ratio(h2.sum(1), n2.sum(1))  # (P,)
    people = chance(lambda swap: (1 - 2 * swap) @ gaps / len(gaps), len(gaps), seed)

    def by_items(swap: np.ndarray) -> np.ndarray:
        first = ratio(h1 @ (1 - swap).T + h2 @ swap.T, n1 @ (1 - swap).T + n2 @ swap.T)  # (P, draws)
        second = ratio(h2 @ (1 - swap).T + h1 @ swap.T, n2 @ (1 - swap).T + n1 @ swap.T)
        gap = first - second
        out: np.ndarray = np.nansum(gap, 0) / np.maximum((~np.isnan(gap)).sum(0), 1)
        return out

    items = chance(by_items, h1.shape[1], seed)
    return Paired(people, items, max(len(gaps), h1.shape[1]) <= EXACT)


def chance(statistic: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> float:
    """How often swapping gives at least as large a difference, of either sign: in all 2^n ways where few, else in random ones."""
    if n <= EXACT:
        swaps = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    else:
        swaps = np.random.default_rng(seed).integers(0, 2, (DRAWS, n)).astype(float)
        swaps[0] = 0.0  # what was seen is one of the ways
    found = np.abs(statistic(swaps))
    return float((found >= found[0] - 1e-12).mean())


def holm(chances: list[float]) -> list[float]:
    """The same chances corrected for being several (Holm's way)."""
    known = sorted((p, i) for i, p in enumerate(chances) if not math.isnan(p))
    out, worst = list(chances), 0.0
    for rank, (p, i) in enumerate(known):
        worst = max(worst, min(1.0, p * (len(known) - rank)))
        out[i] = worst
    return out
