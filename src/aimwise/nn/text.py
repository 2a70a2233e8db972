"""Networks for texts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import glu, pad

from aimwise.features.words import PAD, TextLayout

SIZE = 128
NEAR = 96
LEAST = 1e-3  # probability that is taken for what it is
REACH = 2  # words on either side that one layer sees
NEAREST, PLACES = 8, 24  # so many places at either end are told apart, those behind them by their order of magnitude


class TextExplainer(nn.Module):
    """E: what each word says by itself, changed by its place, the words around it, the whole text and the black box's answer.

    The words say by how much they differ from each other; what they say together begins as the black box's own log-odds and is
    learned apart. Else the sum over hundreds of words, thrown about by every step, hides what single words say.
    sight: how many numbers the black box shows of each word; with them E knows words that it has seldom seen.
    """

    def __init__(self, layout: TextLayout, classes: int, sight: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, SIZE, padding_idx=PAD)
        self.narrow = nn.Linear(SIZE, NEAR)
        self.from_start, self.from_end = nn.Embedding(PLACES, NEAR), nn.Embedding(PLACES, NEAR)
        self.near = nn.ModuleList(Around(NEAR) for _ in range(2))
        self.whole = nn.Linear(NEAR + classes, NEAR)
        self.mix = nn.Sequential(nn.Linear(2 * NEAR, SIZE), nn.GELU())
        self.alone, self.head = nn.Linear(SIZE, classes, bias=False), nn.Linear(SIZE, classes, bias=False)
        self.together = nn.Linear(NEAR, classes)
        with torch.no_grad():
            self.embedding.weight *= 0.3
            self.from_start.weight *= 0.1
            self.from_end.weight *= 0.1
            for last in (self.alone, self.head, self.together):  # no word says more than another until the data make it
                last.weight.zero_()
            self.together.bias.zero_()
        self.look = Look(sight, classes) if sight else None

    def forward(
        self, x: Int[Tensor, "B d"], probs: Float[Tensor, "B C"], seen: Float[Tensor, "B d h"] | None = None
    ) -> Float[Tensor, "B d C"]:
        there = (x != PAD)[..., None]  # (B, d, 1)
        before = there.squeeze(2).cumsum(1) - 1  # (B, d)
        behind = before[:, -1:] - before
        word = self.embedding(x)  # (B, d, e)
        near = self.narrow(word) + self.from_start(place(before)) + self.from_end(place(behind))  # (B, d, n)
        alone = self.alone(word)  # (B, d, C)
        if self.look is not None:
            known, says = self.look(seen)
            near, alone = near + known, alone + says * there
        near = near * there
        for layer in self.near:
            near = layer(near) * there
        words = there.sum(1).clamp_min(1)  # (B, 1)
        text = self.whole(torch.cat([near.sum(1) / words, probs], 1))  # (B, n)
        apart = alone + self.head(self.mix(torch.cat([near, text[:, None].expand_as(near)], 2))) * there
        total = probs.clamp_min(LEAST).log() + self.together(text)  # (B, C)
        W: Tensor = apart + ((total - apart.sum(1)) / words)[:, None]  # (B, d, C)
        return W - W.mean(-1, keepdim=True)


class Look(nn.Module):
    """What the black box computes at each word, as E takes it in, and what it says by itself."""

    def __init__(self, sight: int, classes: int) -> None:
        super().__init__()
        self.even = nn.LayerNorm(sight)
        self.near, self.alone = nn.Linear(sight, NEAR), nn.Linear(sight, classes, bias=False)
        with torch.no_grad():
            self.alone.weight.zero_()

    def forward(self, seen: Float[Tensor, "B d h"]) -> tuple[Float[Tensor, "B d n"], Float[Tensor, "B d C"]]:
        even = self.even(seen)
        return self.near(even), self.alone(even)


def place(steps: Int[Tensor, "B d"]) -> Int[Tensor, "B d"]:
    """How far from an end, exactly where that is near, else in half powers of two."""
    far = NEAREST + (2 * torch.log2(steps.clamp_min(NEAREST) / NEAREST)).long()
    return torch.where(steps < NEAREST, steps, far).clamp(0, PLACES - 1)


class Around(nn.Module):
    """A gated convolution over the words, added to what each was; as one product, which is faster on processors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear((2 * REACH + 1) * size, 2 * size)

    def forward(self, x: Float[Tensor, "B d n"]) -> Float[Tensor, "B d n"]:
        wide = pad(x, (0, 0, REACH, REACH))
        window = torch.cat([wide[:, i : i + x.shape[1]] for i in range(2 * REACH + 1)], -1)
        return x + glu(self.dense(window))


class PlainTextExplainer(nn.Module):
    """E of the paper: each word by itself through three dense layers, so that explaining is a look-up."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.dense = nn.Sequential(
            nn.Dropout(0.2),
            nn.Linear(100, 250),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(250, 250),
            nn.ReLU(),
            nn.Linear(250, classes),
        )

    def forward(self, x: Int[Tensor, "B d"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        if self.training:  # every occurrence has its own dropout
            W: Tensor = self.dense(self.embedding(x))
            return W
        words, place = torch.unique(x, return_inverse=True)
        table: Tensor = self.dense(self.embedding(words))  # (words, C)
        return table[place]


class TextSelector(nn.Module):
    """S of the paper: a bidirectional LSTM and three dense layers to the probability that each word is kept."""

    def __init__(self, layout: TextLayout) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.lstm = nn.LSTM(100, 100, batch_first=True, bidirectional=True)
        self.dense = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(200, 100), nn.ReLU(), nn.Dropout(0.2), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1)
        )

    def forward(self, x: Int[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        states, _ = self.lstm(self.embedding(x))
        pi: Tensor = self.dense(states).squeeze(-1).sigmoid()
        return pi


class TextApproximator(nn.Module):
    """G of the paper: the kept words' embeddings through a convolution and a maximum over the text."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, 100)
        self.near = nn.Conv1d(100, 250, 3, padding=1)
        self.head = nn.Linear(250, classes)

    def forward(self, x: Int[Tensor, "B d"], z: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        kept = self.embedding(x) * z[..., None]  # (B, d, e)
        scores: Tensor = self.head(self.near(kept.transpose(1, 2)).relu().amax(2))
        return scores
