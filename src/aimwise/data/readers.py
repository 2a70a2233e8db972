"""The paper's black boxes for texts: their networks, their vocabulary, training and files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from aimwise.data.base import Dataset
from aimwise.errors import BadFile, unknown
from aimwise.features.tokenizer import tokenize
from aimwise.files import load_tensors, read_json, save_tensors, write_folder, write_json
from aimwise.progress import bar

PAD, UNKNOWN = 0, 1
CONFIG, WEIGHTS = "reader.json", "reader.safetensors"


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

    def encode(self, texts: Sequence[str], length: int) -> Tensor:
        """Ids of the first words of every text, padded: (n, length)."""
        tokens = tokenize(texts)
        place = np.arange(len(tokens.row)) - np.searchsorted(tokens.row, tokens.row)
        at = np.minimum(np.searchsorted(self._keys, tokens.key), len(self._keys) - 1)
        ids = np.where(self._keys[at] == tokens.key, self._order[at] + 2, UNKNOWN)
        out = np.full((len(texts), length), PAD, dtype=np.int64)
        within = place < length
        out[tokens.row[within], place[within]] = ids[within]
        return torch.from_numpy(out)


class BiGRU(nn.Module):
    """Embedding 100, a GRU of 250 each way, its last states through two dense layers (IMDB)."""

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 100)
        self.gru = nn.GRU(100, 250, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(500, 250), nn.ReLU(), nn.Dropout(0.1), nn.Linear(250, classes))

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.gru(self.embedding(x))  # (2, B, 250)
        scores: Tensor = self.head(torch.cat([last[0], last[1]], 1))
        return scores


class WordCNN(nn.Module):
    """Embedding 100, 250 filters each of the widths 10, 3, 3 and 1, their maxima through two dense layers (AG News)."""

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 100)
        self.filters = nn.ModuleList(nn.Conv1d(100, 250, width) for width in (10, 3, 3, 1))
        self.head = nn.Sequential(nn.Linear(1000, 250), nn.ReLU(), nn.Dropout(0.1), nn.Linear(250, classes))

    def forward(self, x: Tensor) -> Tensor:
        words = self.embedding(x).transpose(1, 2)  # (B, 100, d)
        scores: Tensor = self.head(torch.cat([f(words).relu().amax(2) for f in self.filters], 1))
        return scores


class LSTMTransformer(nn.Module):
    """Embedding 256 with sinusoidal places, one encoder layer of 4 heads, an LSTM of 512 each way (HateXplain)."""

    places: Tensor

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 256)
        self.register_buffer("places", sinusoids(512, 256))
        self.encoder = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.5, batch_first=True)
        self.lstm = nn.LSTM(256, 512, batch_first=True, bidirectional=True)
        sizes = ((1024, 128), (128, 64))
        layers = [m for a, b in sizes for m in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.5))]
        self.head = nn.Sequential(*layers, nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        words = self.encoder(self.embedding(x) + self.places[: x.shape[1]])
        _, (last, _) = self.lstm(words)
        scores: Tensor = self.head(torch.cat([last[0], last[1]], 1))
        return scores


def sinusoids(length: int, size: int) -> Tensor:
    """The places of the transformer: sines and cosines of growing wave length."""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, size, 2) * (-math.log(10_000.0) / size))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


@dataclass(frozen=True)
class Recipe:
    """How one of the paper's black boxes is built and trained."""

    network: str
    length: int
    batch_size: int
    lr: float
    epochs: int


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {"bigru": BiGRU, "word_cnn": WordCNN, "lstm_transformer": LSTMTransformer}
RECIPES: dict[str, Recipe] = {
    "imdb": Recipe("bigru", 400, 64, 1e-3, 20),
    "ag_news": Recipe("word_cnn", 400, 100, 1e-3, 20),
    "hatexplain": Recipe("lstm_transformer", 200, 64, 1e-4, 50),
}


@dataclass
class Reader:
    """A trained network over ids, with the vocabulary that makes them."""

    network: str
    length: int
    vocabulary: Vocabulary
    module: nn.Module
    classes: tuple[str, ...]
    accuracy: float = 0.0  # on the part of the data it was chosen by

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Texts as the ids that the network takes."""
        return self.vocabulary.encode(texts, self.length)

    def save(self, path: Path) -> Path:
        """Write a folder with reader.json and reader.safetensors."""
        facts = {
            "format": "aimwise-reader",
            "version": 1,
            "network": self.network,
            "length": self.length,
            "classes": list(self.classes),
            "accuracy": self.accuracy,
            "words": list(self.vocabulary.words[2:]),
        }

        def write(folder: Path) -> None:
            save_tensors(folder / WEIGHTS, self.module.state_dict())
            write_json(folder / CONFIG, facts)

        write_folder(path, write, CONFIG)
        return path

    @classmethod
    def load(cls, path: Path) -> Reader:
        """The reader that `save` wrote."""
        facts = read_json(path / CONFIG)
        tensors, _ = load_tensors(path / WEIGHTS)
        try:
            if facts["format"] != "aimwise-reader" or facts["version"] != 1:
                raise BadFile(f"{path} is not a reader of version 1. Train it again.")
            vocabulary = Vocabulary(facts["words"])
            with torch.device("meta"):
                module = NETWORKS[facts["network"]](len(vocabulary.words), len(facts["classes"]))
            module.load_state_dict(tensors, assign=True)
            return cls(facts["network"], facts["length"], vocabulary, module.eval(), tuple(facts["classes"]), facts["accuracy"])
        except (KeyError, TypeError, AttributeError, RuntimeError) as e:
            raise BadFile(f"{path} is damaged ({type(e).__name__}: {e}). Train the reader again.") from e


def train_reader(data: Dataset, *, seed: int = 0, device: str = "cpu", epochs: int | None = None) -> Reader:
    """Train the paper's black box for a data set and keep the epoch that reads its dev part best."""
    if data.name not in RECIPES:
        raise unknown("text black box", data.name, RECIPES)
    recipe = RECIPES[data.name]
    vocabulary = Vocabulary.learn(data.train.inputs)
    place = torch.device(device)
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        module = NETWORKS[recipe.network](len(vocabulary.words), len(data.classes)).to(place)
        reader = Reader(recipe.network, recipe.length, vocabulary, module, data.classes)
        held = data.dev or data.test
        best: dict[str, Tensor] = {}
        x, y = reader.encode(data.train.inputs).to(place), torch.from_numpy(data.train.labels).to(place)
        dev_x, dev_y = reader.encode(held.inputs[:4000]).to(place), torch.from_numpy(held.labels[:4000]).to(place)
        optimizer = torch.optim.Adam(module.parameters(), lr=recipe.lr)
        rounds = epochs or recipe.epochs
        with bar(rounds * math.ceil(len(x) / recipe.batch_size), "train", unit="step") as shown:
            for _ in range(rounds):
                module.train()
                for index in torch.split(torch.randperm(len(x)), recipe.batch_size):
                    index = index.to(place)
                    loss = cross_entropy(module(x[index]), y[index])
                    optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    optimizer.step()
                    shown.update(1)
                right = accuracy(module, dev_x, dev_y)
                if right > reader.accuracy:
                    reader.accuracy, best = right, {k: v.detach().clone() for k, v in module.state_dict().items()}
    module.load_state_dict(best)
    module.eval()
    return reader


@torch.no_grad()
def accuracy(module: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of rows that a network reads right."""
    module.eval()
    right = [int((module(a).argmax(1) == b).sum()) for a, b in zip(torch.split(x, 500), torch.split(y, 500), strict=True)]
    return sum(right) / len(y)
