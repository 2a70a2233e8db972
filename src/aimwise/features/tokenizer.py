"""Words with their exact places, found for many texts at once without a loop over characters.

A word is a run of letters, digits and underscores, apostrophes inside it included. Every other visible character is a
token of its own, and so is every character of scripts written without spaces. Combining marks, variation selectors and skin
tones belong to the character before them; what a zero-width joiner joins is one token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

BLOCK = 1 << 16  # characters worked on at once: their arrays stay in the cache
SPACE, WORD, SINGLE, FLAG, EXTENDS, JOINS, APOSTROPHE = range(7)
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that it has an inverse modulo 2^64
UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


@dataclass(frozen=True)
class Tokenized:
    """All tokens of some texts, in order: the text each stands in, its place, and a number for its lower-case spelling."""

    row: np.ndarray  # (T,)
    start: np.ndarray  # (T,) in characters of its text
    end: np.ndarray  # (T,)
    key: np.ndarray  # (T,) uint64
    texts: int

    def counts(self) -> np.ndarray:
        """How many tokens each text has."""
        return np.bincount(self.row, minlength=self.texts)


def tokenize(texts: Sequence[str]) -> Tokenized:
    """The tokens of every text."""
    parts, first, size = [], 0, 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= BLOCK or i == len(texts) - 1:
            parts.append(_tokenize_block(texts[first : i + 1], first))
            first, size = i + 1, 0
    if not parts:
        empty = np.zeros(0, dtype=np.int64)
        return Tokenized(empty, empty, empty, empty.astype(np.uint64), 0)
    row, start, end, key = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Tokenized(row, start, end, key, len(texts))


def _tokenize_block(texts: Sequence[str], first: int) -> tuple[np.ndarray, ...]:
    joined = "\n".join(texts) + "\n"
    chars = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")  # (N,)
    kinds, lower = character_tables()
    kind = kinds[chars]
    begins = starts_of_tokens(kind)
    stops = np.flatnonzero(begins | (kind == SPACE))
    at = np.flatnonzero(begins[stops])
    starts, ends = stops[at], stops[at + 1]  # the last character is a space
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
    row = np.searchsorted(offsets, starts, side="right") - 1
    return row + first, starts - offsets[row], ends - offsets[row], keys(lower[chars], starts, ends)


def starts_of_tokens(kind: np.ndarray) -> np.ndarray:
    """Which characters begin a token, from the kind of each."""
    marks = np.flatnonzero(kind == APOSTROPHE)
    if len(marks):
        inside = (kind[marks - 1] == WORD) & (kind[np.minimum(marks + 1, len(kind) - 1)] == WORD) & (marks > 0)
        kind = kind.copy()
        kind[marks] = np.where(inside, WORD, SINGLE)
    previous = np.empty_like(kind)
    previous[0], previous[1:] = SPACE, kind[:-1]
    if not (kind >= EXTENDS).any():
        return begins_after(kind, previous)
    part = (kind >= EXTENDS) | ((previous == JOINS) & (kind != SPACE))  # of the token before
    last = np.maximum.accumulate(np.where(part, 0, np.arange(len(kind))))  # the last character that is no such part
    before = np.empty_like(kind)
    before[0], before[1:] = SPACE, kind[last[:-1]]
    begins: np.ndarray = (~part & begins_after(kind, before)) | (part & (previous == SPACE))
    return begins


def begins_after(kind: np.ndarray, previous: np.ndarray) -> np.ndarray:
    """Whether a character of one kind begins a token after one of another kind."""
    begins: np.ndarray = (kind == SINGLE) | (((kind == WORD) | (kind == FLAG)) & (kind != previous))
    return begins


def keys(chars: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A 64-bit number for the characters of each token, wherever it stands: a polynomial in BASE, well stirred."""
    power, back = powers(1 << len(chars).bit_length())
    total = np.zeros(len(chars) + 1, dtype=np.uint64)
    np.cumsum((chars + np.uint64(1)) * power[: len(chars)], out=total[1:])
    key: np.ndarray = (total[ends] - total[starts]) * back[starts]
    key ^= key >> np.uint64(31)
    key *= np.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> np.uint64(29)
    return key


@lru_cache(maxsize=4)
def powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """BASE and its inverse modulo 2^64 to the powers 0, 1, 2, ..."""
    inverse = np.uint64(pow(int(BASE), -1, 1 << 64))
    ones = [np.cumprod(np.concatenate([[np.uint64(1)], np.full(count - 1, b)])) for b in (BASE, inverse)]
    return ones[0], ones[1]


@lru_cache(maxsize=1)
def character_tables() -> tuple[np.ndarray, np.ndarray]:
    """The kind and the lower case of every character."""
    size = 0x110000
    by_category = {"Z": SPACE, "C": SPACE, "L": WORD, "N": WORD, "M": EXTENDS, "P": SINGLE, "S": SINGLE}
    kinds = np.full(size, SPACE, dtype=np.uint8)
    lower = np.arange(size, dtype=np.uint64)
    for code in range(0x323B0):  # beyond lie unassigned, special and private characters
        character = chr(code)
        category = unicodedata.category(character)
        kinds[code] = WORD if category == "Pc" else by_category[category[0]]
        small = character.lower()
        if len(small) == 1:
            lower[code] = ord(small)
    kinds[0xD800:0xE000] = SINGLE  # halves of characters that came without the other half
    kinds[0xE000:0xF900] = SINGLE
    for low, high in UNSPACED:
        letters = kinds[low : high + 1] == WORD
        kinds[low : high + 1][letters] = SINGLE
    kinds[0x1F1E6:0x1F200] = FLAG
    kinds[0x1F3FB:0x1F400] = EXTENDS
    kinds[0xFE00:0xFE10] = kinds[0xE0100:0xE01F0] = kinds[0x20D0:0x2100] = EXTENDS
    kinds[0x200D] = JOINS
    kinds[[ord("'"), 0x2019]] = APOSTROPHE
    return kinds, lower
