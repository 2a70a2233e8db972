"""The report in a browser: class switch, slider, search, order, keyboard alone, a phone, the dark, print, and a thousand rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aimwise.explanation import Check, Explanation, Trial
from test_render_classes import solid
from test_render_colours import contrast
from test_render_html import explanation as table_explanation
from test_render_pictures import seen
from test_render_text import explain
from test_report import about, large

EVIL = "<script>document.title='run'</script></script><img src=x onerror=\"document.title='run'\">"
KS = (1, 3, 5)
# The contrast of every piece of text that is in sight with what is behind it.
CONTRASTS = """() => {
  const numbers = (said) => said.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, a] = numbers(getComputedStyle(at).backgroundColor);
      if (a === undefined || a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest("script, style, .word, .chip, .towards, option")) continue;
    found.push([numbers(getComputedStyle(node).color).slice(0, 3), behind(node), node.className || node.tagName]);
  }
  return found;
}"""


class Report:
    """A report written by `to_html` and opened from disk; what it said and what it asked for are written down."""

    def __init__(self, browser: Any, folder: Path, made: Explanation, *, truth: Any = None, **screen: Any) -> None:
        self.file = made.to_html(folder / "why.html", title="Why", truth=truth)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab = browser.new_page(**{"viewport": {"width": 1100, "height": 900}, **screen})
        self.tab.on("console", lambda m: self.said.append(m.text))
        self.tab.on("pageerror", lambda e: self.said.append(str(e)))
        self.tab.on("request", lambda r: self.asked.append(r.url))
        self.tab.goto(self.file.as_uri())
        self.card = self.tab.locator(".card").first

    def rows(self, count: int = 12) -> list[int]:
        """The numbers of the first rows in sight."""
        shown: list[str] = self.tab.locator(".card").evaluate_all(f"nodes => nodes.slice(0, {count}).map(n => n.dataset.row)")
        return [int(row) for row in shown]

    def done(self) -> None:
        assert self.said == []
        assert self.asked == [self.file.as_uri()]  # nothing leaves the page
        assert self.tab.title() == "Why"
        self.tab.close()


def tried(made: Explanation, ks: tuple[int, ...] = KS) -> Explanation:
    """With trials in which the predicted class is the more probable the more is kept."""
    trials = []
    for n, k in enumerate(ks):
        kept = torch.full_like(made.probs, (0.9 - 0.2 * (n + 1)) / max(1, made.probs.shape[1] - 1))
        kept[torch.arange(len(made)), made.prediction] = 0.1 + 0.2 * (n + 1)
        trials.append(Trial(k, kept, made.probs))
    return replace(made, trials=tuple(trials), about=about())


def table(rows: int = 40) -> Explanation:
    made = table_explanation(rows, 15, 3)
    agreement = torch.linspace(0.9, 0.5, rows)
    return tried(replace(made, check=Check(agreement, torch.full((rows,), 0.4), 32)))


def test_rows_are_put_in_order(browser: Any, tmp_path: Path) -> None:
    made = table()
    truth = made.prediction.clone()
    truth[[5, 17, 33]] = (truth[[5, 17, 33]] + 1) % 3
    report = Report(browser, tmp_path, made, truth=truth)
    sort, best = report.tab.get_by_label("Sort by"), made.probs.max(1).values
    assert report.rows(40) == list(range(40))
    sort.select_option("sure")
    assert report.rows(40) == best.argsort(descending=True, stable=True).tolist()
    sort.select_option("unsure")
    assert report.rows(40) == best.argsort(stable=True).tolist()
    report.tab.get_by_role("radio", name="class 1").check(force=True)  # now its probability counts
    assert report.rows(40) == made.probs[:, 1].argsort(stable=True).tolist()
    sort.select_option("agreement")
    assert report.rows(40) == list(range(39, -1, -1))
    sort.select_option("wrong")
    wrong = sorted([5, 17, 33], key=lambda i: -float(best[i]))
    assert report.rows(4) == [*wrong, 0]  # the surest mistakes first, then the others in their order
    assert report.card.locator(".badge.bad").count() == 1
    report.tab.get_by_label("Search rows").fill("row 1")
    assert report.rows(40) == [17, 1, *range(10, 17), 18, 19]
    assert report.tab.locator(".count").inner_text() == "11 of 40 rows found"
    report.done()


def test_orders_that_mean_nothing_are_not_offered(browser: Any, tmp_path: Path) -> None:
    report = Report(browser, tmp_path, replace(table(), check=None))
    values = report.tab.locator(".find option").evaluate_all("nodes => nodes.map(n => n.value)")
    assert values == ["row", "sure", "unsure"]
    report.done()


@pytest.mark.parametrize("kind", ["table", "text", "image"])
def test_the_slider_shows_what_the_black_box_said_of_so_many_features(browser: Any, tmp_path: Path, kind: str) -> None:
    known = {"good": 1.0, "dull": -0.5, "film": 0.25}
    made = {"table": table(3), "text": tried(explain(["a good dull film and more"], known=known)), "image": tried(seen(2))}[kind]
    report = Report(browser, tmp_path, made)
    slider, card = report.tab.locator(".slider input"), report.card
    assert report.tab.locator("datalist option").evaluate_all("nodes => nodes.map(n => Number(n.value))") == list(KS)
    rungs = card.locator(".rung")
    assert [" ".join(said.split()) for said in rungs.all_inner_texts()] == ["1 30.0%", "3 50.0%", "5 70.0%"]
    name = made.classes[int(made.prediction[0])]
    for value, k, said in ((1, 1, "30.0%"), (3, 3, "50.0%"), (4, 3, "50.0%"), (5, 5, "70.0%"), (0, 1, "30.0%")):
        slider.fill(str(value))
        assert card.locator(".trial h5").all_text_contents() == [f"Only the top {k}", f"Without the top {k}"]
        assert card.locator('.rung[aria-pressed="true"] b').all_text_contents() == [str(k)]
        first = card.locator(".trial > div:not(.ladder)").first.locator("li").first
        assert (first.locator(".name").text_content(), first.locator(".percent").text_content()) == (name, said)
    rungs.nth(1).focus()
    report.tab.keyboard.press("Enter")  # a number is chosen where it stands, for all rows, and the focus stays there
    assert slider.input_value() == "3"
    assert report.tab.locator("output").inner_text() == "3"
    assert rungs.nth(1).evaluate("node => node === document.activeElement")
    if kind == "table":
        assert card.locator(".bar").count() == 3
    report.done()


def test_everything_can_be_done_by_keyboard(browser: Any, tmp_path: Path) -> None:
    made = table()
    truth = made.prediction.clone()
    truth[7] = (truth[7] + 1) % 3
    report = Report(browser, tmp_path, made, truth=truth)
    tab, active = report.tab, "document.activeElement"
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{active}.textContent") == "To the rows"
    assert tab.evaluate(f"{active}.getBoundingClientRect().top") >= 0  # seen when it has the focus
    tab.keyboard.press("Enter")
    assert tab.evaluate(f"{active}.className") == "rows"
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{active}.type") == "search"
    tab.keyboard.type("row 7")
    assert report.rows() == [7]
    tab.keyboard.press("Control+a")
    tab.keyboard.press("Delete")
    assert len(report.rows(99)) == 40
    tab.keyboard.press("Tab")
    tab.keyboard.press("End")
    assert tab.evaluate(f"{active}.value") == "wrong"
    assert report.rows(1) == [7]
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert report.rows() == [7]
    outline = tab.evaluate(f"getComputedStyle({active}).outlineStyle")
    assert outline != "none"
    tab.keyboard.press("Tab")  # to the first number of features of the only card
    assert tab.evaluate(f"{active}.className") == "rung"
    for _ in range(3):
        tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(f"{active}.type") == "range"
    tab.keyboard.press("Home")
    assert tab.locator(".slider input").get_attribute("aria-valuetext") == "0 features"
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("ArrowRight")
    assert report.card.locator(".towards").text_content() == "Evidence for class 0"
    for _ in range(9):
        tab.keyboard.press("Shift+Tab")
        if tab.evaluate(f"{active}.tagName") == "SUMMARY":
            break
    tab.keyboard.press("Enter")
    assert not tab.locator(".findings").is_visible()
    report.done()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["table", "text", "image"])
def test_every_text_stands_out_from_its_ground(browser: Any, tmp_path: Path, kind: str, scheme: str) -> None:
    made = {"table": table(3), "text": tried(explain(["a good film", "bad"])), "image": tried(seen(2))}[kind]
    report = Report(browser, tmp_path, made, truth=[0] * len(made), color_scheme=scheme)
    found = report.tab.evaluate(CONTRASTS)
    assert len(found) > 60
    for ink, ground, name in found:
        ratio = contrast(*("#" + "".join(f"{round(n):02x}" for n in each) for each in (ink, ground)))
        assert ratio >= 4.5, (name, ink, ground, ratio)
    paper = solid(report.tab.evaluate("getComputedStyle(document.body).backgroundColor"))[0]
    assert (int(paper[1:3], 16) < 60) == (scheme == "dark")
    report.done()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_width_has_to_be_scrolled_sideways(browser: Any, tmp_path: Path, width: int) -> None:
    long = "a_very_long_name_" * 12
    made = tried(table_explanation(4, 15, 3, names=[long] * 15, classes=(long, "b " * 90, "c")), (1, 2, 3, 5, 8, 13))
    report = Report(browser, tmp_path, replace(made, about=about(explainer=long * 3)), viewport={"width": width, "height": 844})
    for target in (-2, -1, 0):
        report.tab.locator(f".switch input[value='{target}']").check(force=True)
        assert report.tab.evaluate("document.documentElement.scrollWidth") == width
    report.done()


def test_what_looks_like_a_script_stays_text(browser: Any, tmp_path: Path) -> None:
    values = np.empty((3, 4), dtype=object)
    values[:] = EVIL
    made = tried(table_explanation(3, 4, 2, names=[f"{EVIL} {j}" for j in range(4)], classes=(EVIL, "good")), (1, 2))
    made = replace(made, values=values, method=EVIL, about=about(explainer=EVIL, blackbox=EVIL, features=EVIL, fill=EVIL))
    report = Report(browser, tmp_path, made, truth=[EVIL, "good", EVIL])
    assert report.tab.locator("img").count() == 0
    assert report.tab.locator("body script").count() == 2
    assert report.tab.locator(".made dd").first.text_content() == EVIL
    assert report.card.locator(".bar .value").first.text_content() == EVIL
    report.tab.get_by_label("Search rows").fill("onerror")
    assert len(report.rows()) == 3
    report.done()
    words = tried(explain([EVIL, "good"], classes=(EVIL, "good")))
    report = Report(browser, tmp_path, words)
    assert report.card.locator(".text").text_content() == EVIL
    for target in (-2, 0, 1):
        report.tab.locator(f".switch input[value='{target}']").check(force=True)
    assert report.tab.locator("img, .text script").count() == 0
    report.done()


def test_the_policy_lets_nothing_out(browser: Any, tmp_path: Path) -> None:
    report = Report(browser, tmp_path, table(2))
    failed: list[str | None] = []
    report.tab.on("requestfailed", lambda request: failed.append(request.failure))
    tries = "address => fetch(address).then(() => 'out', () => 'kept')"
    assert report.tab.evaluate(tries, "http://127.0.0.1:9/x") == "kept"
    report.tab.evaluate("() => { new Image().src = 'http://127.0.0.1:9/x.png'; }")
    report.tab.wait_for_timeout(200)
    assert sum("Content Security Policy" in said for said in report.said) >= 2
    assert set(failed) <= {"csp"}  # stopped before they were sent
    report.tab.close()


@pytest.mark.parametrize(("kind", "rows"), [("text", 1000), ("image", 300)])
def test_many_inputs_scroll(browser: Any, tmp_path: Path, kind: str, rows: int) -> None:
    report = Report(browser, tmp_path, large(kind, rows))
    tab, cards = report.tab, report.tab.locator(".card")
    assert tab.evaluate("performance.getEntriesByType('paint')[0].startTime") < 5_000
    assert cards.count() == rows
    made = "nodes => nodes.filter(node => node.childElementCount).length"
    assert cards.evaluate_all(made) < 40
    middle = rows // 2
    for place in (middle, rows - 1, 0, middle, middle + 9, middle):
        cards.nth(place).scroll_into_view_if_needed()
        cards.nth(place).locator(".probs").first.wait_for()
        assert cards.nth(place).locator(".row").text_content() == f"Row {place}"
        tab.wait_for_function("() => document.querySelectorAll('.card > header').length < 120")  # what is far away is let go
    assert cards.nth(middle + 9).locator("header").count() == 1  # made, and out of sight
    tab.locator(".switch input[value='1']").check(force=True)
    name = tab.locator(".switch .name").nth(3).text_content()
    assert cards.nth(middle).locator(".towards bdi").text_content() == name
    for place in (middle + 9, middle + 60):  # made before or after the switch, it shows the class that is picked
        cards.nth(place).scroll_into_view_if_needed()
        cards.nth(place).locator(".towards").get_by_text(name, exact=True).wait_for()
    report.done()


def test_all_rows_are_printed(browser: Any, tmp_path: Path) -> None:
    report = Report(browser, tmp_path, table(30))
    tab = report.tab
    assert tab.locator(".card:empty").count() > 0
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator(".card:empty").count() == 0
    assert not tab.locator(".switch, .find").first.is_visible()
    assert tab.locator(".overall").is_visible()
    pages = tab.pdf()
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) > 3
    report.done()
