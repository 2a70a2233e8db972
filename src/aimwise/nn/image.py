"""Networks for images: features are the squares of a grid, or what a label map in the last channel says."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from aimwise.features.images import ImageLayout
from aimwise.nn.twos import Twos
from aimwise.pairs import Pairs

SMALLEST = 4  # the coarsest view of an image has about so many cells a side
SIZE = 64
CELLS = 32  # an image that is cut by a label map is seen in about so many cells a side


class Scaled(nn.Module):
    """Images of any type as floats around 0, without the label map."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, layout: ImageLayout) -> None:
        super().__init__()
        self.channels = layout.channels
        self.register_buffer("mean", torch.tensor(layout.mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(layout.deviation)[:, None, None])

    def forward(self, x: Shaped[Tensor, "B c h w"]) -> Float[Tensor, "B k h w"]:
        return (x[:, : self.channels].float() - self.mean) / self.deviation


class ImageExplainer(nn.Module):
    """E: cells of the image seen at several scales, with the whole and the black box's answer, to weights for each feature.

    pairs: how many numbers of each feature tell what features say in twos.
    """

    def __init__(self, layout: ImageLayout, classes: int, pairs: int = 0) -> None:
        super().__init__()
        self.layout = layout
        self.side = layout.patch or max(1, round(max(layout.height, layout.width) / CELLS))
        rows, columns = math.ceil(layout.height / self.side), math.ceil(layout.width / self.side)
        depth = max(0, min(4, round(math.log2(max(rows, columns) / SMALLEST))))
        sizes = [max(16, SIZE >> (depth - i)) for i in range(depth + 1)]  # channels from fine to coarse
        self.scaled = Scaled(layout)
        wide = 2 * sizes[0]
        self.cells = nn.Sequential(
            nn.Conv2d(layout.channels, wide, self.side, stride=self.side), nn.GELU(), nn.Conv2d(wide, sizes[0], 1)
        )
        self.place = nn.Parameter(torch.zeros(sizes[0], rows, columns))
        self.fine = nn.ModuleList(Mixed(size) for size in sizes)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in pairwise(sizes))
        self.out = nn.ModuleList(Mixed(size) for size in sizes[:-1])
        self.whole = nn.Sequential(nn.Linear(sizes[-1] + classes, SIZE), nn.GELU(), nn.Linear(SIZE, sizes[-1]))
        last = nn.Linear(min(SIZE, 2 * sizes[0]), classes)
        with torch.no_grad():
            last.weight *= 0.1
            last.bias.zero_()
        self.head = nn.Sequential(nn.Linear(sizes[0], last.in_features), nn.GELU(), last)
        self.twos = Twos(sizes[0], sizes[-1], classes, pairs) if pairs else None

    def forward(self, x: Shaped[Tensor, "B c h w"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        return self.weighed(x, probs)[0]

    def weighed(self, x: Shaped[Tensor, "B c h w"], probs: Float[Tensor, "B C"]) -> tuple[Float[Tensor, "B d C"], Pairs | None]:
        """Weights, and what features say in twos."""
        seen = self.cells(padded(self.scaled(x), self.side)) + self.place  # (B, k, rows, columns)
        views = []
        for mix, down in zip(self.fine, self.down, strict=False):
            views.append(mix(seen))
            seen = down(padded(views[-1], 2))
        seen = self.fine[-1](seen)
        whole = self.whole(torch.cat([seen.mean((2, 3)), probs], 1))  # (B, k)
        seen = seen + whole[:, :, None, None]
        for up, mix, view in reversed(list(zip(self.up, self.out, views, strict=True))):
            seen = mix(view + interpolate(up(seen), scale_factor=2.0)[..., : view.shape[2], : view.shape[3]])
        if self.layout.patch:
            parts = seen.flatten(2).transpose(1, 2)  # (B, d, k)
        else:
            parts = by_label(interpolate(seen, size=x.shape[2:]), x[:, -1].long())
        W: Tensor = self.head(parts)
        W = W - W.mean(-1, keepdim=True)
        if self.twos is None:
            return W, None
        return W, self.twos(parts, whole, there(x, self.layout, W.shape[1]))


class Mixed(nn.Module):
    """Each cell with its neighbours, added to what it was."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.near = nn.Conv2d(size, size, 3, padding=1)
        self.then = nn.Conv2d(size, size, 1)

    def forward(self, x: Float[Tensor, "B k r c"]) -> Float[Tensor, "B k r c"]:
        added: Tensor = self.then(nn.functional.gelu(self.near(x)))
        return x + added


class PlainImageBody(nn.Module):
    """What the paper's E and S share: two convolutions of each patch by itself, pooled; of the whole image for pixels."""

    def __init__(self, layout: ImageLayout) -> None:
        super().__init__()
        self.layout = layout
        self.scaled = Scaled(layout)
        self.first, self.second = nn.Conv2d(layout.channels, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)

    def forward(self, x: Shaped[Tensor, "B c h w"]) -> Float[Tensor, "B d k"]:
        side, images = self.layout.patch, self.scaled(x)
        if side <= 1:  # a pixel by itself says too little, and segments have no common shape
            seen = self.second(self.first(images).relu()).relu()  # (B, 64, h, w)
            return seen.flatten(2).transpose(1, 2) if side else by_label(seen, x[:, -1].long())
        rows, columns = self.layout.grid
        cut = padded(images, side).reshape(*images.shape[:2], rows, side, columns, side)
        patches = cut.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)  # (B * d, c, side, side)
        seen = nn.functional.max_pool2d(self.first(patches).relu(), 2, ceil_mode=True)
        seen = self.second(seen).relu().amax((2, 3))  # (B * d, 64)
        out: Tensor = seen.reshape(len(x), rows * columns, seen.shape[1])
        return out


class PlainImageExplainer(nn.Module):
    """E of the paper: each patch by itself, and three dense layers."""

    def __init__(self, layout: ImageLayout, classes: int) -> None:
        super().__init__()
        self.body = PlainImageBody(layout)
        self.dense = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x: Shaped[Tensor, "B c h w"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        W: Tensor = self.dense(self.body(x))
        return W


class ImageSelector(nn.Module):
    """S of the paper: the probability that each patch is kept."""

    def __init__(self, layout: ImageLayout) -> None:
        super().__init__()
        self.body = PlainImageBody(layout)
        self.dense = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: Shaped[Tensor, "B c h w"]) -> Float[Tensor, "B d"]:
        pi: Tensor = self.dense(self.body(x)).squeeze(-1).sigmoid()
        return pi


class ImageApproximator(nn.Module):
    """G of the paper: the kept part of the image through two convolutions, each pooled, and a dense layer."""

    def __init__(self, layout: ImageLayout, classes: int) -> None:
        super().__init__()
        self.scaled = Scaled(layout)
        self.seen = nn.Sequential(
            nn.Conv2d(layout.channels, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Flatten(),
            nn.Dropout(0.2),
        )
        quarter = [math.ceil(math.ceil(n / 2) / 2) for n in (layout.height, layout.width)]
        self.head = nn.Linear(64 * math.prod(quarter), classes)

    def forward(self, x: Shaped[Tensor, "B c h w"], z: Float[Tensor, "B h w"]) -> Float[Tensor, "B C"]:
        scores: Tensor = self.head(self.seen(self.scaled(x) * z[:, None]))
        return scores


def padded(images: Float[Tensor, "B k h w"], side: int) -> Tensor:
    """Images with zeros at their far sides, so that squares of this side fill them."""
    below, beside = (-n % side for n in images.shape[2:])
    return pad(images, (0, beside, 0, below)) if below or beside else images


def there(x: Shaped[Tensor, "B c h w"], layout: ImageLayout, features: int) -> Bool[Tensor, "#B d"]:
    """Which features an image has: all of a grid, and of a label map those with a pixel."""
    if layout.patch:
        return torch.ones(1, features, dtype=torch.bool, device=x.device)
    labels = x[:, -1].long().flatten(1)
    return torch.zeros(len(x), features, dtype=torch.bool, device=x.device).scatter(1, labels, True)


def by_label(seen: Float[Tensor, "B k h w"], labels: Shaped[Tensor, "B h w"]) -> Float[Tensor, "B d k"]:
    """The mean of what was seen of each label's pixels."""
    flat, at = seen.flatten(2).transpose(1, 2), labels.flatten(1)  # (B, p, k), (B, p)
    count = int(at.max()) + 1 if at.numel() else 1
    sums = flat.new_zeros(len(flat), count, flat.shape[2]).scatter_add(1, at[..., None].expand_as(flat), flat)
    sizes = flat.new_zeros(len(flat), count).scatter_add(1, at, flat.new_ones(at.shape))
    return sums / sizes.clamp_min(1)[..., None]
