"""The paper's black boxes for texts and images as torch modules; each returns one score a class."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from aimwise.errors import BadFeatures
from aimwise.features.words import PAD


class BiGRU(nn.Module):
    """Embedding 100, a GRU of 250 each way, its states at the last place through two dense layers (IMDB).

    The last place is mostly padding, so that what was read has to survive padding. The way back has read one place there, so
    that it needs one step only.
    """

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ids, 100)
        self.forth, self.back = nn.GRU(100, 250, batch_first=True), nn.GRUCell(100, 250)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(500, 250), nn.ReLU(), nn.Dropout(0.1), nn.Linear(250, classes))

    def forward(self, x: Tensor) -> Tensor:
        words = self.embedding(x)  # (B, d, 100)
        _, last = self.forth(words)  # (1, B, 250)
        scores: Tensor = self.head(torch.cat([last[0], self.back(words[:, -1])], 1))
        return scores


class WordCNN(nn.Module):
    """Embedding 100, 250 filters each of the widths 10, 3, 3 and 1, their maxima through two dense layers (AG News).

    Padding is read like a word, but once: behind a window that has nothing else in it, no maximum changes any more.
    """

    widths = (10, 3, 3, 1)

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = small_embedding(ids, 100)
        self.filters = nn.ModuleList(nn.Conv1d(100, 250, width) for width in self.widths)
        self.head = nn.Sequential(nn.Linear(1000, 250), nn.ReLU(), nn.Dropout(0.1), nn.Linear(250, classes))

    def forward(self, x: Tensor) -> Tensor:
        enough = longest(x) + max(self.widths)
        words = self.embedding(x)[:, :enough].transpose(1, 2)  # (B, 100, d)
        scores: Tensor = self.head(torch.cat([f(words).relu().amax(2) for f in self.filters], 1))
        return scores


class SmallCNN(nn.Module):
    """Embedding 50, 64 filters of width 3, their maxima through a dense layer: a reader for a quick look, not the paper's."""

    def __init__(self, ids: int, classes: int) -> None:
        super().__init__()
        self.embedding = small_embedding(ids, 50)
        self.filters = nn.Conv1d(50, 64, 3, padding=1)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.filters(self.embedding(x).transpose(1, 2)).relu().amax(2))
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


def longest(x: Tensor) -> int:
    """How many words the longest of some texts has."""
    read = (x != PAD).any(0).nonzero()
    return int(read[-1]) + 1 if len(read) else 0


def small_embedding(ids: int, size: int) -> nn.Embedding:
    """Vectors that start small: from torch's own, ten times as large, the word CNN learned to read AG News worse."""
    made = nn.Embedding(ids, size)
    with torch.no_grad():
        made.weight *= 0.1
    return made


def sinusoids(length: int, size: int) -> Tensor:
    """The places of the transformer: sines and cosines of growing wave length."""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, size, 2) * (-math.log(10_000.0) / size))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class PaperCNN(nn.Module):
    """28x28 images of 0 to 255 through 10 and 20 filters of 5x5, each pooled, and two dense layers (MNIST, Fashion-MNIST)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.filters = nn.Sequential(
            nn.Conv2d(1, 10, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(10, 20, 5),
            nn.Dropout2d(0.5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, classes))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.filters(scaled(x, 28, 255).to(next(self.parameters()).dtype)))
        return scores


class DigitsCNN(nn.Module):
    """8x8 images of 0 to 16 through 16 and 32 filters of 3x3, each pooled, and two dense layers (digits)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.filters = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.filters(scaled(x, 8, 16).to(next(self.parameters()).dtype)))
        return scores


def scaled(images: Tensor, side: int, top: int) -> Tensor:
    """Grey images, with or without an axis for their one channel, as (n, 1, side, side) from 0 to 1."""
    if images.shape[1:] not in (torch.Size([side, side]), torch.Size([1, side, side])):
        raise BadFeatures(
            f"The network takes images of shape (n, {side}, {side}) or (n, 1, {side}, {side}) with values from 0 to {top}, "
            f"got {tuple(images.shape)}. Pass the images as they were released, many at once."
        )
    return images.reshape(len(images), 1, side, side) / top


TEXT_NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "bigru": BiGRU,
    "word_cnn": WordCNN,
    "small_cnn": SmallCNN,
    "lstm_transformer": LSTMTransformer,
}
IMAGE_NETWORKS: dict[str, Callable[[int], nn.Module]] = {"paper_cnn": PaperCNN, "digits_cnn": DigitsCNN}
