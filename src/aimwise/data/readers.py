"""The paper's black boxes for texts: a vocabulary, and a network that reads its ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from aimwise.data.base import Dataset
from aimwise.data.networks import TEXT_NETWORKS
from aimwise.data.trained import PATIENCE, Recipe, Trained, learn
from aimwise.errors import unknown
from aimwise.features.tokenizer import Tokenized, tokenize
from aimwise.features.words import as_texts
from aimwise.training import Plan

UNKNOWN = 1  # 0 is padding
RECIPES: dict[str, Recipe] = {
    "imdb": Recipe("bigru", Plan(epochs=20, batch_size=64, lr=1e-3, patience=PATIENCE), length=400),
    "ag_news": Recipe("word_cnn", Plan(epochs=20, batch_size=100, lr=1e-3, patience=PATIENCE), length=400),
    "hatexplain": Recipe("lstm_transformer", Plan(epochs=50, batch_size=64, lr=1e-4, patience=PATIENCE), length=200),
}


class Vocabulary:
    """Words to ids: 0 is padding, 1 any other word, then the known words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = ("<pad>", "<unk>", *words)
        keys = tokenize(list(words)).key
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    @classmethod
    def learn(cls, texts: Sequence[str], *, min_count: int = 5) -> Vocabulary:
        """The words that come at least so often, the most frequent first."""
        tokens = tokenize(texts)
        keys, first, counts = np.unique(tokens.key, return_index=True, return_counts=True)
        often = np.flatnonzero(counts >= min_count)
        often = often[np.lexsort((keys[often], -counts[often]))]
        at = first[often]
        places = zip(tokens.row[at].tolist(), tokens.start[at].tolist(), tokens.end[at].tolist(), strict=True)
        return cls([texts[row][a:b].lower() for row, a, b in places])

    def ids(self, tokens: Tokenized) -> np.ndarray:
        """The id of every token."""
        at = np.searchsorted(self._keys, tokens.key)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == tokens.key[known]
        ids = np.full(len(at), UNKNOWN, dtype=np.int64)
        ids[known] = self._order[at[known]] + 2
        return ids

    def encode(self, texts: Sequence[str], length: int) -> Tensor:
        """Ids of the first words of every text, padded: (n, length)."""
        tokens = tokenize(texts)
        return laid_out(tokens, self.ids(tokens), length)


def laid_out(tokens: Tokenized, values: np.ndarray, length: int) -> Tensor:
    """What belongs to the first tokens of every text, and 0 where there are no more: (n, length, ...)."""
    place = np.arange(len(tokens.row)) - np.searchsorted(tokens.row, tokens.row)  # (T,) which token of its text
    within = place < length
    out = np.zeros((tokens.texts, length, *values.shape[1:]), dtype=np.int64)
    out[tokens.row[within], place[within]] = values[within]
    return torch.from_numpy(out)


@dataclass(eq=False, kw_only=True)
class Reader(Trained):
    """A trained network over ids, with the vocabulary that makes them."""

    kind: ClassVar[str] = "reader"

    vocabulary: Vocabulary = field(repr=False)
    length: int

    def encode(self, inputs: Any) -> Tensor:
        """Texts as the ids that the network takes."""
        return self.vocabulary.encode(as_texts(inputs), self.length)

    def tokenizer(self, texts: Any) -> dict[str, Tensor]:
        """Texts as ids (n, length), and the characters from and up to which each token stands (n, length, 2)."""
        tokens = tokenize(as_texts(texts))
        places = np.stack([tokens.start, tokens.end], axis=1)
        return {
            "input_ids": laid_out(tokens, self.vocabulary.ids(tokens), self.length),
            "offset_mapping": laid_out(tokens, places, self.length),
        }

    def _config(self) -> dict[str, Any]:
        return {"length": self.length, "words": list(self.vocabulary.words[2:])}

    @classmethod
    def _build(cls, network: str, classes: tuple[str, ...], config: Mapping[str, Any]) -> Reader:
        vocabulary = Vocabulary(config["words"])
        module = TEXT_NETWORKS[network](len(vocabulary.words), len(classes))
        return cls(network=network, module=module, classes=classes, vocabulary=vocabulary, length=config["length"])


def train_reader(data: Dataset, *, seed: int = 0, device: str = "cpu", epochs: int | None = None) -> Reader:
    """Train the paper's black box for a data set of texts."""
    if data.name not in RECIPES:
        raise unknown("text black box", data.name, RECIPES)
    recipe = RECIPES[data.name]
    config = {"length": recipe.length, "words": Vocabulary.learn(data.train.inputs).words[2:]}
    new = partial(Reader._build, recipe.network, data.classes, config)
    return learn(new, data, recipe.plan, seed=seed, device=device, epochs=epochs)
