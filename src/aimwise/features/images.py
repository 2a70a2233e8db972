"""Pixels, square patches and segments of images as features."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from aimwise.batch import Batch
from aimwise.errors import BadFeatures, BadSetting, extra, unknown
from aimwise.features.base import Features
from aimwise.features.image_fills import IMAGE_FILLS, ImageFill, learn_fill
from aimwise.features.pictures import AXES, Stack, as_stack, is_pil
from aimwise.progress import bar

DARK = 64  # images of whole numbers that get no brighter are shown stretched
BLOCKS = (1, 2, 4, 8, 16, 32)
FEWEST_BLOCKS = 5  # a side: coarser noise would leave too few different masks
I = TypeVar("I", bound="Images")  # noqa: E741


@dataclass(frozen=True)
class ImageLayout:
    """What networks for images are built from."""

    channels: int
    height: int
    width: int
    patch: int  # the side of the squares that are features; 0 if the last channel of x says which feature a pixel belongs to
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches stand below and beside each other; those at the far sides may be cut."""
        side = self.patch or 1
        return math.ceil(self.height / side), math.ceil(self.width / side)


@dataclass(eq=False, kw_only=True)
class Images(Features):
    """What all features of images share: the forms that images come in, and what stands in for a part that is taken away.

    fill: "mean" (the mean colour), "zero", "blur", "noise", or "background" (the image given, or one of several drawn at random).
    axes: "HW", "CHW" or "HWC" for one image, where the shape does not tell. shape: of one image, where the inputs are flat rows.
    """

    kind: ClassVar[str] = "image"

    fill: str = "mean"
    background: Any = None
    axes: str | None = None
    shape: Sequence[int] | None = None
    facts_: ImageFill = field(init=False, repr=False)
    size_: tuple[int, int, int] = field(init=False, repr=False)
    whole_: bool = field(init=False, repr=False)

    @property
    @abstractmethod
    def patch(self) -> int:
        """The side of the squares that are features, 0 if features are not squares."""

    def fit(self: I, inputs: Any) -> I:
        """A copy that knows the size, colours and range of these images."""
        self._check_settings()
        stack = self._stack(inputs)
        new = copy.copy(self)
        new.axes = stack.axes
        new.whole_ = not stack.data.is_floating_point()
        new.size_ = (stack.data.shape[1], stack.data.shape[2], stack.data.shape[3])
        new.facts_ = learn_fill(stack.data.cpu(), self._background(stack))
        return new

    def _stack(self, inputs: Any) -> Stack:
        stack = as_stack(inputs, axes=self.axes, shape=self.shape)
        if self.fitted and tuple(stack.data.shape[1:]) != self.size_:
            raise BadFeatures(
                f"Got images of {tuple(stack.data.shape[1:])} (channels, height, width), wanted {self.size_} as in fit. "
                "Resize them."
            )
        if self.fitted and self.whole_ == stack.data.is_floating_point():
            kinds = ("whole numbers", "floats")
            raise BadFeatures(
                f"Got images of {kinds[self.whole_]}, wanted {kinds[not self.whole_]} as in fit. Convert and scale them."
            )
        return stack

    def _background(self, like: Stack) -> Tensor | None:
        if self.background is None:
            return None
        given = self.background
        if is_pil([given]):
            given = np.asarray(given)
        given = given if isinstance(given, Tensor) or is_pil(given) else np.asarray(given)
        one = np.ndim(given) == (1 if self.shape is not None else len(like.axes))
        return as_stack(given[None] if one else given, axes=like.axes, shape=self.shape).data

    def _check_settings(self) -> None:
        if self.fill not in IMAGE_FILLS:
            raise unknown("fill", self.fill, IMAGE_FILLS)
        if self.fill == "background" and self.background is None and not (self.fitted and len(self.facts_.background)):
            raise BadSetting("fill='background' needs the image that stands in: pass background=..., one image or several.")
        if self.axes is not None and self.axes not in AXES:
            raise BadSetting(f"axes={self.axes!r}, wanted one of {', '.join(AXES)}.")

    @property
    def fitted(self) -> bool:
        return "facts_" in self.__dict__

    @property
    def soft(self) -> Bool[Tensor, ""]:
        return torch.tensor(True)

    @property
    def fills(self) -> tuple[str, ...]:
        return self.fill, "mean" if self.fill == "zero" else "zero"

    @property
    def random(self) -> bool:
        return self.fill == "noise" or (self.fill == "background" and len(self.facts_.background) > 1)

    @property
    def cells(self) -> int:
        return math.prod(self.size_)

    @property
    def layout(self) -> ImageLayout:
        spread = self.facts_.deviation.clamp_min(1e-6)
        return ImageLayout(*self.size_, self.patch, tuple(self.facts_.mean.tolist()), tuple(spread.tolist()))

    def dim(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Any:
        stack = stack_of(batch)
        exact = stack.data.dtype in (torch.uint8, torch.float32, torch.float16, torch.bfloat16)
        images = stack.data.float() if exact else stack.data.double()
        gate = self.spread(batch, z).to(images)[:, None]  # (B, 1, h, w)
        instead = IMAGE_FILLS[self.fill](self.facts_.to(images.device), images, rng)
        return stack.like(images * gate + instead * (1 - gate))

    def drawn(self: I, rng: torch.Generator) -> I:
        if not self.random:
            return self
        new = copy.copy(self)
        given = IMAGE_FILLS[self.fill](self.facts_, torch.zeros(1, *self.size_), rng)
        new.fill, new.facts_ = "background", replace(self.facts_, background=given)
        return new

    def gathered(self, batch: Batch, cells: Float[Tensor, "B ..."]) -> Float[Tensor, "B d"]:
        return super().gathered(batch, as_stack(cells, axes=self.axes, shape=self.shape).data.sum(1))

    def pictures(self, inputs: Any) -> np.ndarray:
        images = (inputs if isinstance(inputs, Stack) else self._stack(inputs)).data.cpu()[:, :3]
        low, high = float(self.facts_.low.min()), float(self.facts_.high.max())
        if images.dtype != torch.uint8 or high < DARK:
            if low >= 0 and 0 < high <= 1:
                low, high = 0.0, 1.0
            images = ((images.float() - low) / max(high - low, 1e-12) * 255).round().clamp(0, 255).to(torch.uint8)
        channels = images.shape[1]
        return images[:, 0].numpy() if channels < 3 else images.movedim(1, -1).numpy()

    def config(self) -> dict[str, Any]:
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "background"}
        settings["shape"] = None if self.shape is None else [int(n) for n in self.shape]
        return {"settings": settings, "size": list(self.size_), "whole": self.whole_}

    def tensors(self) -> dict[str, Tensor]:
        return self.facts_.parts()

    @classmethod
    def restore(cls: type[I], config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> I:
        new = cls(**config["settings"])
        channels, height, width = map(int, config["size"])
        new.size_, new.whole_ = (channels, height, width), bool(config["whole"])
        new.facts_ = ImageFill(**{name: tensors[name] for name in ("mean", "deviation", "low", "high", "background")})
        new._check_settings()
        return new


@dataclass(eq=False, kw_only=True)
class Squares(Images):
    """What pixels and patches share: their features are the squares of a grid."""

    def encode(self, inputs: Any) -> Batch:
        stack = self._stack(inputs)
        present = torch.ones(len(stack), math.prod(self.layout.grid), dtype=torch.bool, device=stack.data.device)
        return Batch(stack.data, present, stack)

    def noise(self, size: tuple[int, int, int], rng: torch.Generator) -> Float[Tensor, "B M d"]:
        return noise_in_blocks(size, self.layout, rng)

    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B h w"]:
        return over_squares(z, self.layout)

    def regions(self, batch: Batch) -> np.ndarray:
        return over_squares(torch.arange(math.prod(self.layout.grid))[None], self.layout).numpy()

    def values(self, batch: Batch) -> np.ndarray:
        return square_means(stack_of(batch).data, self.patch)


@dataclass(eq=False)
class Patches(Squares):
    """Every square of `side` by `side` pixels is a feature; those at the far sides may be cut."""

    side: int = 7

    @property
    def patch(self) -> int:
        return self.side

    @property
    def names(self) -> tuple[str, ...]:
        def ends(size: int) -> list[str]:
            return [f"{start}-{min(start + self.side, size) - 1}" for start in range(0, size, self.side)]

        return tuple(f"rows {r}, columns {c}" for r in ends(self.size_[1]) for c in ends(self.size_[2]))

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.side, int) or self.side < 1:
            raise BadSetting(f"side={self.side!r}, wanted how many pixels a patch is wide: a whole number of at least 1.")


@dataclass(eq=False)
class Pixels(Squares):
    """Every pixel is a feature, all its channels together."""

    @property
    def patch(self) -> int:
        return 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"row {r}, column {c}" for r in range(self.size_[1]) for c in range(self.size_[2]))


@dataclass(eq=False)
class Segments(Images):
    """Parts of like colour are features: SLIC's about `n` segments of each image, or those of a label map of your own.

    by: a label map (h, w) for all images, or a function from an image (h, w) or (h, w, channels) to its label map.
    """

    n: int = 50
    by: Any = None

    @property
    def patch(self) -> int:
        return 0

    @property
    def names(self) -> None:
        return None

    def encode(self, inputs: Any) -> Batch:
        stack = self._stack(inputs)
        maps = self._maps(stack)  # (n, h, w)
        count = maps.amax((1, 2)) + 1 if len(maps) else torch.zeros(0, dtype=torch.long)
        present = torch.arange(max(int(count.max()) if len(count) else 1, 1)) < count[:, None]
        labels = maps[:, None].to(stack.data.device)
        x = torch.cat([stack.data.float(), labels.float()], 1)
        return Batch(x, present.to(x.device), stack)

    def trim(self, batch: Batch) -> Batch:
        width = max(int(batch.present.sum(1).max()), 1) if len(batch) else 1
        return Batch(batch.x, batch.present[:, :width], batch.raw)

    def part(self, batch: Batch, rows: slice) -> Batch:
        return self.trim(super().part(batch, rows))  # networks make as many features as they see labels

    def _maps(self, stack: Stack) -> Int[Tensor, "n h w"]:
        """The label map of every image, labels counting from 0 without gaps."""
        if self.by is not None and not callable(self.by):
            return numbered(self.by, self.size_[1:]).expand(len(stack), -1, -1)
        pictures = stack.data.movedim(1, -1).cpu().numpy()
        pictures = pictures[..., 0] if pictures.shape[-1] == 1 else pictures
        cut = self.by or self._slic
        out = torch.zeros(len(pictures), *self.size_[1:], dtype=torch.long)
        with bar(len(pictures), "segment") as shown:
            for i, picture in enumerate(pictures):
                try:
                    labels = cut(picture)
                except Exception as e:
                    raise BadFeatures(f"Cutting image {i} into segments raised {type(e).__name__}: {e}.") from e
                out[i] = numbered(labels, self.size_[1:])
                shown.update(1)
        return out

    def _slic(self, picture: np.ndarray) -> np.ndarray:
        extra("skimage", "image")
        from skimage.segmentation import slic

        low, high = float(self.facts_.low.min()), float(self.facts_.high.max())
        picture = (picture[..., :3] if picture.ndim == 3 else picture).astype(np.float64)
        picture = (picture - low) / max(high - low, 1e-12)
        grey = picture.ndim == 2 or picture.shape[2] != 3
        axis = None if picture.ndim == 2 else -1
        found: np.ndarray = slic(
            picture, n_segments=self.n, compactness=0.1 if grey else 10.0, start_label=0, channel_axis=axis, convert2lab=not grey
        )
        return found

    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B h w"]:
        labels = batch.x[:, -1].long().flatten(1)  # (B, h * w)
        more = labels.reshape(len(labels), *([1] * (z.ndim - 2)), -1).expand(*z.shape[:-1], -1)
        return z.gather(-1, more).reshape(*z.shape[:-1], *self.size_[1:])

    def regions(self, batch: Batch) -> np.ndarray:
        return batch.x[:, -1].cpu().numpy().astype(np.int64)

    def values(self, batch: Batch) -> np.ndarray:
        names = np.array([f"segment {i}" for i in range(batch.present.shape[1])], dtype=object)
        return np.where(batch.present.cpu().numpy(), names, "").astype(object)

    def config(self) -> dict[str, Any]:
        if callable(self.by):
            raise BadFeatures(
                "Segments(by=function) cannot be saved, since a file cannot hold a function. Pass a label map, or SLIC's by=None."
            )
        config = super().config()
        config["settings"]["by"] = None
        return config

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | ({} if self.by is None else {"by": numbered(self.by, self.size_[1:])})

    @classmethod
    def restore(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Segments:
        new = super().restore(config, tensors)
        new.by = tensors["by"].numpy() if "by" in tensors else None
        return new

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.n, int) or self.n < 1:
            raise BadSetting(f"n={self.n!r}, wanted about how many segments: a whole number of at least 1. A label map is by=...")


def stack_of(batch: Batch) -> Stack:
    """The raw images of a batch that `encode` made."""
    assert isinstance(batch.raw, Stack)
    return batch.raw


def over_squares(z: Tensor, layout: ImageLayout) -> Tensor:
    """The gate of each square at every pixel of it: (..., d) to (..., h, w)."""
    wide = z.reshape(*z.shape[:-1], *layout.grid)
    wide = wide.repeat_interleave(layout.patch, -1).repeat_interleave(layout.patch, -2)
    return wide[..., : layout.height, : layout.width]


def noise_in_blocks(size: tuple[int, int, int], layout: ImageLayout, rng: torch.Generator) -> Tensor:
    """Noise over a fine grid in blocks of 1, 2, 4 ... squares a side: a single pixel alone hardly moves a model, its like do."""
    rows, masks, _ = size
    high, wide = layout.grid
    sides = [side for side in BLOCKS if FEWEST_BLOCKS * side <= max(high, wide)] or [1]
    parts = []
    for i, count in enumerate(torch.bincount(torch.randint(len(sides), (masks,), generator=rng), minlength=len(sides)).tolist()):
        side = sides[i]
        down, right = (int(torch.randint(side, (), generator=rng)) for _ in range(2))
        coarse = torch.rand(rows, count, high // side + 2, wide // side + 2, generator=rng)
        fine = coarse.repeat_interleave(side, -1).repeat_interleave(side, -2)
        parts.append(fine[..., down : down + high, right : right + wide].flatten(2))
    return torch.cat(parts, 1)


def square_means(images: Tensor, side: int) -> np.ndarray:
    """The mean brightness of every square: (n, d)."""
    grey = images.float().mean(1, keepdim=True)
    far = [-n % side for n in grey.shape[2:]]
    sums = avg_pool2d(pad(grey, (0, far[1], 0, far[0])), side)
    share = avg_pool2d(pad(torch.ones_like(grey[:1]), (0, far[1], 0, far[0])), side)
    return (sums / share).flatten(1).cpu().numpy()


def numbered(labels: Any, size: Sequence[int]) -> Int[Tensor, "h w"]:
    """A label map with labels from 0 without gaps."""
    found = np.asarray(labels)
    if found.shape != tuple(size) or found.dtype.kind not in "iub":
        raise BadFeatures(f"Got a label map of {found.dtype} {found.shape}, wanted whole numbers of shape {tuple(size)}.")
    _, order = np.unique(found, return_inverse=True)
    return torch.from_numpy(order.reshape(found.shape).astype(np.int64))
