"""Pictures under what their regions say: as arrays, as PNG files, in a notebook and in a terminal."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from aimwise.explanation import Check, Explanation, Trial
from aimwise.render.blocks import SIDE, STRIPES
from aimwise.render.colours import INK, NEUTRAL, PALETTE, channels, colour
from aimwise.render.notebook import DOTS, inline
from aimwise.render.overlays import DULL, FILL, PAPER, dulled, layer, outlined, over, painted, scene, shrunk, speaking, thinned
from aimwise.render.png import png, uri
from aimwise.render.terminal import show
from aimwise.render.views import View, kind

CLASSES = ("cat", "dog", "owl")
HOSTILE = ('<img src=x onerror="alert(1)">', "[bold]loud[/bold] $a$ $b$", "\u202eturned\x1b[31m")


def seen(
    rows: int = 3,
    *,
    size: tuple[int, int] = (8, 8),
    patch: int = 4,
    classes: tuple[str, ...] = CLASSES,
    coloured: bool = False,
    k: int | None = 1,
    segments: bool = False,
) -> Explanation:
    """Pictures of squares; the first speaks for the last class by 2, the next against it by 2, the third for it by 1."""
    rng, (height, width) = np.random.default_rng(0), size
    images = rng.integers(0, 256, (rows, height, width, *[3] * coloured), dtype=np.uint8)
    across = -(-width // patch)
    squares = np.arange(height)[:, None] // patch * across + np.arange(width) // patch
    d, c = int(squares.max()) + 1, len(classes)
    weights = 0.01 * torch.randn(rows, d, c, generator=torch.Generator().manual_seed(0))
    for j, weight in enumerate((2.0, -2.0, 1.0)[:d]):
        weights[:, j], weights[:, j, -1] = -weight, weight
    weights[:, 3:, -1] = -0.01
    probs = torch.full((rows, c), 0.1 / max(1, c - 1))
    probs[:, -1] = 0.9 if c > 1 else 1.0
    made = Explanation(
        weights=weights,
        probs=probs,
        base=torch.zeros(c),
        present=torch.ones(rows, d, dtype=torch.bool),
        names=None if segments else tuple(f"square {j}" for j in range(d)),
        values=np.array([[f"segment {j}" for j in range(d)]] * rows, dtype=object).reshape(rows, d),
        classes=classes,
        method="AIM",
        check=Check(torch.full((rows,), 0.9), torch.full((rows,), 0.4), 8),
        images=images,
        regions=np.repeat(squares[None], rows, 0) if segments else squares[None],
    )
    if k is None:
        return made
    gate = made.chosen(k).numpy().astype(bool)[:, squares]  # (B, h, w)
    gate = gate[..., None] if coloured else gate
    pictures = np.where(gate, images, 7), np.where(gate, 7, images)
    trial = Trial(k, probs.flip(1), probs.roll(-1, 1), *(each.astype(np.uint8) for each in pictures))
    return replace(made, trials=(trial,))


def opened(address: str) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    kind, data = address.split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(image.open(io.BytesIO(base64.b64decode(data))))


def test_what_the_features_are() -> None:
    assert kind(seen()) == kind(seen(segments=True)) == "image"
    assert kind(replace(seen(segments=True), images=None)) == "text"
    assert kind(replace(seen(), images=None)) == "table"


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (5, 7, 3), (9, 4, 4), (1, 6, 3), (6, 1)])
@pytest.mark.parametrize("made", ["noise", "flat", "slope"])
def test_png_files_are_read_back_as_they_were(shape: tuple[int, ...], made: str) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    if made == "flat":
        values[:] = 200
    if made == "slope":
        values = (np.indices(shape).sum(0) * 17 % 256).astype(np.uint8)
    np.testing.assert_array_equal(opened(uri(values)), values)


def test_png_files_of_smooth_pictures_are_small() -> None:
    down, across = np.mgrid[:200, :200]
    values = np.stack([down, across, (down + across) // 2], -1).astype(np.uint8)
    assert len(png(values)) < 4000


def test_what_speaks_for_a_class_is_filled_and_what_speaks_against_it_is_hatched() -> None:
    regions = np.arange(4).reshape(2, 2)
    made = layer(regions, np.array([2.0, -1.0, 1.0, np.nan]), np.full(4, 3), 2.0, factor=12)
    assert made.shape == (24, 24, 4)
    full, against, half, nothing = made[:12, :12], made[:12, 12:], made[12:, :12], made[12:, 12:]
    ground, line = channels(PALETTE[3].light), channels(PALETTE[3].line)
    assert set(map(tuple, full.reshape(-1, 4).tolist())) == {(*ground, round(255 * FILL))}
    assert set(map(tuple, half.reshape(-1, 4).tolist())) == {(*ground, round(255 * FILL / 2))}
    assert {tuple(each[:3]) for each in against.reshape(-1, 4).tolist()} == {line}
    assert against[..., 3].min() == 0
    assert against[..., 3].max() == round(255 / 2)
    assert len({tuple(row) for row in against[..., 3].tolist()}) == 6  # the lines slant
    assert not nothing[..., 3].any()


def test_weights_beyond_the_scale_have_the_full_strength_and_without_a_scale_nothing_has_any() -> None:
    regions = np.arange(2).reshape(1, 2)
    assert layer(regions, np.array([2.0, 9.0]), np.zeros(2, dtype=int), 2.0)[..., 3].tolist() == [[217, 217]]
    assert not layer(regions, np.array([2.0, -9.0]), np.zeros(2, dtype=int), 0.0)[..., 3].any()


def test_all_classes_at_once_leave_out_what_speaks_for_none_and_colours_begin_again() -> None:
    regions = np.arange(3).reshape(1, 3)
    made = layer(regions, np.array([1.0, 1.0, -1.0]), np.array([1, 11, 2]), 1.0, every=True)
    assert made[0, :, 3].tolist() == [217, 217, 0]
    assert made[0, 0].tolist() == made[0, 1].tolist() == [*channels(PALETTE[1].light), 217]
    assert layer(regions, np.ones(3), np.full(3, -1), 1.0)[0, 0, :3].tolist() == list(channels(NEUTRAL.light))


def test_it_reads_without_colour() -> None:
    made = seen(1)
    grey = painted(replace(made, images=np.full_like(made.images, 90)), 0, View.one(made), side=96).mean(-1)  # type: ignore[arg-type]
    filled, hatched, weak, empty = grey[:48, :48], grey[:48, 48:], grey[48:, :48], grey[48:, 48:]
    assert filled.std() == 0
    assert weak.std() == 0
    assert filled.mean() < weak.mean() < empty.mean() - 5
    assert hatched.std() > 20
    assert hatched[0].std() > 20
    assert hatched[:, 0].std() > 20


@pytest.mark.parametrize("coloured", [False, True])
def test_a_picture_under_colours_is_pale_and_grey(coloured: bool) -> None:
    picture = seen(1, coloured=coloured).images[0]  # type: ignore[index]
    pale = dulled(picture)
    assert pale.shape == (8, 8, 3)
    assert (pale[..., 0] == pale[..., 1]).all()
    assert PAPER * (1 - DULL) - 1 <= pale.min() < pale.max() <= PAPER * (1 - DULL) + 255 * DULL + 1
    np.testing.assert_array_equal(over(pale, np.zeros((8, 8, 4), dtype=np.uint8)), pale)


def test_the_top_regions_have_one_border_around_them() -> None:
    inside = np.zeros((40, 40), dtype=bool)
    inside[10:30, 10:30] = True
    made = outlined(np.full((40, 40, 3), 200, dtype=np.uint8), inside)
    dark = (made == channels(INK)).all(-1)
    assert dark.sum() == 20 * 20 - 16 * 16
    assert dark[10:12, 10:30].all()
    assert (made[12, 12:28] == 255).all()
    assert (made[~inside] == 200).all()
    assert (made[14:26, 14:26] == 200).all()
    edge = outlined(np.full((9, 9, 3), 200, dtype=np.uint8), np.ones((9, 9), dtype=bool))
    assert (edge[0] == channels(INK)).all()  # the end of the picture is a border too


def test_the_features_that_speak_most_are_those_of_a_trial() -> None:
    made = seen(2, k=2)
    for i in range(2):
        assert sorted(speaking(made, i, 2)) == made.chosen(2)[i].nonzero().flatten().tolist() == [0, 2]
    assert speaking(made, 0, 1, 0) == [1]
    made.present[0, 2:] = False
    assert speaking(made, 0, 3) == [0, 1]


@pytest.mark.parametrize("size", [(641, 500), (7, 900), (320, 321), (1, 1300)])
def test_large_pictures_are_made_smaller_with_their_regions(size: tuple[int, int]) -> None:
    made = seen(1, size=size, patch=450, k=None)
    here = scene(made, 0)
    assert here.picture.shape[:2] == here.regions.shape == here.shape
    assert max(here.shape) <= 320
    assert min(here.shape) >= 1
    assert set(here.regions.ravel()) <= set(made.regions.ravel())  # type: ignore[union-attr]
    flat = np.full(size, 99, dtype=np.uint8)
    assert set(shrunk(flat, 320).ravel()) == {99}
    small = np.arange(12).reshape(3, 4)
    assert thinned(small, 320).tolist() == small.tolist()


def images_of(text: str) -> list[np.ndarray]:
    return [opened(address) for address in re.findall(r'<img src="([^"]*)"', text)]


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("coloured", [False, True])
def test_a_notebook_shows_pictures_with_the_evidence_for_the_predicted_class(segments: bool, coloured: bool) -> None:
    made = seen(7, segments=segments, coloured=coloured)
    text = inline(made)
    assert text == made._repr_html_()
    pictures = images_of(text)
    assert len(pictures) == 5 * 5  # the first rows: the picture, one class, all classes, only, without
    for at, original in ((0, made.images), (3, made.trial.kept_images), (4, made.trial.rest_images)):  # type: ignore[union-attr]
        large = original[0].repeat(24, 0).repeat(24, 1)  # type: ignore[index]
        np.testing.assert_array_equal(pictures[at], large)
    view = View.one(made[:5])
    np.testing.assert_array_equal(pictures[1], painted(made, 0, view, side=DOTS, top=[0]))
    mine = over(dulled(made.images[0]), np.array([*channels(colour(2).light), 217]))[1, 1]  # type: ignore[index]
    assert pictures[1][30, 30].tolist() == mine.tolist()
    assert "2 more rows not shown" in text
    assert "outlined are the one that speaks most for the predicted class" in text
    assert "Full strength: a weight of 2.00 and more" in text
    assert 'width="104" height="104"' in text
    assert not re.search(r"<script|<style|https?:|\son\w+=", text)
    assert "nan" not in text


def test_a_notebook_shows_what_there_is() -> None:
    bare = seen(2, k=None)
    assert len(images_of(inline(bare))) == 2 * 3
    assert "Only the top" not in inline(bare)
    assert len(images_of(inline(seen(1, classes=("only",), k=None)))) == 2
    assert images_of(inline(seen(2)[:0])) == []
    wide = inline(seen(1, size=(8, 16)))
    assert 'width="104" height="52"' in wide
    blank = seen(1)
    blank.weights.zero_()
    assert "Full strength" not in inline(blank)


def test_hostile_names_stay_text_in_a_notebook() -> None:
    text = inline(replace(seen(1, classes=HOSTILE), method=HOSTILE[0]))
    assert HOSTILE[0] not in text
    assert "&lt;img src=x" in text
    assert "mathjax_ignore" in text


def shown(made: Explanation, *, width: int = 80, system: str | None = "truecolor", **settings: Any) -> str:
    file = io.StringIO()
    show(made, console=Console(file=file, force_terminal=True, color_system=system, width=width, _environ={}), **settings)  # type: ignore[arg-type]
    return file.getvalue()


def cells(out: str) -> list[list[tuple[list[int], list[int]]]]:
    """The colours of the upper and lower half of every block, line by line."""
    number = r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m▀+"
    lines = []
    for line in out.splitlines():
        found = []
        for match in re.finditer(number, line):
            values = [int(n) for n in match.groups()]
            found += [(values[:3], values[3:])] * match[0].count("▀")
        if found:
            lines.append(found)
    return lines


def test_a_terminal_draws_two_pixels_in_every_character() -> None:
    made = seen(1)
    lines = cells(shown(made))
    assert len(lines) == SIDE // 2
    wanted = painted(made, 0, View.one(made), side=SIDE, period=STRIPES)
    plain = made.images[0].repeat(4, 0).repeat(4, 1)  # type: ignore[index]
    assert [len(line) for line in lines] == [2 * SIDE] * (SIDE // 2)
    for y, line in enumerate(lines):
        assert [each[0][0] for each in line[:SIDE]] == plain[2 * y].tolist()
        assert [each[0] for each in line[SIDE:]] == wanted[2 * y].tolist()
        assert [each[1] for each in line[SIDE:]] == wanted[2 * y + 1].tolist()
    corner = over(dulled(made.images[0]), np.array([*channels(colour(2).light), 217]))[0, 0]  # type: ignore[index]
    assert wanted[0, 0].tolist() == corner.tolist()


def test_a_terminal_says_how_to_read_the_pictures() -> None:
    said = " ".join(re.sub(r"\x1b\[[\d;]*m", "", shown(seen(2))).split())
    assert "Regions in the colour of a class speak for it, striped ones against it; full strength is a weight of 2.00" in said
    every = " ".join(re.sub(r"\x1b\[[\d;]*m", "", shown(seen(1), target="all")).split())
    assert "Regions have the colour of the class that they speak most for; full strength is a margin of 4.00" in every
    assert "square 0 owl +4.00" in every
    assert re.search(r"square 0 \+2.00", said)
    assert " = " not in said  # the brightness of a square says nothing


def test_a_narrow_terminal_has_room_for_one_picture_and_a_narrower_one_for_none() -> None:
    assert {len(line) for line in cells(shown(seen(1), width=50))} == {SIDE}
    assert cells(shown(seen(1), width=30)) == []
    assert "Evidence for" in shown(seen(1), width=30)


@pytest.mark.parametrize("system", [None, "standard"])
def test_a_terminal_with_few_colours_lists_the_regions(system: str | None) -> None:
    out = re.sub(r"\x1b\[[\d;]*m", "", shown(seen(1, segments=True), system=system, k=2))
    assert "▀" not in out
    assert "Regions" not in out
    assert re.findall(r"^  (segment \d) +(\S+)", out, re.M) == [("segment 0", "+2.00"), ("segment 1", "\N{MINUS SIGN}2.00")]


def test_a_terminal_that_knows_only_ascii_has_no_blocks() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(seen(1), console=Console(file=file, force_terminal=True, color_system="truecolor", width=80, _environ={}))
    file.flush()
    assert b"square 0" in file.buffer.getvalue()  # type: ignore[attr-defined]


def test_odd_heights_and_hostile_names_are_shown() -> None:
    out = shown(seen(1, size=(31, 29), patch=20, classes=HOSTILE))
    assert out.count("▀") == 16 * 29 * 2
    assert "\x1b[31m" not in out.replace("\x1b[31m▀", "")
    assert "[bold]loud[/bold]" in out
    shown(seen(1)[:0])
