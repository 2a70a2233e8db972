"""Pictures on the page: what its script draws the rows from, and the mean evidence for every class."""

from __future__ import annotations

from html import escape

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.codec import packed, signs_for
from aimwise.render.colours import colour, marks
from aimwise.render.overlays import FILL, Scene, layer, scene, shrunk, thinned
from aimwise.render.png import uri
from aimwise.render.say import signed
from aimwise.render.views import margins, shade_scale

LARGEST = 320  # pixels of a picture's longer side
BYTES = 16_000_000  # of all pictures before they are packed
SIGNS = 8_900_000  # that weights and pictures may have together before trials are shown without theirs
TILES, TILE_ROWS, TILE_SIDE = 12, 200, 224


def room(explanation: Explanation) -> int:
    """How many rows a page has room for."""
    assert explanation.images is not None
    one = shrunk(np.zeros(explanation.images.shape[1:], dtype=np.uint8), LARGEST).size
    return max(1, BYTES // one)


def record(explanation: Explanation) -> dict[str, object]:
    """What the script needs of pictures: PNG files, runs of equal region numbers, and the weights of each row."""
    e = explanation
    assert e.images is not None
    assert e.regions is not None
    images = [shrunk(each, LARGEST) for each in e.images]
    weights = np.where(e.present.numpy()[:, :, None], e.weights.double().numpy(), np.nan)  # (B, d, C)
    signs = signs_for(weights.size)
    pictures = [uri(each) for each in images]
    kept, rest = tried(e, images, SIGNS - signs * weights.size - sum(map(len, pictures)))
    return {
        "size": list(thinned(e.regions[0], LARGEST).shape) if len(e.regions) else [1, 1],
        "pictures": pictures,
        "regions": [runs(thinned(each, LARGEST)) for each in e.regions],
        **packed(list(weights), signs),
        "scale": float(f"{shade_scale(e.weights, e.present):.4g}"),
        "margin": float(f"{shade_scale(margins(e.weights)[0][:, :, None], e.present):.4g}"),
        "base": e.base.tolist() if e.scores and len(e.classes) > 2 else None,
        "fill": FILL,
        "tones": [[colour(c).light, colour(c).line] for c in range(len(e.classes))],
        "names": None if e.names is None else list(e.names),
        "values": [[str(v) for v in row] for row in e.values] if e.names is None else None,
        "kept": kept,
        "rest": rest,
    }


def tried(e: Explanation, images: list[np.ndarray], room: int) -> tuple[list[list[str] | None], list[list[str] | None]]:
    """The pictures of every trial, that of most features first served; None where there were none or no room is left."""
    kept: list[list[str] | None] = []
    rest: list[list[str] | None] = []
    for trial in reversed(e.trials):
        pair = changes(images, trial.kept_images), changes(images, trial.rest_images)
        room -= sum(len(each) for part in pair if part is not None for each in part)
        for part, found in zip((kept, rest), pair, strict=True):
            part.insert(0, found if room >= 0 else None)
    return kept, rest


def changes(images: list[np.ndarray], others: np.ndarray | None) -> list[str] | None:
    """Each of the other pictures as what must be laid over the first to see it: its changes, which let the first through, or
    all of it where that is shorter."""
    if others is None:
        return None
    out = []
    for image, large in zip(images, others, strict=True):
        other = shrunk(large, LARGEST)
        colours, old = (each if each.ndim == 3 else np.repeat(each[..., None], 3, -1) for each in (other, image))
        changed = (colours != old).any(-1, keepdims=True)
        ways = (uri(np.concatenate([colours * changed, 255 * changed.astype(np.uint8)], axis=-1)), uri(other))
        out.append(min(ways, key=len))
    return out


def runs(regions: np.ndarray) -> list[int]:
    """The regions of a picture, line by line: a number, how many pixels have it, the next number, and so on."""
    flat = regions.ravel()
    starts = np.flatnonzero(np.diff(flat, prepend=flat[:1] - 1))
    lengths = np.diff(starts, append=len(flat))
    return np.stack([flat[starts], lengths], axis=1).ravel().tolist()


def gallery(explanation: Explanation) -> str:
    """For each class the mean evidence in the rows that are predicted as it, over their mean picture."""
    counts = np.bincount(explanation.prediction.numpy(), minlength=len(explanation.classes))
    order = [int(c) for c in np.argsort(-counts, kind="stable")[:TILES] if counts[c]]
    if not order:
        return ""
    tiles = {c: mean(explanation, c) for c in sorted(order)}
    scale = max(float(np.abs(weights).max()) for _, weights in tiles.values())
    drawn = "".join(tile(explanation.classes[c], c, int(counts[c]), *tiles[c], scale) for c in tiles)
    left = int((counts > 0).sum()) - len(order)
    more = f" Not shown: {left} class{'es' * (left > 1)} that fewer rows have." if left else ""
    full = f" Full strength is a mean weight of {signed(scale, scale).lstrip('+')}." if scale else ""
    return (
        '<div class="overall"><h3>All rows together</h3><figure><figcaption>Where the evidence for each class lies: the mean '
        "weight in the rows that are predicted as it, over their mean picture. Filled speaks for the class, hatched against it."
        f'{full}{more}</figcaption><ol class="tiles" role="list">{drawn}</ol></figure></div>'
    )


def mean(explanation: Explanation, c: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean picture of the rows that are predicted as a class, and at every pixel the mean weight for it."""
    rows = np.flatnonzero(explanation.prediction.numpy() == c)[:TILE_ROWS]
    picture: np.ndarray | float = 0.0
    weights: np.ndarray | float = 0.0
    kept = np.where(explanation.present.numpy(), np.nan_to_num(explanation.weights[:, :, c].numpy(), posinf=0, neginf=0), 0.0)
    for i in rows.tolist():
        here: Scene = scene(explanation, i, most=TILE_SIDE)
        picture = picture + here.picture.astype(np.float64) / len(rows)
        weights = weights + kept[i][here.regions] / len(rows)
    return np.rint(picture).astype(np.uint8), np.asarray(weights)


def tile(name: str, c: int, count: int, picture: np.ndarray, weights: np.ndarray, scale: float) -> str:
    """One class of the gallery."""
    height, width = weights.shape
    each = np.arange(weights.size).reshape(height, width)
    factor = max(1, TILE_SIDE // max(height, width))
    colours = layer(each, weights.ravel(), np.full(weights.size, c), scale, factor=factor)
    return (
        f'<li class="{marks(c)}"><span class="shot dull{" small" * (max(height, width) <= 64)}" '
        f'style="aspect-ratio:{width}/{height}"><img alt="" src="{uri(picture)}">'
        f'<img alt="Mean evidence for {escape(name)}" src="{uri(colours)}"></span>'
        f'<bdi class="chip">{escape(name)}</bdi> <small>{count:,} row{"s" * (count != 1)}</small></li>'
    )
