"""Parts that were tried for the default recipe and stand beside it in the laboratory: networks, masks and losses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import glu, log_softmax, pad

from aimwise.explainers.aim import LOSSES, MASKS
from aimwise.features.words import PAD, TextLayout
from aimwise.nn.build import NETWORKS, Family
from aimwise.nn.losses import cross_entropy
from aimwise.nn.sampling import Noise, shapley_masks, uniform_masks
from aimwise.nn.text import NEAR, Around, TextApproximator, TextExplainer, TextSelector

SIZE = 128
WAVES = 16


class Places(nn.Module):
    """Where a word stands, from the beginning and from the end of its text, as waves of several lengths."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("pace", torch.exp(-math.log(1000.0) * torch.arange(WAVES) / WAVES))
        self.dense = nn.Linear(4 * WAVES, size)

    def forward(self, there: Tensor) -> Tensor:
        at = there.float().cumsum(1)  # (B, d)
        left = at[:, -1:] - at
        waves = torch.cat([at[..., None] * self.pace, left[..., None] * self.pace], -1)
        out: Tensor = self.dense(torch.cat([waves.sin(), waves.cos()], -1))
        return out


class Reader(nn.Module, ABC):
    """A word by itself and in its context; a subclass says what the context is."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(layout.ids, SIZE, padding_idx=PAD)
        self.places = Places(SIZE)
        self.answer = nn.Linear(classes, SIZE)
        self.alone = nn.Linear(SIZE, classes)
        self.mix = nn.Sequential(nn.Linear(2 * SIZE, SIZE), nn.GELU())
        self.head = nn.Linear(SIZE, classes)
        self.build()
        with torch.no_grad():
            self.embedding.weight *= 0.3
            self.head.weight *= 0.1
            self.alone.weight *= 0.1

    @abstractmethod
    def build(self) -> None: ...

    @abstractmethod
    def context(self, seen: Tensor, there: Tensor) -> Tensor: ...

    def forward(self, x: Tensor, probs: Tensor) -> Tensor:
        there = x != PAD
        word = self.embedding(x)
        seen = (word + self.places(there) + self.answer(probs)[:, None]) * there[..., None]
        seen = self.context(seen, there)
        mean = (seen * there[..., None]).sum(1) / there.sum(1).clamp_min(1)[:, None]
        W = self.alone(word) + self.head(self.mix(torch.cat([seen, mean[:, None].expand_as(seen)], 2)))
        return W - W.mean(-1, keepdim=True)


class Attending(Reader):
    """Two layers of attention."""

    def build(self) -> None:
        layer = nn.TransformerEncoderLayer(SIZE, 4, 2 * SIZE, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def context(self, seen: Tensor, there: Tensor) -> Tensor:
        none = ~there.any(1, keepdim=True)
        out: Tensor = self.layers(seen, src_key_padding_mask=~(there | none))
        return out


class Recurrent(Reader):
    """A bidirectional LSTM."""

    def build(self) -> None:
        self.lstm = nn.LSTM(SIZE, SIZE // 2, batch_first=True, bidirectional=True)

    def context(self, seen: Tensor, there: Tensor) -> Tensor:
        out: Tensor = seen + self.lstm(seen)[0]
        return out


class Dilated(Reader):
    """Gated convolutions over nearer and farther neighbours."""

    steps = (1, 3, 9)

    def build(self) -> None:
        self.layers = nn.ModuleList(nn.Linear(5 * SIZE, 2 * SIZE) for _ in self.steps)

    def context(self, seen: Tensor, there: Tensor) -> Tensor:
        for step, dense in zip(self.steps, self.layers, strict=True):
            wide = pad(seen, (0, 0, 2 * step, 2 * step))
            window = torch.cat([wide[:, i * step : i * step + seen.shape[1]] for i in range(5)], -1)
            seen = (seen + glu(dense(window))) * there[..., None]
        return seen


class Near(Dilated):
    """The same over near neighbours alone."""

    steps = (1, 1)


class Faint(TextExplainer):
    """The default's, with words' vectors that begin near 0, so that a word seldom seen says little by chance."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__(layout, classes)
        with torch.no_grad():
            self.embedding.weight *= 0.03


class Deep(TextExplainer):
    """The default's, with twice as many layers over the neighbours."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__(layout, classes)
        self.near = nn.ModuleList(Around(NEAR) for _ in range(4))


class Through(nn.Module):
    """A bidirectional LSTM over the words, added to what each was."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.lstm(x)[0]
        return out


class Reading(TextExplainer):
    """The default's, that reads the text both ways after it has seen the neighbours."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__(layout, classes)
        self.near = nn.ModuleList([Around(NEAR), Through(NEAR)])


class Pair(nn.Module):
    """The mean of two explainers, each with its own start."""

    def __init__(self, layout: TextLayout, classes: int) -> None:
        super().__init__()
        self.two = nn.ModuleList(Faint(layout, classes) for _ in range(2))

    def forward(self, x: Tensor, probs: Tensor) -> Tensor:
        return torch.stack([one(x, probs) for one in self.two]).mean(0)


def ends_masks(present: Tensor, masks: int, rng: torch.Generator, *, noise: Noise) -> Tensor:
    """Masks of nearly nothing and nearly everything, in pairs: sizes from Beta(0.4, 0.4)."""
    drawn = (masks + 1) // 2
    a, b = (torch._standard_gamma(torch.full((len(present), drawn, 1), 0.4), generator=rng) for _ in range(2))
    z = (noise((len(present), drawn, present.shape[1]), rng) < a / (a + b).clamp_min(1e-6)).float().to(present.device)
    return torch.cat([z, 1 - z], 1)[:, :masks] * present[:, None]


def leaning_masks(present: Tensor, masks: int, rng: torch.Generator, *, noise: Noise) -> Tensor:
    """Half of the masks of every size, in pairs, and half that keep most: shares from 0.4 to 1."""
    most, d = masks // 2, present.shape[1]
    z = uniform_masks(present, masks - most, rng, noise=noise)
    share = 0.4 + 0.6 * torch.rand(len(present), most, 1, generator=rng)
    kept = (noise((len(present), most, d), rng) < share).float().to(present.device) * present[:, None]
    return torch.cat([z, kept], 1)


def few_masks(present: Tensor, masks: int, rng: torch.Generator, *, noise: Noise) -> Tensor:
    """Sizes uniform on a logarithmic scale, and complements."""
    drawn, d = (masks + 1) // 2, present.shape[1]
    count = present.sum(1).clamp_min(1).float().cpu()
    share = count[:, None, None] ** torch.rand(len(present), drawn, 1, generator=rng) / count[:, None, None]
    z = (noise((len(present), drawn, d), rng) < share).float().to(present.device)
    return torch.cat([z, 1 - z], 1)[:, :masks] * present[:, None]


def kernel_masks(present: Tensor, masks: int, rng: torch.Generator, *, noise: Noise) -> Tensor:
    """The Shapley kernel's."""
    return shapley_masks(present, masks, rng)


def with_log_odds(target: Tensor, scores: Tensor) -> Tensor:
    """Cross entropy and the squared difference of centred log-probabilities, which are clipped."""
    wanted = target.clamp_min(1e-4).log()
    got = log_softmax(scores, -1).clamp_min(math.log(1e-4))
    wanted, got = wanted - wanted.mean(-1, keepdim=True), got - got.mean(-1, keepdim=True)
    return cross_entropy(target, scores) + 0.05 * (wanted - got).square().sum(-1).mean()


def register() -> None:
    """Make the candidates known by name."""
    networks = {"attention": Attending, "recurrent": Recurrent, "dilated": Dilated, "near": Near, "faint": Faint, "pair": Pair}
    networks |= {"deep": Deep, "reading": Reading}
    for name, made in networks.items():
        NETWORKS["text", name] = Family(made, TextSelector, TextApproximator)
    MASKS.update(ends=ends_masks, few=few_masks, kernel=kernel_masks, leaning=leaning_masks)
    LOSSES["log_odds"] = with_log_odds
