"""Texts and their explained words as the renderers need them: pieces, places, words over all texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.codec import counted, packed, signs_for
from aimwise.render.views import margins, shade_scale

OFTEN = 2  # a word of the plot over all rows should come so many times


@dataclass(frozen=True)
class Passage:
    """One text and the places of its explained words, in reading order."""

    text: str
    places: tuple[tuple[int, int, int], ...]  # feature, start, end
    beyond: int
    """How many words of the tail were not explained."""

    def pieces(self) -> Iterator[tuple[str, int | None]]:
        """The text up to its tail, cut into words, each with its feature number, and what stands between them."""
        at = 0
        for feature, start, end in self.places:
            if start > at:
                yield self.text[at:start], None
            yield self.text[start:end], feature
            at = end

    @property
    def tail(self) -> str:
        """What stands behind the last explained word."""
        return self.text[self.places[-1][2] :] if self.places else self.text

    @property
    def note(self) -> str:
        """What the reader must know of the tail."""
        if not self.beyond:
            return ""
        return f"{self.beyond:,} more words were not explained" if self.beyond > 1 else "1 more word was not explained"


def passage(explanation: Explanation, row: int) -> Passage:
    """The text of a row; words without a known place are set one behind the other."""
    here = explanation.present[row].nonzero().flatten().tolist()
    beyond = 0 if explanation.unexplained is None else int(explanation.unexplained[row])
    if explanation.sources is None or explanation.spans is None:
        words = [str(explanation.values[row, j]) for j in here]
        ends = list(accumulate(len(w) + 1 for w in words))
        places = tuple((j, end - 1 - len(w), end - 1) for j, w, end in zip(here, words, ends, strict=True))
        return Passage(" ".join(words), places, beyond)
    spans = explanation.spans[row].tolist()
    return Passage(explanation.sources[row], tuple((j, *spans[j]) for j in here), beyond)


@dataclass(frozen=True)
class Lexicon:
    """Every lower-cased word of all texts and where it occurs."""

    words: list[str]
    ids: np.ndarray  # (N,) the word of each occurrence
    counts: np.ndarray  # (V,)

    @classmethod
    def of(cls, explanation: Explanation) -> Lexicon:
        """The words of an explanation, row by row."""
        known: dict[str, int] = {}
        found = [known.setdefault(str(w).lower(), len(known)) for w in explanation.values[explanation.present.numpy()]]
        ids = np.array(found, dtype=np.int64)
        return cls(list(known), ids, np.bincount(ids, minlength=len(known)))

    @property
    def rare(self) -> np.ndarray:
        """Whether a word comes too seldom for a plot over all texts, (V,)."""
        return self.counts < OFTEN

    def leading(self, weights: np.ndarray, most: int) -> list[tuple[str, float, float, int]]:
        """The words that stand out most: word, mean weight, mean size, count; rare words only where too few are not."""
        totals = np.bincount(self.ids, weights=weights, minlength=len(self.words))
        sizes = np.bincount(self.ids, weights=np.abs(weights), minlength=len(self.words))
        stand_out = prominence(sizes, self.counts)
        order = np.lexsort((-stand_out, self.rare))[:most]
        return [
            (self.words[i], float(totals[i] / self.counts[i]), float(sizes[i] / self.counts[i]), int(self.counts[i]))
            for i in order[np.argsort(-stand_out[order], kind="stable")]
        ]


def prominence(totals: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How far each word stands out over all texts: its mean size times the logarithm of how often it comes, from the total.

    By the total alone the list would be one of stop words, each of them small and very frequent.
    """
    out: np.ndarray = totals / np.maximum(counts, 1) * np.log1p(counts)
    return out


def record(explanation: Explanation) -> dict[str, object]:
    """What the script needs of texts: the places of their words in UTF-16 units, and their weights."""
    passages = [passage(explanation, i) for i in range(len(explanation))]
    weights = explanation.weights.double().numpy()
    rows = [weights[i, [j for j, _, _ in p.places]] for i, p in enumerate(passages)]
    signs = signs_for(sum(len(row) for row in rows) * len(explanation.classes))
    return {
        "texts": [p.text for p in passages],
        "spans": [counted(steps(places(p))) for p in passages],
        **packed(rows, signs),
        "scale": float(f"{shade_scale(explanation.weights, explanation.present):.4g}"),
        "margin": float(f"{shade_scale(margins(explanation.weights)[0][:, :, None], explanation.present):.4g}"),
        "beyond": [p.beyond for p in passages],
        "notes": [p.note for p in passages],
    }


def steps(places: list[int]) -> list[int]:
    """Each place as how far it is from the one before."""
    return [at - before for before, at in zip([0, *places], places, strict=False)]


def places(p: Passage) -> list[int]:
    """Start and end of each word as JavaScript counts, to which a character beyond the basic plane is two."""
    flat = [at for _, *place in p.places for at in place]
    if p.text.isascii():
        return flat
    wide = [0, *accumulate(ord(sign) > 0xFFFF for sign in p.text)]
    return [at + wide[at] for at in flat]
