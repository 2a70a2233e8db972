"""Words of a text as features, each occurrence by itself, with its exact place."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import compress
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadFeatures, BadSetting, unknown
from aimwise.features.base import Features
from aimwise.features.tokenizer import Tokenized, tokenize
from aimwise.gates import GatedTexts

INSIDE = ("mask", "pad", "zero")
TEXT_FILLS = ("delete", "replace", *INSIDE)
PAD = 0
SWAPPED = 0.3  # of the words of a text that is made of another: each becomes any word there is, rare ones as often as others
PLENTY, EACH = 50_000, 3  # texts that need no others made of them, and how many are made of one at most


@dataclass(frozen=True)
class TextLayout:
    """What networks for texts are built from."""

    ids: int  # how many ids there are: padding, known words, and buckets that unknown words share


class Texts:
    """Texts with the places of their words; the pieces between masks are cut once, when they are first needed."""

    def __init__(
        self, texts: Sequence[str], starts: np.ndarray, ends: np.ndarray, counts: np.ndarray, beyond: np.ndarray
    ) -> None:
        self.texts, self.starts, self.ends, self.counts, self.beyond = texts, starts, ends, counts, beyond
        self._pieces: list[tuple[str, list[str], list[str], str] | None] = [None] * len(texts)

    def pieces(self, row: int) -> tuple[str, list[str], list[str], str]:
        """A text as what stands before its words, each word with the gap behind it, those gaps, and what is not explained."""
        known = self._pieces[row]
        if known is None:
            text, n = self.texts[row], int(self.counts[row])
            starts, ends = self.starts[row, :n].tolist(), self.ends[row, :n].tolist()
            stops = [*starts[1:], *ends[-1:]]
            words = [text[a:b] for a, b in zip(starts, stops, strict=True)]
            gaps = [text[a:b] for a, b in zip(ends, stops, strict=True)]
            known = text[: starts[0] if n else len(text)], words, gaps, text[ends[-1] :] if n else ""
            self._pieces[row] = known
        return known


@dataclass(frozen=True)
class TextRows:
    """Some rows of some texts."""

    source: Texts
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, index: np.ndarray, /) -> TextRows:
        return TextRows(self.source, self.index[index])


@dataclass(eq=False)
class Words(Features):
    """Every word and punctuation mark is a feature, the same word twice is two.

    fill: what taking a word away means. For any model: "delete" (the rest closes up) or "replace" (by `token`, in place). For a
    `TextBox`, in place and for all pieces of the word: "mask" (the model's mask token), "pad" (its padding, not looked at) or
    "zero" (the embedding is scaled; only then may a word be kept by a share).
    length: words beyond so many are left as they are and reported as not explained. min_count, vocabulary: words that come more
    often have an id of their own, the most frequent first; all others share `buckets` ids by their spelling.
    """

    kind: ClassVar[str] = "text"

    fill: str = "delete"
    token: str = "[MASK]"
    length: int = 512
    min_count: int = 2
    vocabulary: int = 50_000
    buckets: int = 4096
    keys_: np.ndarray = field(init=False, repr=False)

    def fit(self, inputs: Any) -> Words:
        """A copy that has learned the vocabulary of these texts."""
        self._check_settings()
        found, counts = np.unique(tokenize(as_texts(inputs)).key, return_counts=True)
        often = np.flatnonzero(counts >= self.min_count)
        often = often[np.argsort(-counts[often], kind="stable")][: self.vocabulary]
        new = copy.copy(self)
        new.keys_ = np.sort(found[often])
        return new

    def _check_settings(self) -> None:
        if self.fill not in TEXT_FILLS:
            raise unknown("fill", self.fill, TEXT_FILLS)
        for name in ("length", "min_count", "vocabulary", "buckets"):
            if getattr(self, name) < 1:
                raise BadSetting(f"{name}={getattr(self, name)}, wanted at least 1.")

    @property
    def fitted(self) -> bool:
        return "keys_" in self.__dict__

    @property
    def names(self) -> None:
        return None

    @property
    def soft(self) -> Bool[Tensor, ""]:
        return torch.tensor(self.fill == "zero")

    @property
    def inside(self) -> str | None:
        return self.fill if self.fill in INSIDE else None

    @property
    def fills(self) -> tuple[str, ...]:
        return self.fill, "replace" if self.fill == "delete" else "delete"

    @property
    def random(self) -> bool:
        return False

    def softened(self) -> Words:
        return self.filled("zero")

    @property
    def layout(self) -> TextLayout:
        return TextLayout(1 + len(self.keys_) + self.buckets)

    def encode(self, inputs: Any) -> Batch:
        texts = as_texts(inputs)
        tokens = tokenize(texts)
        all_words = tokens.counts()
        counts = np.minimum(all_words, self.length)
        width = max(int(counts.max(initial=0)), 1)
        place = np.arange(len(tokens.row)) - np.searchsorted(tokens.row, tokens.row)  # (T,) which word of its text
        within = place < self.length
        row, place = tokens.row[within], place[within]

        def padded(values: np.ndarray, dtype: type) -> np.ndarray:
            out: np.ndarray = np.zeros((len(texts), width), dtype=dtype)
            out[row, place] = values[within]
            return out

        x = torch.from_numpy(padded(self._ids(tokens), np.int32))
        present = torch.from_numpy(np.arange(width) < counts[:, None])
        places = padded(tokens.start, np.int64), padded(tokens.end, np.int64)
        source = Texts(texts, *places, counts, all_words - counts)
        return Batch(x, present, TextRows(source, np.arange(len(texts))))

    def _ids(self, tokens: Tokenized) -> np.ndarray:
        known = self.keys_
        at = np.minimum(np.searchsorted(known, tokens.key), max(len(known) - 1, 0))
        bucket = 1 + len(known) + (tokens.key % np.uint64(self.buckets)).astype(np.int64)
        if len(known) == 0:
            return bucket
        return np.where(known[at] == tokens.key, 1 + at, bucket)

    def trim(self, batch: Batch) -> Batch:
        width = max(int(batch.present.sum(1).max()), 1) if len(batch) else 1
        return Batch(batch.x[:, :width], batch.present[:, :width], batch.raw)

    def dim(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> list[str] | GatedTexts:
        rows, out = rows_of(batch), []
        if self.inside:
            return GatedTexts([rows.source.texts[i] for i in rows.index.tolist()], self.spans(batch), z, self.fill)
        keeps = (z > 0.5).tolist()
        for row, keep in zip(rows.index.tolist(), keeps, strict=True):
            before, words, gaps, after = rows.source.pieces(row)
            if self.fill == "delete":
                out.append(f"{before}{''.join(compress(words, keep))}{after}")
            else:
                kept = [w if k else self.token + g for w, g, k in zip(words, gaps, keep, strict=False)]
                out.append(f"{before}{''.join(kept)}{after}")
        return out

    def placed(self, batch: Batch) -> GatedTexts:
        rows = rows_of(batch)
        texts = [rows.source.texts[i] for i in rows.index.tolist()]
        return GatedTexts(texts, self.spans(batch), torch.ones(batch.present.shape), "zero")

    def lacking(self, rows: int, least: int) -> int:
        return lacking_texts(rows, least)

    def enlarged(self, batch: Batch, more: int, rng: torch.Generator) -> Batch:
        rows = rows_of(batch)
        texts = [rows.source.texts[i] for i in rows.index.tolist()]
        found = tokenize(texts)
        _, first = np.unique(found.key, return_index=True)
        words = [texts[found.row[i]][found.start[i] : found.end[i]] for i in first.tolist()]
        made = []
        for row in torch.randint(len(texts), (more if words else 0,), generator=rng).tolist():
            before, own, gaps, after = rows.source.pieces(int(rows.index[row]))
            swap = (torch.rand(len(own), generator=rng) < SWAPPED).tolist()
            other = torch.randint(len(words), (len(own),), generator=rng).tolist()
            told = (words[i] + gap if new else word for word, gap, new, i in zip(own, gaps, swap, other, strict=True))
            made.append(f"{before}{''.join(told)}{after}")
        return self.encode([*texts, *made]).to(batch.x.device)

    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B d"]:
        return z

    def values(self, batch: Batch) -> np.ndarray:
        rows = rows_of(batch)
        out = np.full(tuple(batch.present.shape), "", dtype=object)
        for i, row in enumerate(rows.index.tolist()):
            text, n = rows.source.texts[row], int(rows.source.counts[row])
            starts, ends = rows.source.starts[row, :n].tolist(), rows.source.ends[row, :n].tolist()
            out[i, :n] = [text[a:b] for a, b in zip(starts, ends, strict=True)]
        return out

    def spans(self, batch: Batch) -> np.ndarray:
        rows = rows_of(batch)
        width = batch.present.shape[1]
        places = (rows.source.starts[rows.index, :width], rows.source.ends[rows.index, :width])
        return np.stack(places, axis=-1)

    def sources(self, batch: Batch) -> tuple[str, ...]:
        rows = rows_of(batch)
        return tuple(rows.source.texts[i] for i in rows.index.tolist())

    def unexplained(self, batch: Batch) -> np.ndarray:
        rows = rows_of(batch)
        return np.take(rows.source.beyond, rows.index)

    def config(self) -> dict[str, Any]:
        return {"settings": {f.name: getattr(self, f.name) for f in fields(self) if f.init}}

    def tensors(self) -> dict[str, Tensor]:
        return {"keys": torch.from_numpy(self.keys_.view(np.int64))}

    @classmethod
    def restore(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Words:
        new = cls(**config["settings"])
        new._check_settings()
        new.keys_ = np.sort(tensors["keys"].numpy().view(np.uint64))
        return new


def lacking_texts(rows: int, least: int) -> int:
    """How many texts made of others are worth having beside so many: words that stand in few texts are then seen in more."""
    return max(min(PLENTY - rows, EACH * rows), 0) if least else 0


def rows_of(batch: Batch) -> TextRows:
    """The raw texts of a batch that `encode` made."""
    assert isinstance(batch.raw, TextRows)
    return batch.raw


def as_texts(inputs: Any) -> list[str]:
    """A list of strings from any sequence of them."""
    if isinstance(inputs, str):
        raise BadFeatures("Got one text, wanted a sequence of texts. Pass [text].")
    if isinstance(inputs, Mapping) or len(getattr(inputs, "shape", (1,))) != 1:
        raise BadFeatures(f"Got {type(inputs).__name__}, wanted a sequence of texts. Pass one column: inputs['text'].tolist().")
    texts = list(inputs)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadFeatures(f"Input {i} is {type(text).__name__}, wanted a text. Pass strings only; give missing ones as ''.")
    return texts
