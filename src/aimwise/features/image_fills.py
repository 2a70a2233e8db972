"""What stands in for a part of an image that is taken away."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv2d, pad

from aimwise.errors import BadFeatures

BLUR = 0.1  # of the longer side: the standard deviation of the blur
MANY = 4096  # images that means and ranges are learned from


@dataclass(frozen=True)
class ImageFill:
    """Facts about images from which fills are made."""

    mean: Float[Tensor, " c"]
    deviation: Float[Tensor, " c"]
    low: Float[Tensor, " c"]
    high: Float[Tensor, " c"]
    background: Float[Tensor, "r c h w"]  # given images, none of them if there are none

    def to(self, device: torch.device) -> ImageFill:
        """The same facts on a device."""
        return ImageFill(*(part.to(device) for part in self.parts().values()))

    def parts(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {name: getattr(self, name) for name in ("mean", "deviation", "low", "high", "background")}


def learn_fill(images: Tensor, background: Tensor | None) -> ImageFill:
    """Colours and ranges of images (n, c, h, w), and the background given for them."""
    some = images[:: max(1, math.ceil(len(images) / MANY))].double()
    mean, deviation = some.mean((0, 2, 3)), some.std((0, 2, 3), correction=0)
    given = torch.zeros(0, *images.shape[1:]) if background is None else background.float()
    if given.shape[1:] != images.shape[1:]:
        raise BadFeatures(
            f"The background has shape {tuple(given.shape[1:])} (channels, height, width), the images {tuple(images.shape[1:])}. "
            "Pass one image, or several, in the form of the inputs."
        )
    return ImageFill(mean.float(), deviation.float(), some.amin((0, 2, 3)).float(), some.amax((0, 2, 3)).float(), given)


Fill = Callable[[ImageFill, Tensor, torch.Generator], Tensor]


def zero(facts: ImageFill, images: Tensor, rng: torch.Generator) -> Tensor:
    """Nothing at all."""
    return torch.zeros_like(images)


def mean(facts: ImageFill, images: Tensor, rng: torch.Generator) -> Tensor:
    """The mean colour of the images learned from."""
    return facts.mean[:, None, None].expand_as(images)


def blur(facts: ImageFill, images: Tensor, rng: torch.Generator) -> Tensor:
    """The image itself, blurred so far that only its large forms are left."""
    sigma = BLUR * max(images.shape[2:])
    for axis in (2, 3):
        reach = min(math.ceil(2.5 * sigma), images.shape[axis] - 1)
        steps = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
        kernel = torch.exp(-0.5 * (steps / max(sigma, 1e-6)) ** 2)
        kernel = (kernel / kernel.sum()).repeat(images.shape[1], 1, 1, 1)  # (c, 1, 1, k)
        if reach:
            sides = (reach, reach, 0, 0) if axis == 3 else (0, 0, reach, reach)
            wide = pad(images, sides, mode="reflect")
            images = conv2d(wide, kernel if axis == 3 else kernel.transpose(2, 3), groups=images.shape[1])
    return images


def noise(facts: ImageFill, images: Tensor, rng: torch.Generator) -> Tensor:
    """Every value drawn by itself around the mean colour, within the range of the images."""
    drawn = torch.randn(images.shape, generator=rng).to(images.device)
    made = facts.mean[:, None, None] + facts.deviation[:, None, None] * drawn
    return made.clamp(facts.low[:, None, None], facts.high[:, None, None])


def background(facts: ImageFill, images: Tensor, rng: torch.Generator) -> Tensor:
    """The image given, or one of those given for each input."""
    which = torch.randint(len(facts.background), (len(images),), generator=rng)
    return facts.background[which.to(facts.background.device)]


IMAGE_FILLS: dict[str, Fill] = {"mean": mean, "zero": zero, "blur": blur, "noise": noise, "background": background}
