"""Networks of the methods that select features: one logit per feature, and the black box's answer from what is selected."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from aimwise.features.columns import TableLayout
from aimwise.features.images import ImageLayout
from aimwise.features.words import PAD, TextLayout
from aimwise.nn.image import ImageApproximator, Scaled, by_label, padded
from aimwise.nn.table import CELL
from aimwise.nn.text import TextApproximator


class TextLogits(nn.Module):
    """L2X's selector of words: each word with its neighbours, and the whole text, to one logit (Chen et al. 2018)."""

    def __init__(self, layout: TextLayout) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.first = nn.Conv1d(100, 100, 3, padding=1)
        self.whole = nn.Linear(100, 100)
        self.near = nn.ModuleList(nn.Conv1d(100, 100, 3, padding=1) for _ in range(2))
        self.both = nn.Sequential(nn.Dropout(0.2), nn.Linear(200, 100), nn.ReLU(), small(nn.Linear(100, 1)))

    def forward(self, x: Int[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        there = (x != PAD)[:, None]  # (B, 1, d), so that the length of the batch's longest text does not matter
        first = self.first(self.embedding(x).transpose(1, 2) * there).relu() * there  # (B, 100, d)
        whole = self.whole(first.amax(2)).relu()[..., None].expand_as(first)
        near = first
        for layer in self.near:
            near = layer(near).relu() * there
        logits: Tensor = self.both(torch.cat([whole, near], 1).transpose(1, 2)).squeeze(-1)
        return logits


class RecurrentTextLogits(nn.Module):
    """VIBI's explainer of words: a bidirectional LSTM of 25 each way to one logit (Bang et al. 2021)."""

    def __init__(self, layout: TextLayout) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.forth, self.back = (nn.LSTM(100, 25, batch_first=True) for _ in range(2))
        self.head = small(nn.Linear(50, 1))

    def forward(self, x: Int[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        words, mirror = self.embedding(x), mirrored(x)  # (B, d, e), (B, d)
        forth, back = self.forth(words)[0], at(self.back(at(words, mirror))[0], mirror)  # (B, d, 25)
        logits: Tensor = self.head(torch.cat([forth, back], 2)).squeeze(-1)
        return logits


class TextMean(nn.Module):
    """L2X's predictor: the mean of the chosen words' embeddings through a dense layer of 250."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.dense = nn.Sequential(nn.Linear(100, 250), nn.ReLU(), nn.Linear(250, classes))

    def forward(self, x: Int[Tensor, "B d"], z: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        kept = (self.embedding(x) * z[..., None]).sum(1)  # (B, e)
        scores: Tensor = self.dense(kept / z.sum(1, keepdim=True).clamp_min(1.0))
        return scores


class RecurrentTextApproximator(nn.Module):
    """VIBI's approximator "lstm": the kept words in their places through an LSTM."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.lstm = nn.LSTM(100, 100, batch_first=True)
        self.head = nn.Linear(100, classes)

    def forward(self, x: Int[Tensor, "B d"], z: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        seen, _ = self.lstm(self.embedding(x) * z[..., None])  # (B, d, h)
        seen = seen * (x != PAD)[..., None]  # behind the last word it reads on, and nothing may come of that
        scores: Tensor = self.head(seen.amax(1))
        return scores


class PlainCells(nn.Module):
    """Every cell of a row as a small vector in proportion to its number, or looked up for a category.

    A number near 0 looks like one that is not kept, so that what is selected says little beyond its values.
    """

    numeric: Tensor
    offset: Tensor

    def __init__(self, layout: TableLayout) -> None:
        super().__init__()
        self.register_buffer("numeric", layout.numeric)
        self.register_buffer("offset", layout.codes.cumsum(0) - layout.codes)
        self.slope = nn.Parameter(torch.randn(len(layout.owner), CELL))
        self.missing = nn.Parameter(torch.randn(len(layout.owner), CELL) * 0.1)
        self.table = nn.Embedding(max(int(layout.codes.sum()), 1), CELL)
        self.size = len(layout.owner) * CELL

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B p e"]:
        value = torch.where(self.numeric, x, 0.0).nan_to_num().clamp(-8, 8)  # (B, p)
        codes = torch.where(self.numeric, 0.0, x.nan_to_num()).long() + self.offset
        levels = self.table(codes.clamp_max(self.table.num_embeddings - 1))
        cells = torch.where(self.numeric[:, None], value[..., None] * self.slope, levels)
        return torch.where((x.isnan() & self.numeric)[..., None], self.missing, cells)


class TableLogits(nn.Module):
    """A row through two dense layers to one logit per feature, as in the papers' synthetic experiments."""

    def __init__(self, layout: TableLayout, width: int) -> None:
        super().__init__()
        self.cells = PlainCells(layout)
        self.dense = dense(self.cells.size, width)
        self.head = small(nn.Linear(width, layout.features))

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B d"]:
        logits: Tensor = self.head(self.dense(self.cells(x).flatten(1)))
        return logits


class TablePredictor(nn.Module):
    """The kept part of a row through two dense layers to class scores; what is not kept is a zero vector."""

    def __init__(self, layout: TableLayout, classes: int, width: int) -> None:
        super().__init__()
        self.cells = PlainCells(layout)
        self.dense = dense(self.cells.size, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Float[Tensor, "B p"], z: Float[Tensor, "B p"]) -> Float[Tensor, "B C"]:
        scores: Tensor = self.head(self.dense((self.cells(x) * z[..., None]).flatten(1)))
        return scores


class ImageLogits(nn.Module):
    """An image and its pixels' places through two convolutions; the mean over a feature's pixels, and the whole, to a logit."""

    def __init__(self, layout: ImageLayout) -> None:
        super().__init__()
        self.layout = layout
        self.scaled = Scaled(layout)
        self.seen = nn.Sequential(
            nn.Conv2d(layout.channels + 2, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()
        )
        self.both = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), small(nn.Linear(64, 1)))

    def forward(self, x: Shaped[Tensor, "B c h w"]) -> Float[Tensor, "B d"]:
        images, side = self.scaled(x), self.layout.patch
        sides = (torch.linspace(-1, 1, n, device=x.device) for n in x.shape[2:])
        place = torch.stack(torch.meshgrid(*sides, indexing="ij"))  # (2, h, w)
        seen = self.seen(torch.cat([images, place.expand(len(x), -1, -1, -1)], 1))  # (B, 32, h, w)
        pooled = avg_pool2d(padded(seen, side), side).flatten(2).transpose(1, 2) if side else by_label(seen, x[:, -1].long())
        parts: Tensor = pooled  # (B, d, 32)
        whole = seen.amax((2, 3))[:, None].expand_as(parts)
        logits: Tensor = self.both(torch.cat([parts, whole], 2)).squeeze(-1)
        return logits


def logits_net(kind: str, layout: Any, width: int, *, recurrent: bool = False) -> nn.Module:
    """A network from inputs of this kind to one logit per feature; `recurrent` is VIBI's for texts."""
    if kind == "table":
        return TableLogits(layout, width)
    if kind == "image":
        return ImageLogits(layout)
    return RecurrentTextLogits(layout) if recurrent else TextLogits(layout)


TEXT_PREDICTORS = {"mean": TextMean, "lstm": RecurrentTextApproximator, "cnn": TextApproximator}


def predictor_net(kind: str, layout: Any, classes: int, width: int, *, text: str) -> nn.Module:
    """A network from the kept part of an input to class scores; `text` names the one for texts."""
    if kind == "table":
        return TablePredictor(layout, classes, width)
    return ImageApproximator(layout, classes) if kind == "image" else TEXT_PREDICTORS[text](layout, classes)


def dense(inputs: int, width: int) -> nn.Sequential:
    """Two dense layers."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def small(layer: nn.Linear) -> nn.Linear:
    """A last layer that starts near 0: no feature is preferred until the data make it."""
    with torch.no_grad():
        layer.weight *= 0.1
        layer.bias.zero_()
    return layer


def mirrored(x: Int[Tensor, "B d"]) -> Int[Tensor, "B d"]:
    """For every place of a text the place as far from its last word as this one is from its first; padding stays where it is."""
    place = torch.arange(x.shape[1], device=x.device)  # (d,)
    words = (x != PAD).sum(1, keepdim=True)  # (B, 1)
    return torch.where(place < words, words - 1 - place, place)


def at(words: Float[Tensor, "B d e"], place: Int[Tensor, "B d"]) -> Float[Tensor, "B d e"]:
    """The vectors that stand at these places of each text."""
    return words.gather(1, place[..., None].expand_as(words))
