"""Stacks of images in whatever form they are handed over: what their axes mean, and back into the same form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from aimwise.errors import BadFeatures, BadSetting, extra

AXES = ("HW", "CHW", "HWC")
CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Stack:
    """Images as (n, channels, height, width), and the form they came in."""

    data: Shaped[Tensor, "n c h w"]
    axes: str
    dtype: Any  # of the images as they came
    form: str  # "array", "tensor", "flat" (rows of an array), "flat_tensor" or "pil"

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: np.ndarray, /) -> Stack:
        return replace(self, data=self.data[torch.from_numpy(index)])

    def like(self, images: Float[Tensor, "n c h w"]) -> Any:
        """Images in the form, type and range of these."""
        traced = images.requires_grad  # a torch module takes them as they are
        if not traced and not self.data.is_floating_point():
            limits = torch.iinfo(self.data.dtype)
            images = images.round().clamp(limits.min, limits.max)
        images = images if traced else images.to(self.data.dtype)
        if self.axes == "HWC":
            images = images.movedim(1, -1)
        elif self.axes == "HW":
            images = images[:, 0]
        if self.form.startswith("flat"):
            images = images.flatten(1)
        if traced:
            return images
        if self.form in ("tensor", "flat_tensor"):
            return images.to(self.dtype)
        values = images.cpu().numpy().astype(self.dtype)
        if self.form == "pil":
            made = extra("PIL.Image", "image")
            return [made.fromarray(picture) for picture in values]
        return values


def as_stack(inputs: Any, *, axes: str | None = None, shape: Sequence[int] | None = None) -> Stack:
    """Images from an array, a tensor, a list of arrays or of PIL images.

    axes: "HW", "CHW" or "HWC" for one image, where it cannot be told from the shape; shape: of one image, where rows are flat.
    """
    if axes is not None and axes not in AXES:
        raise BadSetting(f"axes={axes!r}, wanted one of {', '.join(AXES)}: what the axes of one image are.")
    if is_pil(inputs):
        modes, sizes = {image.mode for image in inputs}, {image.size for image in inputs}
        if len(modes) > 1 or len(sizes) > 1:
            raise BadFeatures(
                f"The images have the modes {sorted(modes)} and sizes {sorted(sizes)}, wanted one of each. "
                "Resize and convert them."
            )
        if modes - {"L", "RGB", "RGBA"}:
            raise BadFeatures(f"Got PIL images of mode {modes.pop()!r}, wanted L, RGB or RGBA. Use image.convert('RGB').")
        values, form = np.stack([np.asarray(image) for image in inputs]), "pil"
        axes = "HW" if values.ndim == 3 else "HWC"
        table = torch.from_numpy(values)
    elif isinstance(inputs, Tensor):
        table, form = inputs.detach(), "tensor"
    else:
        values, form = array_of(inputs), "array"
        table = torch.from_numpy(held(values))
    if table.dtype == torch.bool or table.is_complex():
        raise BadFeatures(f"Got images of {table.dtype}, wanted whole numbers or floats. Use images.astype('float32').")
    if shape is not None and (not isinstance(shape, Sequence) or not all(isinstance(n, int) for n in shape)):
        raise BadSetting(f"shape={shape!r}, wanted the sides of one image: shape=(28, 28).")
    if table.ndim == 2 and shape is not None:
        if int(np.prod(shape)) != table.shape[1]:
            raise BadFeatures(
                f"Rows of {table.shape[1]} numbers are not images of shape {tuple(shape)}. Pass shape=... of one image."
            )
        table, form = table.reshape(len(table), *shape), "flat_tensor" if form == "tensor" else "flat"
    axes = axes or axes_of(tuple(table.shape))
    if table.ndim != len(axes) + 1:
        raise BadFeatures(f"Got images of shape {tuple(table.shape)}, wanted (n, {', '.join(axes.lower())}) for axes={axes!r}.")
    if axes == "HW":
        table = table[:, None]
    elif axes == "HWC":
        table = table.movedim(-1, 1)
    if table.is_floating_point() and not bool(torch.isfinite(table).all()):
        raise BadFeatures("The images have values that are not finite. Replace NaN and infinity before explaining.")
    return Stack(table, axes, inputs.dtype if isinstance(inputs, Tensor) else values.dtype, form)


def axes_of(shape: tuple[int, ...]) -> str:
    """What the axes of images of this shape are, where that is certain."""
    if len(shape) == 3:
        return "HW"
    if len(shape) == 4:
        first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
        if first != last:
            return "CHW" if first else "HWC"
        why = "both could be" if first else "neither is"
        raise BadFeatures(
            f"Images of shape {shape}: channels may stand first or last, and {why} 1, 3 or 4 of them. Say which: "
            "axes='CHW' or 'HWC'."
        )
    raise BadFeatures(
        f"Got images of shape {shape}, wanted (n, height, width), (n, channels, height, width) or (n, height, width, channels); "
        "for flat rows pass shape=... of one image."
    )


def is_pil(inputs: Any) -> bool:
    """Whether the inputs are a sequence of PIL images, found out without importing PIL."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return False
    found = {any(kind.__module__.startswith("PIL.") for kind in type(one).__mro__) for one in inputs}
    if len(found) > 1:
        raise BadFeatures("Some of the images are PIL images and some are not. Pass all in one form.")
    return found.pop()


def array_of(inputs: Any) -> np.ndarray:
    """Images as one array that torch can hold."""
    try:
        values = np.asarray(inputs)
    except ValueError as e:
        raise BadFeatures(f"The images differ in shape ({e}). Resize them to one shape.") from e
    if values.dtype == object or values.dtype.kind not in "uif":
        raise BadFeatures(f"Got images of type {values.dtype}, wanted numbers: an array (n, height, width) or with channels.")
    return values


def held(values: np.ndarray) -> np.ndarray:
    """The same numbers as torch can hold them."""
    if values.dtype.kind == "u" and values.dtype != np.uint8:
        values = values.astype(np.int64)
    elif values.dtype.itemsize > 8 or not values.dtype.isnative:
        values = values.astype(np.float64 if values.dtype.kind == "f" else values.dtype.newbyteorder("="))
    simple = values.flags.writeable and all(step >= 0 for step in values.strides)
    return values if simple else values.copy()
