"""The page in a browser: a colour for every class, one class or all of them at once, by mouse and by keyboard, on any screen."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aimwise.explanation import Explanation
from aimwise.render.colours import PALETTE, channels
from aimwise.render.html import page, section
from aimwise.render.views import View
from test_render_colours import KNOWN, TEXT, contrast, papers
from test_render_html import explanation as table_explanation
from test_render_text import explain

CLASSES = ("bad", "so so", "good")
WORDS = """nodes => nodes.map((node) => {
  const look = getComputedStyle(node);
  return {text: node.textContent, ground: look.backgroundColor, ink: look.color, bold: look.fontWeight >= 700,
    line: look.textDecorationLine, style: look.textDecorationStyle, thick: parseFloat(look.textDecorationThickness)};
})"""
EVIL = (
    "</style><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "\u202egnp.exe\u2066",
    "x" * 200,
    "a long name " * 20,
)


class Visit:
    """A page that was opened from its file, what it said and what it asked for."""

    def __init__(
        self,
        browser: Any,
        folder: Path,
        made: Explanation,
        *,
        note: str = "",
        most: int = 100,
        truth: Sequence[int] | None = None,
        **screen: Any,
    ) -> None:
        file = folder / "page.html"
        file.write_text(page("t", [section("t", made, note=note, most=most, truth=truth)]), encoding="utf-8")
        self.size = file.stat().st_size
        self.said: list[str] = []
        asked: list[str] = []
        self.tab = browser.new_page(**{"viewport": {"width": 1100, "height": 900}, **screen})
        self.tab.on("console", lambda m: self.said.append(m.text))
        self.tab.on("pageerror", lambda e: self.said.append(str(e)))
        self.tab.on("dialog", lambda d: (self.said.append(d.message), d.dismiss()))
        self.tab.on("request", lambda r: asked.append(r.url))
        self.tab.goto(file.as_uri())
        assert asked == [file.as_uri()]
        self.card = self.tab.locator(".card").first

    def pick(self, target: int) -> None:
        self.tab.locator(f".switch input[value='{target}']").check(force=True)

    def words(self, where: str = ".card:first-child .text .word") -> dict[str, dict[str, Any]]:
        return {each["text"]: each for each in self.tab.locator(where).evaluate_all(WORDS)}

    def ground(self, where: str) -> tuple[str, float]:
        return solid(self.tab.locator(where).first.evaluate("node => getComputedStyle(node).backgroundColor"))

    def legend(self) -> dict[str, str]:
        names, said = (self.tab.locator(f".legend {tag}").all_text_contents() for tag in ("dt", "dd"))
        return dict(zip(names, (" ".join(s.split()) for s in said), strict=True))


def solid(said: str) -> tuple[str, float]:
    """A colour as the browser writes it, as #rrggbb and how opaque it is."""
    numbers = [float(n) for n in re.findall(r"[\d.]+(?:e-?\d+)?", said.replace("srgb", ""))]
    if said.startswith("color("):
        numbers[:3] = [255 * n for n in numbers[:3]]
    return "#" + "".join(f"{round(n):02x}" for n in numbers[:3]), numbers[3] if len(numbers) > 3 else 1.0


def close(one: str, other: str) -> bool:
    return all(abs(a - b) <= 1 for a, b in zip(channels(one), channels(other), strict=True))


def test_one_class_fills_what_speaks_for_it_and_dashes_what_speaks_against_it(browser: Any, tmp_path: Path) -> None:
    made = explain([TEXT, "clever dull dull"], classes=CLASSES, known=KNOWN)
    visit = Visit(browser, tmp_path, made)
    assert made.prediction.tolist() == [2, 0]
    good, bad = PALETTE[2].light, PALETTE[0].light
    assert visit.ground(".card:nth-child(1) .towards bdi") == (good, 1.0)  # at first the predicted class, in its colour
    assert visit.ground(".card:nth-child(2) .towards bdi") == (bad, 1.0)
    assert visit.legend()["Colour"] == "the predicted class: bad so so good"
    assert [solid(each["ground"])[0] for each in visit.words(".legend .chip").values()] == [each.light for each in PALETTE[:3]]

    visit.pick(2)
    words = visit.words()
    assert visit.legend() == {
        "Words": "filled speak for good, dashed speak against it, bold are the 10 with the largest weights",
        "Weight": "\N{MINUS SIGN}2.00 \N{MINUS SIGN}1.00 0.00 +1.00 +2.00 and more",
    }
    grounds = [solid(words[w]["ground"]) for w in ("clever", "fair", "mild")]
    assert all(close(colour, good) for colour, _ in grounds)
    assert [round(share, 2) for _, share in grounds] == [1.0, 0.5, 0.25]
    for word, legend in (("clever", "+2.00"), ("fair", "+1.00")):  # the legend is drawn as the words are
        assert visit.words(".legend .word")[legend]["ground"] == words[word]["ground"]
    against = [words[w] for w in ("dull", "slow")]
    assert {(each["line"], each["style"], solid(each["ground"])[1]) for each in against} == {("underline", "dashed", 0.0)}
    assert against[0]["thick"] > against[1]["thick"] >= 1
    assert {words[w]["line"] for w in ("clever", "fair", "mild")} == {"none"}
    assert visit.ground(".card:nth-child(2) .towards bdi") == (good, 1.0)

    visit.pick(0)
    words = visit.words()
    assert close(solid(words["dull"]["ground"])[0], bad)
    assert words["clever"]["style"] == "dashed"
    visit.tab.get_by_label("Top words").fill("1")
    assert [w for w, each in visit.words().items() if each["bold"]] == ["clever"]
    assert visit.legend()["Words"].endswith("bold are the one with the largest weight")
    visit.tab.get_by_label("Top words").fill("0")
    assert visit.legend()["Words"] == "filled speak for bad, dashed speak against it"
    assert visit.said == []


@pytest.mark.parametrize("count", [2, 4])
def test_all_classes_colour_each_word_for_the_class_it_speaks_most_for(browser: Any, tmp_path: Path, count: int) -> None:
    made = explain([TEXT], classes=[f"c{i}" for i in range(count)], known=KNOWN)
    made.weights[0, 5] = 0.25  # says the same of all classes
    visit, view = Visit(browser, tmp_path, made), View.all(made)
    visit.pick(-2)
    words = visit.words()
    seen = set()
    for j, word in enumerate(TEXT.split()):
        colour, share = solid(words[word]["ground"])
        wanted = min(1.0, float(view.weights[0, j]) / view.scale)
        assert share == pytest.approx(wanted, abs=0.006)
        assert words[word]["line"] == "none"
        if wanted > 0.02:
            c = int(view.classes[0, j])
            assert close(colour, PALETTE[c].light)
            seen.add(c)
    assert seen == {0, count - 1}
    assert solid(words["film"]["ground"])[1] == 0.0

    slider = visit.tab.get_by_label("Top words")
    for k in (2, 9, 4):
        slider.fill(str(k))
        wanted_words = [TEXT.split()[j] for j in view.strongest(0, k)]
        assert sorted(w for w, each in visit.words().items() if each["bold"]) == sorted(wanted_words)
        names = visit.card.locator(".bar .name").all_text_contents()
        assert names == [f"{w} c{int(view.classes[0, TEXT.split().index(w)])}" for w in wanted_words]
    assert visit.card.locator(".bar .part").count() == 4
    assert visit.card.locator(".bar .plus, .bar .minus").count() == 0
    assert visit.legend()["Words"] == "bold are the 4 with the largest margins"
    assert visit.card.locator(".rest").text_content() == "1 other word"
    full = view.scale
    assert f"+{full / 2:.2f} +{0.75 * full:.2f} +{full:.2f} and more" in visit.legend()["Margin"]
    chips = visit.words(".legend .chip")
    assert list(chips) == [f"c{i}" for i in range(count)]
    for c in range(count):
        bar = visit.ground(f".card .probs li:nth-child({c + 1}) .share")
        assert bar == solid(chips[f"c{c}"]["ground"]) == visit.ground(f".switch label.k{c} .dot") == (PALETTE[c].light, 1.0)
    assert visit.card.locator(".towards").text_content() == "Evidence for all classes"
    assert visit.tab.locator("figure:visible").get_attribute("data-target") == "-2"
    assert visit.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_twelve_classes_are_readable_and_told_apart(browser: Any, tmp_path: Path, scheme: str) -> None:
    classes = [f"class {c}" for c in range(12)]
    made = explain([" ".join(f"word{c}" for c in range(12))], classes=classes)
    made.weights.zero_()
    made.weights[0, range(12), range(12)] = 1.0
    visit = Visit(browser, tmp_path, made, color_scheme=scheme)
    visit.pick(-2)
    visit.tab.get_by_label("Top words").fill("12")
    words = visit.words()
    looks = set()
    for c in range(12):
        each = words[f"word{c}"]
        (ground, share), (ink, _) = solid(each["ground"]), solid(each["ink"])
        assert share == 1.0
        assert close(ground, getattr(PALETTE[c % 10], scheme))
        assert close(ink, papers()[scheme]["ink"])
        assert contrast(ink, ground) >= 4.5
        looks.add((ground, each["line"], each["style"]))
    assert len(looks) == 12
    for where in (".text .word", ".legend .chip", ".card .bar .of", "figure .bar .of", ".switch .options .name"):
        lines = {each["text"]: each["line"] for each in visit.tab.locator(where).evaluate_all(WORDS)}
        marked = {name for name, line in lines.items() if line == "underline"}
        assert {name[-2:] for name in marked} == {"10", "11"}, where
    last = visit.card.locator(".probs bdi", has_text="class 11").evaluate("node => getComputedStyle(node).textDecorationLine")
    assert last == "underline"
    visit.pick(11)  # alone it needs no second mark: a line would say that a word speaks against it
    assert visit.words()["word11"]["line"] == "none"


def test_the_switch_and_the_slider_work_by_keyboard_and_have_names(browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, tmp_path, explain([TEXT], classes=CLASSES, known=KNOWN))
    tab, group = visit.tab, visit.tab.get_by_role("group", name="Evidence for")
    assert group.get_by_role("radio").count() == 5
    assert group.get_by_role("radio", name="predicted class").is_checked()
    group.get_by_role("radio", name="predicted class").focus()
    tab.keyboard.press("ArrowLeft")
    assert group.get_by_role("radio", name="all classes").is_checked()
    assert visit.card.locator(".towards").text_content() == "Evidence for all classes"
    ring = "node => getComputedStyle(node).outlineStyle"
    assert tab.locator(".switch input:checked + span").evaluate(ring) == "solid"
    tab.keyboard.press("ArrowLeft")
    assert group.get_by_role("radio", name="good", exact=True).is_checked()
    tab.keyboard.press("Tab")
    slider = group.get_by_role("slider", name="Top words")
    assert slider.evaluate("node => node === document.activeElement")
    assert slider.evaluate(ring) == "solid"
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "1 word"
    assert visit.card.locator(".word.top").all_text_contents() == ["clever"]
    tab.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "2 words"


def test_forced_colours_leave_the_choice_and_the_top_words_in_sight(browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, tmp_path, explain([TEXT], classes=CLASSES, known=KNOWN), forced_colors="active")
    visit.pick(2)
    visit.tab.get_by_label("Top words").fill("2")
    words = visit.words()
    assert (words["clever"]["line"], words["clever"]["style"], words["clever"]["bold"]) == ("underline", "solid", True)
    assert (words["dull"]["line"], words["dull"]["style"], words["dull"]["bold"]) == ("underline", "dashed", True)
    assert words["fair"]["line"] == "none"
    ground = "node => getComputedStyle(node).backgroundColor"
    spans = visit.tab.locator(".switch label > span").evaluate_all(f"nodes => nodes.map({ground})")
    assert spans.count(spans[4]) == 1


def test_tables_have_the_colours_of_their_classes(browser: Any, tmp_path: Path) -> None:
    made = table_explanation(3, 6, 3)
    made.weights[0, 0] = torch.tensor([4.0, -4.0, 1.0])
    visit = Visit(browser, tmp_path, made)
    first = visit.card.locator(".bar").first
    look = "node => [getComputedStyle(node).backgroundColor, getComputedStyle(node).backgroundImage.split('(')[0]]"
    for c, sign, image in ((0, "plus", "none"), (1, "minus", "repeating-linear-gradient")):
        visit.pick(c)
        colour, drawn = first.locator(f".{sign}").evaluate(look)
        assert drawn == image
        assert solid(colour) == ((PALETTE[c].light, 1.0) if sign == "plus" else ("#000000", 0.0))
        assert visit.ground(f".card .probs li:nth-child({c + 1}) .share") == (PALETTE[c].light, 1.0)
        assert visit.legend()["Bars"] == f"filled speak for class {c}, hatched speak against it"
    assert visit.ground("figure:not([hidden]) .plus") == (PALETTE[1].light, 1.0)
    visit.pick(-2)
    view = View.all(made)
    wanted = [f"feature {j} = {made.values[0, j]:.6g} class {int(view.classes[0, j])}" for j in view.strongest(0, 6)]
    assert visit.card.locator(".bar .name").all_text_contents() == wanted
    assert visit.ground(".card .bar .part") == (PALETTE[0].light, 1.0)
    widths = visit.card.locator(".bar .part").evaluate_all("nodes => nodes.map(node => parseFloat(node.style.cssText.slice(4)))")
    np.testing.assert_allclose(widths, [100 * float(view.weights[0, j]) / 5.5 for j in view.strongest(0, 6)], atol=0.05)
    assert visit.said == []


@pytest.mark.parametrize("target", [-2, -1, 0])
def test_hostile_names_stay_text_and_fit_a_phone(browser: Any, tmp_path: Path, target: int) -> None:
    made = explain([*EVIL, TEXT], classes=EVIL, known=KNOWN)
    visit = Visit(browser, tmp_path, made, viewport={"width": 390, "height": 844})
    visit.pick(target)
    tab = visit.tab
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert tab.locator(".switch .name").all_text_contents()[2:] == list(EVIL)
    assert tab.locator(".card .text").all_text_contents() == [*EVIL, TEXT]
    assert tab.locator("style").count() == 1
    assert tab.locator("body script").count() == 2
    assert tab.locator("img").count() == 0
    names = tab.locator(".legend .chip, .legend bdi, .bar .of").evaluate_all(
        "nodes => nodes.map(node => getComputedStyle(node).unicodeBidi)"
    )
    assert set(names) == {"isolate"}  # a name that turns the direction of writing turns only itself
    assert visit.said == []


def test_what_says_nothing_is_said_to_say_nothing(browser: Any, tmp_path: Path) -> None:
    made = explain([TEXT, ""], classes=CLASSES)
    made.weights.zero_()
    visit = Visit(browser, tmp_path, made)
    visit.pick(-2)
    said = visit.tab.locator(".card .rest").all_text_contents()
    assert said == ["Nothing speaks for one class more than for the others.", "This text has no words."]
    assert "Margin" not in visit.legend()  # there is no scale
    assert {solid(each["ground"])[1] for each in visit.words().values()} == {0.0}
    assert visit.said == []


def test_the_facts_keep_their_distance(browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, tmp_path, explain([TEXT]), note="What this is about.")
    assert visit.tab.locator(".set.alone").count() == 1
    gap = "() => document.querySelector('.facts').getBoundingClientRect().top"
    assert visit.tab.evaluate(f"({gap})() - document.querySelector('.note').getBoundingClientRect().bottom") >= 16


def test_five_hundred_long_texts_stay_quick(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vocabulary = np.array(["".join(rng.choice(list("abcdefghij"), size=n)) for n in rng.integers(2, 10, size=4000)])
    made = explain([" ".join(rng.choice(vocabulary, size=300)) for _ in range(500)], classes=("a", "b", "c", "d"))
    made.weights.copy_(0.5 * torch.randn(made.weights.shape, generator=torch.Generator().manual_seed(0)))
    started = time.perf_counter()
    visit = Visit(browser, tmp_path, made, most=500)
    visit.card.wait_for()
    assert time.perf_counter() - started < 30  # building, writing, loading and drawing
    assert visit.size < 3_500_000
    loaded = visit.tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert loaded < 10_000
    assert visit.tab.locator(".card").count() == 500
    visit.tab.locator(".card").nth(100).scroll_into_view_if_needed()
    visit.tab.locator(".card").nth(100).locator(".word").first.wait_for()
    hidden = "node => !node.checkVisibility({contentVisibilityAuto: true})"
    assert visit.tab.locator(".card").first.locator(".text").evaluate(hidden)  # what is far away is not laid out
    started = time.perf_counter()
    visit.pick(-2)
    assert visit.card.locator(".word").first.get_attribute("class").split()[2].startswith("k")
    assert time.perf_counter() - started < 10
