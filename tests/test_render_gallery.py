"""Pictures on the page: what it holds, and in a browser the class switch, the slider, the mistakes and the trial."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aimwise.explanation import Explanation, Trial
from aimwise.render import gallery
from aimwise.render.colours import INK, PALETTE, channels, colour
from aimwise.render.html import page, section
from aimwise.render.overlays import FILL
from aimwise.render.views import View
from test_render_classes import EVIL, Visit, solid
from test_render_html import Reader, unpacked
from test_render_html import explanation as table
from test_render_pictures import opened, seen
from test_render_text import explain

# The colours and opacities of a part of a drawing: so far to the right and down, so wide and tall, each from 0 to 1.
PATCH = """(node, [x, y, wide, tall]) => {
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [Math.max(1, wide * node.width), Math.max(1, tall * node.height)];
  const pen = copy.getContext("2d");
  pen.drawImage(node, -Math.floor(x * node.width), -Math.floor(y * node.height));
  return [...pen.getImageData(0, 0, copy.width, copy.height).data];
}"""
# How long the slider takes to move, and how many drawings are painted again within that time.
STEP = """slider => {
  const said = () => [...document.querySelectorAll("canvas")].map((node) => node.getAttribute("aria-label"));
  const before = said();
  const started = performance.now();
  slider.value = 3;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  return [performance.now() - started, said().filter((text, i) => text !== before[i]).length];
}"""
ALL_PAINTED = "() => document.querySelectorAll('canvas').length === document.querySelectorAll('canvas[aria-label]').length"
PAINTED = "node => node.getAttribute('aria-label') !== null"


class Viewing(Visit):
    """A visit to a page of pictures."""

    def drawing(self, card: int = 0) -> Any:
        node = self.tab.locator(".card").nth(card).locator("canvas")
        node.scroll_into_view_if_needed()
        self.tab.wait_for_function(PAINTED, arg=node.element_handle())
        return node

    def dot(self, x: float, y: float, card: int = 0) -> list[int]:
        found: list[int] = self.drawing(card).evaluate(PATCH, [x, y, 0, 0])
        return found

    def patch(self, *place: float) -> np.ndarray:
        return np.array(self.drawing().evaluate(PATCH, place)).reshape(-1, 4)

    def outlined(self) -> list[int]:
        """The quarters of the first picture that have a dark line along the picture's side."""
        sides = [(0, 0.2), (0.97, 0.2), (0, 0.7), (0.97, 0.7)]
        lines = [np.abs(self.patch(x, y, 0.03, 0.1)[:, :3] - channels(INK)).max(1).min() for x, y in sides]
        return [j for j, nearest in enumerate(lines) if nearest < 12]


def close(found: list[int], tone: str, share: float) -> bool:
    return all(abs(a - b) <= 3 for a, b in zip(found, (*channels(tone), 255 * share), strict=True))


def test_the_record_gives_back_regions_weights_and_pictures() -> None:
    for made in (seen(3), seen(2, segments=True, coloured=True, size=(9, 14), patch=5)):
        made.weights[1, 3, 0] = torch.nan
        made.present[0, 2] = False
        data: dict[str, Any] = gallery.record(made)
        height, width = data["size"]
        for i, runs in enumerate(data["regions"]):
            read = np.repeat(runs[::2], runs[1::2]).reshape(height, width)
            np.testing.assert_array_equal(read, made.regions[i])  # type: ignore[index]
        for i in range(len(made)):
            found, wanted = unpacked({**data, "classes": made.classes}, i), made.weights[i].numpy()
            absent = ~np.isfinite(wanted) | ~made.present[i, :, None].numpy()
            np.testing.assert_array_equal(np.isnan(found), absent)
            np.testing.assert_allclose(found[~absent], wanted[~absent], atol=0.501 * data["units"][i])
            picture = opened(data["pictures"][i])
            np.testing.assert_array_equal(picture, made.images[i])  # type: ignore[index]
            for what in ("kept", "rest"):
                laid = opened(data[what][0][i])
                old = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, -1)
                wanted = getattr(made.trial, f"{what}_images")[i]
                wanted = wanted if wanted.ndim == 3 else np.repeat(wanted[..., None], 3, -1)
                np.testing.assert_array_equal(np.where(laid[..., 3:] > 0, laid[..., :3], old), wanted)
                assert set(laid[..., 3].ravel()) == {0, 255}


def test_large_pictures_are_fewer_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "BYTES", 8 * 8 * 3 + 5)
    text = section("t", seen(5), truth=[2] * 5)
    assert "the first 3 of 5 rows" in text
    assert len(Reader(text).blocks[0]["pictures"]) == 3
    assert gallery.room(seen(1, size=(2000, 2000), patch=999, k=None)) == 1


def test_the_gallery_shows_each_class_over_the_rows_that_are_predicted_as_it() -> None:
    made = seen(4, size=(8, 16), segments=True)
    made.probs[3] = torch.tensor([0.8, 0.1, 0.1])
    made.weights[1, 0, 2] = 4.0
    text = section("t", made)
    figure = re.search(r'<ol class="tiles" role="list">(.*?)</ol>', text)
    assert figure
    tiles = re.findall(r"<li.*?</li>", figure[1])
    assert [re.sub("<[^>]*>", "", each) for each in tiles] == ["cat 1 row", "owl 3 rows"]
    mean, colours = (opened(address) for address in re.findall(r'src="([^"]*)"', tiles[1]))
    np.testing.assert_allclose(mean, made.images[:3].mean(0), atol=0.51)  # type: ignore[index]
    full = (2 + 4 + 2) / 3
    assert f"a mean weight of {full:.2f}." in text
    assert colours[5, 5].tolist() == [*channels(colour(2).light), round(255 * FILL)]
    third = colours[5, 2 * 4 * 14 + 5]  # the third square, whose weight is 1
    assert third.tolist() == [*channels(colour(2).light), round(255 * FILL / full)]
    assert set(map(tuple, colours[:50, 60:100, :3].reshape(-1, 3).tolist())) == {channels(colour(2).line)}
    assert 'aspect-ratio:16/8"' in tiles[1]
    assert "<noscript>" in text
    assert "the pictures below still show" in text


def test_the_gallery_has_room_for_twelve_classes() -> None:
    made = seen(14, classes=tuple(f"c{i}" for i in range(14)), k=None)
    made.probs.copy_(torch.eye(14))
    text = gallery.gallery(made)
    assert text.count("<li") == 12
    assert "Not shown: 2 classes that fewer rows have." in text
    assert gallery.gallery(made[:0]) == ""


def test_hostile_names_stay_text_and_every_picture_is_inside() -> None:
    made = replace(seen(3, classes=EVIL), method=EVIL[1])
    made.probs.copy_(torch.eye(len(EVIL))[:3])
    text = page("t", [section("t", made, truth=[0, 1, 2])])
    reader = Reader(text)
    assert not [evil for evil in EVIL[:2] if evil in text]
    assert reader.count("script") == 2
    sources = [attrs["src"] for tag, attrs in reader.tags if "src" in attrs]
    assert len(sources) == reader.count("img") == 6  # three mean pictures and the evidence over them
    assert all(source is not None and source.startswith("data:image/png;base64,") for source in sources)
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|innerHTML", text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_class_switch_fills_hatches_and_colours(browser: Any, tmp_path: Path, scheme: str) -> None:
    made = seen(2)
    visit = Viewing(browser, tmp_path, made, color_scheme=scheme)
    owl, cat = PALETTE[2], PALETTE[0]
    assert close(visit.dot(0.25, 0.25), owl.light, FILL)  # at first the predicted class
    assert close(visit.dot(0.25, 0.75), owl.light, FILL / 2)
    assert visit.dot(0.75, 0.75)[3] <= 3
    hatched = visit.patch(0.6, 0.1, 0.3, 0.3)
    drawn = hatched[hatched[:, 3] == 255]
    assert 0.1 < len(drawn) / len(hatched) < 0.6
    assert (np.abs(drawn[:, :3] - channels(owl.line)) <= 3).all()
    assert (hatched[:, 3] == 0).mean() > 0.2
    assert visit.card.locator(".towards").text_content() == "Evidence for owl"
    assert visit.legend() == {
        "Colour": "the predicted class: cat dog owl",
        "Regions": "filled speak for the predicted class, hatched speak against it, outlined are the one that speaks most for it",
        "Weight": "\N{MINUS SIGN}2.00 \N{MINUS SIGN}1.00 0.00 +1.00 +2.00 and more",
    }
    assert visit.ground(".legend .chip") == (cat.light, 1.0)  # on dark paper too, as in the pictures
    assert visit.ground(".card .probs li:nth-child(3) .share") == (owl.light, 1.0)

    visit.pick(0)
    assert close(visit.dot(0.75, 0.25), cat.light, FILL)
    assert (np.abs(visit.patch(0.1, 0.1, 0.3, 0.3)[:, 3] - 255) < 1).mean() < 0.6
    assert visit.card.locator(".towards").text_content() == "Evidence for cat"
    assert close(visit.dot(0.75, 0.25, card=1), cat.light, FILL)

    visit.pick(-2)
    view = View.all(made)
    for j, (x, y) in enumerate([(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)]):
        share = min(1.0, float(view.weights[0, j]) / view.scale)
        if share > 0.05:
            assert close(visit.dot(x, y), colour(int(view.classes[0, j])).light, FILL * share)
    assert visit.card.locator(".towards").text_content() == "Evidence for all classes"
    assert visit.legend()["Regions"] == "outlined are the one with the largest margin"
    assert visit.said == []


def test_the_slider_outlines_the_regions_that_speak_most(browser: Any, tmp_path: Path) -> None:
    visit = Viewing(browser, tmp_path, seen(1, k=2))
    slider = visit.tab.get_by_label("Top regions")
    assert slider.input_value() == "2"  # as many as were tried
    assert slider.get_attribute("max") == "4"
    assert visit.outlined() == [0, 2]
    slider.fill("1")
    assert visit.outlined() == [0]
    assert slider.get_attribute("aria-valuetext") == "1 region"
    slider.fill("0")
    assert visit.outlined() == []
    assert "outlined" not in visit.legend()["Regions"]
    visit.pick(0)
    slider.fill("1")
    assert visit.outlined() == [1]
    assert visit.drawing().get_attribute("aria-label") == "The regions that say most: square 1: +2.00"
    assert visit.said == []


def test_a_region_says_its_weight_under_the_pointer(browser: Any, tmp_path: Path) -> None:
    for made, name in ((seen(1), "square"), (seen(1, segments=True), "segment")):
        visit = Viewing(browser, tmp_path, made)
        node = visit.drawing()
        place = node.bounding_box()
        for (x, y), said in (((0.25, 0.25), f"{name} 0: +2.00"), ((0.75, 0.25), f"{name} 1: \N{MINUS SIGN}2.00")):
            visit.tab.mouse.move(place["x"] + x * place["width"], place["y"] + y * place["height"])
            assert node.get_attribute("title") == said
        visit.pick(-2)
        place = visit.drawing().bounding_box()
        visit.tab.mouse.move(place["x"] + 15, place["y"] + 15)
        assert node.get_attribute("title") == f"{name} 0: owl +4.00"


def test_mistakes_can_be_picked_out(browser: Any, tmp_path: Path) -> None:
    visit = Viewing(browser, tmp_path, seen(20), truth=[2] * 15 + [0, 1, 2, 2, 0])
    cards = visit.tab.locator(".card")
    assert cards.count() == 20
    visit.tab.get_by_label("Wrong predictions only (3)").check()
    assert cards.locator(".row").all_text_contents() == ["Row 15", "Row 16", "Row 19"]
    assert cards.locator(".badge.bad").all_text_contents() == [
        "✗ wrong, truth: cat",
        "✗ wrong, truth: dog",
        "✗ wrong, truth: cat",
    ]
    assert close(visit.dot(0.25, 0.25, card=2), PALETTE[2].light, FILL)
    visit.tab.get_by_label("Search rows").fill("dog")
    assert cards.locator(".row").all_text_contents() == ["Row 16"]
    assert visit.said == []


def test_the_trial_stands_below_with_what_the_black_box_said(browser: Any, tmp_path: Path) -> None:
    made = seen(1)
    visit = Viewing(browser, tmp_path, made)
    trial = visit.card.locator(".trial")
    assert trial.locator("h5").all_text_contents() == ["Only the top 1", "Without the top 1"]
    for n, probs in enumerate((made.trial.kept, made.trial.rest)):  # type: ignore[union-attr]
        lines = trial.locator("> div").nth(n).locator("li")
        said = dict(zip(lines.locator(".name").all_text_contents(), lines.locator(".percent").all_text_contents(), strict=True))
        assert said == {name: f"{float(p):.1%}" for name, p in zip(made.classes, probs[0], strict=True)}
        assert lines.first.locator(".name").text_content() == "owl"  # the predicted class stays first
    data: dict[str, Any] = gallery.record(made)
    laid = [trial.locator(".shot").nth(n).locator("img").last.get_attribute("src") for n in range(2)]
    assert laid == [data["kept"][0][0], data["rest"][0][0]]
    shot = trial.locator(".shot").nth(1)
    assert shot.locator("img").count() == 2
    assert shot.locator("img").last.get_attribute("alt") == "Without the top 1"
    sizes = shot.locator("img").evaluate_all(
        "nodes => nodes.map(n => [n.complete, n.naturalWidth, getComputedStyle(n).imageRendering])"
    )
    assert sizes == [[True, 8, "pixelated"]] * 2
    large = Viewing(browser, tmp_path, seen(1, size=(100, 80), patch=50))
    smooth = large.card.locator(".shot img").first
    assert smooth.evaluate("n => [n.naturalHeight, getComputedStyle(n).imageRendering]") == [100, "auto"]
    box = smooth.bounding_box()
    assert box["height"] / box["width"] == pytest.approx(100 / 80, rel=0.02)


def test_a_trial_of_words_and_of_columns_is_told_too(browser: Any, tmp_path: Path) -> None:
    for made in (explain(["a good film"]), table(2, 5, 2)):
        tried = replace(made, trials=(Trial(2, made.probs.flip(1), made.probs),))
        visit = Visit(browser, tmp_path, tried)
        assert visit.card.locator(".trial h5").all_text_contents() == ["Only the top 2", "Without the top 2"]
        best = made.classes[int(made.probs[0].argmin())]
        assert visit.card.locator(".trial > div").first.locator(".first .name").text_content() == best
        assert visit.card.locator("img, canvas").count() == 0
        assert visit.said == []
    assert Visit(browser, tmp_path, table(2, 5, 2)).card.locator(".trial").count() == 0


@pytest.mark.parametrize("target", [-2, -1, 0])
def test_hostile_names_fit_a_phone(browser: Any, tmp_path: Path, target: int) -> None:
    made = seen(3, classes=EVIL)
    visit = Viewing(browser, tmp_path, made, viewport={"width": 390, "height": 844}, truth=[0, 1, 2])
    visit.pick(target)
    visit.drawing()
    assert visit.tab.evaluate("document.documentElement.scrollWidth") == 390
    assert visit.tab.locator(".switch .name").all_text_contents()[2:] == list(EVIL)
    assert visit.tab.locator("style").count() == 1
    assert visit.tab.locator("body script").count() == 2
    assert visit.tab.locator("img").evaluate_all("nodes => nodes.every(n => n.src.startsWith('data:image/png'))")
    assert visit.said == []


def test_edges_are_drawn(browser: Any, tmp_path: Path) -> None:
    for made in (seen(1, classes=("only",)), seen(1, k=None)[:0], seen(1, size=(1, 1), patch=1, k=None)):
        visit = Viewing(browser, tmp_path, made)
        if len(made):
            visit.drawing()
        assert visit.said == []
    odd = seen(1, k=None)
    odd.weights[0, 0] = torch.nan
    odd.present[0, 1] = False
    visit = Viewing(browser, tmp_path, odd)
    assert visit.dot(0.25, 0.25)[3] == visit.dot(0.75, 0.25)[3] == 0
    assert close(visit.dot(0.25, 0.75), PALETTE[2].light, FILL)
    odd.weights.zero_()
    visit = Viewing(browser, tmp_path, odd)
    assert visit.dot(0.25, 0.75)[3] == 0
    assert "Weight" not in visit.legend()
    assert visit.said == []


def many() -> Explanation:
    made = seen(100, size=(28, 28), patch=1, classes=tuple("0123456789"), k=40)
    made.weights.copy_(torch.randn(made.weights.shape, generator=torch.Generator().manual_seed(0)))
    return made


def test_a_hundred_pictures_of_many_pixels_stay_quick_and_small(browser: Any, tmp_path: Path) -> None:
    made = many()
    started = time.perf_counter()
    visit = Viewing(browser, tmp_path, made)
    visit.drawing()
    assert time.perf_counter() - started < 20  # building, writing, loading and drawing
    assert visit.size < 4_000_000
    assert visit.tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 5_000
    assert visit.tab.locator(".card").count() == 100
    visit.tab.wait_for_function(ALL_PAINTED)  # when there is nothing else to do
    took, painted = visit.tab.locator(".slider input").evaluate(STEP)
    assert took < 2_000
    assert 0 < painted < 40  # what is far away waits
    started = "() => { window.dispatchEvent(new Event('beforeprint')); return [...document.querySelectorAll('canvas')].filter"
    assert visit.tab.evaluate(started + "(n => n.getAttribute('aria-label').split(';').length === 3).length; }") == 100
    assert solid(visit.tab.locator(".shot.dull").first.evaluate("n => getComputedStyle(n).backgroundColor"))[0] == "#f2f2f2"
    assert visit.said == []
