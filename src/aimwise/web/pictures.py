"""Images that clients send: PNG and JPEG files in base64, or nested arrays, brought into the form the explainer was fitted on."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aimwise.errors import BadFeatures, extra
from aimwise.features.images import DARK, Images
from aimwise.web.inputs import Reader, shown

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
MOST_PIXELS = 1 << 24  # of a file, whatever its size in bytes


@dataclass(frozen=True)
class ImageReader(Reader):
    """Images of one size; files of another are resized, arrays are not.

    A file's pixels, 0 to 255, are spread over the range of numbers that the explainer was fitted on, as its pictures show it.
    as_pil: whether the model takes PIL images.
    """

    kind: ClassVar[str] = "image"
    field: ClassVar[str] = "images"

    features: Images
    as_pil: bool = False

    def read(self, one: Any) -> np.ndarray:
        """An image (channels, height, width), in the range of the explainer's images."""
        if isinstance(one, str):
            return self._ranged(self._decoded(one))
        if not isinstance(one, list):
            raise BadFeatures(f"Got {shown(one)}, wanted an image: a PNG or JPEG file in base64, or nested lists of numbers.")
        return self._array(one)

    def _decoded(self, text: str) -> np.ndarray:
        """The pixels of a file, its size read and judged before anything is decoded."""
        image = extra("PIL.Image", "web")
        turned = extra("PIL.ImageOps", "web").exif_transpose
        channels, height, width = self.features.size_
        try:
            data = base64.b64decode(text.rpartition(",")[2] if text.startswith("data:") else text, validate=True)
        except (binascii.Error, ValueError):
            raise BadFeatures("Got an image that is not base64. Send the bytes of a PNG or JPEG file in base64.") from None
        bombs = (image.DecompressionBombError, image.DecompressionBombWarning)
        try:
            with image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as file:
                if file.width * file.height > MOST_PIXELS:
                    raise too_large(f"{file.width:,} x {file.height:,}")
                file.draft("RGB", (width, height))  # a JPEG is decoded no larger than needed
                made = turned(file).convert(MODES.get(channels, "RGB"))
        except bombs:
            raise too_large("far more") from None
        except (OSError, SyntaxError, ValueError, OverflowError, MemoryError, EOFError, KeyError, IndexError, TypeError) as e:
            raise BadFeatures(f"Got {len(data):,} bytes that are not a PNG or JPEG image that can be read ({e}).") from e
        if channels not in MODES:
            raise BadFeatures(f"The explainer takes images of {channels} channels, which no file has. Send arrays.")
        resized = made if made.size == (width, height) else made.resize((width, height), image.Resampling.BILINEAR)
        pixels = np.asarray(resized)
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)

    def _ranged(self, pixels: np.ndarray) -> np.ndarray:
        facts, whole = self.features.facts_, self.features.whole_
        low, high = facts.low.numpy().reshape(-1, 1, 1), facts.high.numpy().reshape(-1, 1, 1)
        if whole and float(high.max()) >= DARK and float(low.min()) >= 0:
            return pixels.astype(np.uint8)
        if not whole and float(low.min()) >= 0 and 0 < float(high.max()) <= 1:
            return (pixels / 255.0).astype(np.float32)
        spread = low + pixels / 255.0 * (high - low)
        made: np.ndarray = np.rint(spread).astype(np.int64) if whole else spread.astype(np.float32)
        return made

    def _array(self, rows: list[Any]) -> np.ndarray:
        axes, flat = self.features.axes or "HW", self.features.shape
        channels, height, width = self.features.size_
        sides = {"HW": (height, width), "CHW": (channels, height, width), "HWC": (height, width, channels)}[axes]
        wanted = (height * width * channels,) if flat is not None else sides
        try:
            values = np.array(rows)
        except (ValueError, OverflowError):
            values = np.array(None)
        if values.dtype.kind not in "iuf" or values.shape not in (wanted, sides):
            got = f"shape {values.shape}" if values.dtype.kind in "iuf" else "lists of different lengths, or not of numbers"
            raise BadFeatures(f"Got an image of {got}, wanted numbers of shape {wanted}. Resize it, or send a file.")
        values = values.reshape(sides)
        values = values[None] if axes == "HW" else np.moveaxis(values, -1, 0) if axes == "HWC" else values
        if self.features.whole_:
            if values.dtype.kind == "f" and not np.array_equal(values, np.rint(values)):
                raise BadFeatures("Got an image of fractions, wanted whole numbers as in fit.")
            limits = np.iinfo(np.uint8 if float(self.features.facts_.low.min()) >= 0 else np.int16)
            if not (limits.min <= values.min() and values.max() <= limits.max):
                raise BadFeatures(f"Got an image with numbers outside {limits.min} to {limits.max}.")
            return values.astype(limits.dtype)
        with np.errstate(over="ignore"):
            made: np.ndarray = values.astype(np.float32)
        if not bool(np.isfinite(made).all()):
            raise BadFeatures("Got an image with numbers that are not finite or too large.")
        return made

    def together(self, items: Sequence[Any]) -> Any:
        stack = np.stack(items)  # (n, c, h, w)
        axes = self.features.axes or "HW"
        stack = stack[:, 0] if axes == "HW" else np.moveaxis(stack, 1, -1) if axes == "HWC" else stack
        if self.as_pil:
            image = extra("PIL.Image", "web")
            return [image.fromarray(one.astype(np.uint8)) for one in stack]
        return stack.reshape(len(stack), -1) if self.features.shape is not None else stack

    def about(self) -> dict[str, Any]:
        channels, height, width = self.features.size_
        return {"channels": channels, "height": height, "width": width}


def too_large(got: str) -> BadFeatures:
    """The error for an image that would take too much memory."""
    return BadFeatures(f"Got an image of {got} pixels, wanted at most {MOST_PIXELS:,} in all. Send a smaller one.")
