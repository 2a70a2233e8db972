"""What the parts of a picture say, painted over it: filled where they speak for a class, hatched where against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.colours import INK, NEUTRAL, PALETTE, channels
from aimwise.render.views import View

PAPER, DULL = 242, 0.15  # so much of a picture is left on a light grey under the colours: neither white nor black
FILL = 0.85  # how opaque the full strength is
PERIOD = 6  # dots from one line of the hatching to the next
GROUNDS, LINES = (
    np.array([channels(getattr(each, part)) for each in (*PALETTE, NEUTRAL)], dtype=np.float64) for part in ("light", "line")
)


@dataclass(frozen=True)
class Scene:
    """One picture, and which feature every pixel of it belongs to."""

    picture: np.ndarray  # (h, w) or (h, w, 3)
    regions: np.ndarray  # (h, w)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.regions.shape
        return height, width

    def factor(self, side: int) -> int:
        """How many dots a pixel should have so that the longer side has about so many."""
        return max(1, round(side / max(self.shape)))


def scene(explanation: Explanation, row: int, *, most: int = 320) -> Scene:
    """The picture of a row, not larger than so many pixels on its longer side."""
    assert explanation.images is not None
    assert explanation.regions is not None
    regions = explanation.regions[row if len(explanation.regions) > 1 else 0]
    return Scene(shrunk(explanation.images[row], most), thinned(regions, most))


def shrunk(picture: np.ndarray, most: int) -> np.ndarray:
    """A picture whose longer side is at most so many pixels: each is the mean of a square."""
    step = -(-max(picture.shape[:2]) // most)
    if step == 1:
        return picture
    height, width = (max(1, n // step) for n in picture.shape[:2])
    cut = picture[: height * step, : width * step].astype(np.float64)
    squares = cut.reshape(height, -1, width, cut.shape[1] // width, *picture.shape[2:])
    out: np.ndarray = np.rint(squares.mean((1, 3))).astype(np.uint8)
    return out


def thinned(regions: np.ndarray, most: int) -> np.ndarray:
    """The region map that belongs to a picture which was shrunk: that of the middle of each square."""
    step = -(-max(regions.shape) // most)
    down, across = (np.minimum(np.arange(max(1, n // step)) * step + step // 2, n - 1) for n in regions.shape)
    out: np.ndarray = regions[np.ix_(down, across)]
    return out


def layer(
    regions: np.ndarray,
    weights: np.ndarray,
    classes: np.ndarray,
    scale: float,
    *,
    factor: int = 1,
    every: bool = False,
    period: int = PERIOD,
) -> np.ndarray:
    """What every feature says, as colours that let the picture through: (h, w, 4), each pixel so many dots.

    classes: whose colour each feature has, -1 for none. every: whether a feature that speaks for no class stays without colour.
    """
    shares = np.clip(np.nan_to_num(weights, posinf=0, neginf=0) / (scale or 1.0), -1, 1) * bool(scale)
    shares = np.maximum(shares, 0) if every else shares
    tones = np.where(classes < 0, -1, classes % len(PALETTE))
    colours = np.where((shares < 0)[:, None], LINES[tones], GROUNDS[tones])  # (d, 3)
    table = np.concatenate([colours, 255 * np.where(shares < 0, -shares, FILL * shares)[:, None]], axis=1)
    out = enlarged(table[regions], factor)  # (H, W, 4)
    lines = hatching(out.shape[0], out.shape[1], period)
    out[..., 3] *= np.where(enlarged(shares[regions] < 0, factor), lines, 1.0)
    made: np.ndarray = np.rint(out).astype(np.uint8)
    return made


def hatching(height: int, width: int, period: int) -> np.ndarray:
    """Slanting lines with soft edges, from 0 to 1."""
    down, across = np.ogrid[:height, :width]
    return np.clip(period / 3 - np.abs((down + across) % period - period / 2), 0, 1)


def enlarged(values: np.ndarray, factor: int) -> np.ndarray:
    """Every pixel as a square of so many dots."""
    return values.repeat(factor, 0).repeat(factor, 1) if factor > 1 else values


def outlined(picture: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The picture with a dark line, and a light one within it, along the border of what is inside."""
    out, wide = picture.copy(), np.pad(inside, 4)
    height, width = inside.shape
    for reach, tone in ((4, "#ffffff"), (2, INK)):
        near = np.ones_like(inside)
        for step in range(-reach, reach + 1):
            near &= wide[4 + step : 4 + step + height, 4:-4] & wide[4:-4, 4 + step : 4 + step + width]
        out[inside & ~near] = channels(tone)
    return out


def dulled(picture: np.ndarray) -> np.ndarray:
    """A picture in pale grey, so that colours over it are seen: (h, w, 3)."""
    grey = picture if picture.ndim == 2 else picture @ np.array([0.299, 0.587, 0.114])
    pale = np.rint(PAPER + DULL * (grey.astype(np.float64) - PAPER))
    return np.repeat(pale[..., None], 3, -1).astype(np.uint8)


def over(picture: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """A layer of colours laid over a picture."""
    share = colours[..., 3:] / 255
    return np.rint(colours[..., :3] * share + picture * (1 - share)).astype(np.uint8)


def painted(
    explanation: Explanation, row: int, view: View, *, side: int, top: Iterable[int] = (), period: int = PERIOD
) -> np.ndarray:
    """The picture of a row under what its features say, the top ones outlined: (H, W, 3), about so many dots wide."""
    here = scene(explanation, row, most=side)
    factor = here.factor(side)
    weights = np.where(view.present[row].numpy(), view.weights[row].double().numpy(), 0.0)
    classes = view.classes[row].numpy()
    colours = layer(here.regions, weights, classes, view.scale, factor=factor, every=view.every, period=period)
    out = over(enlarged(dulled(here.picture), factor), colours)
    return outlined(out, enlarged(np.isin(here.regions, list(top)), factor))


def speaking(explanation: Explanation, row: int, k: int, target: int | None = None) -> Sequence[int]:
    """The k features of a row that speak most for a class: those that a trial keeps."""
    order: list[int] = explanation[row].order(target)[0].tolist()
    return [j for j in order[:k] if explanation.present[row, j]]
