"""The HTML page: what it says, that nothing on it can run or call out, and that it works in a browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aimwise.errors import BadSetting
from aimwise.explanation import Check, Explanation
from aimwise.render.codec import SIGNS
from aimwise.render.html import Table, page, section
from aimwise.render.say import signed

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(3)>',
    "'onload='alert(4)",
    "&lt;b&gt; &amp;",
    "line\u2028and\u2029paragraph\0end",
    "\\u003c/script>",
    "{{7*7}} ${alert(5)}",
)


def explanation(
    rows: int = 6, d: int = 15, c: int = 3, *, names: Sequence[str] = (), classes: Sequence[str] = (), seed: int = 0
) -> Explanation:
    """Random weights with plausible names."""
    g = torch.Generator().manual_seed(seed)
    probs = torch.randn(rows, c, generator=g).softmax(-1)
    return Explanation(
        weights=torch.randn(rows, d, c, generator=g),
        probs=probs,
        base=torch.zeros(c),
        present=torch.ones(rows, d, dtype=torch.bool),
        names=tuple(names) or tuple(f"feature {j}" for j in range(d)),
        values=np.round(np.random.default_rng(seed).normal(size=(rows, d)), 3),
        classes=tuple(classes) or tuple(f"class {k}" for k in range(c)),
        method="AIM",
        check=Check(torch.full((rows,), 0.9), torch.full((rows,), 0.4), 32),
    )


def hostile() -> Explanation:
    """Every name, value, class and the method try to break out of the page."""
    d, c, rows = len(HOSTILE), 3, 4
    values = np.empty((rows, d), dtype=object)
    for i in range(rows):
        values[i] = [HOSTILE[(i + j) % d] for j in range(d)]
    made = explanation(rows, d, c, names=HOSTILE, classes=HOSTILE[:c])
    return Explanation(**{**made.__dict__, "values": values, "method": HOSTILE[0]})


class Reader(HTMLParser):
    """The tags, attributes and JSON blocks of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.blocks: list[Any] = []
        self.json = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.json = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        if self.json:
            self.blocks.append(json.loads(data))
            self.json = False
        else:
            self.texts.append(data)

    def count(self, tag: str, **wanted: str) -> int:
        return sum(t == tag and all(a.get(k.rstrip("_")) == v for k, v in wanted.items()) for t, a in self.tags)


def unpacked(block: dict[str, Any], row: int) -> np.ndarray:
    """The weights of a row (n, C) as the page's script reads them; NaN where it finds none."""
    signs, half = block["signs"], 64 ** block["signs"] // 2 - 1
    codes = np.array([SIGNS.index(sign) for sign in block["weights"][row]]).reshape(-1, signs) @ 64 ** np.arange(signs)[::-1]
    found = np.where(codes > 2 * half, np.nan, (codes - half) * block["units"][row])
    return found.reshape(-1, len(block["classes"]))


def test_hostile_text_stays_text() -> None:
    made = hostile()
    table = Table(HOSTILE[:2], (HOSTILE[2:4],), HOSTILE[3])
    body = section(HOSTILE[1], made, truth=[0, 1, 2, 0], note=HOSTILE[0], table=table)
    text = page(HOSTILE[1], [body, body], intro=HOSTILE[3])
    reader = Reader(text)
    for evil in HOSTILE[:4]:
        assert evil not in text
    assert "\u2028" not in body.split('class="data">')[1]
    assert reader.count("script") == 3  # two blocks of data and the page's own script
    assert reader.count("img") == 0
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert "alert(2)" in "".join(reader.texts)  # said, not run


def test_the_data_block_parses_back_equal() -> None:
    made = hostile()
    (block,) = Reader(section("t", made, truth=[0, 1, 2, 0])).blocks
    assert block["names"] == list(made.names)
    assert block["classes"] == list(made.classes)
    assert block["values"] == made.values.tolist()
    assert block["predicted"] == made.prediction.tolist()
    assert block["truth"] == [0, 1, 2, 0]
    for i, wanted in enumerate(made.weights.numpy()):
        np.testing.assert_allclose(unpacked(block, i), wanted, atol=float(np.abs(wanted).max()) / 2047 / 2 * 1.001)
    np.testing.assert_allclose(block["probs"], made.probs.numpy(), rtol=5e-6)


def test_absent_features_and_bad_numbers_are_marked() -> None:
    made = explanation(2, 3, 2)
    made.present[0, 1] = False
    made.weights[1, 2, 0] = torch.nan
    made.values[1, 0] = np.nan
    (block,) = Reader(section("t", made)).blocks
    assert np.isnan(unpacked(block, 0)[1]).all()
    assert block["values"][0][1] is None
    assert np.isnan(unpacked(block, 1)).tolist() == [[False, False], [False, False], [True, False]]
    assert block["values"][1][0] == "missing"
    assert block["truth"] is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.0, "1"),
        (np.float32(0.1), "0.1"),
        (1234.5678, "1234.57"),
        (7, "7"),
        ("a", "a"),
        (None, "missing"),
        (-np.inf, "-inf"),
        (True, "True"),
    ],
)
def test_values_are_written_as_people_write_them(value: object, said: str) -> None:
    made = explanation(1, 1, 2)
    values = np.empty((1, 1), dtype=object)
    values[0, 0] = value
    (block,) = Reader(section("t", Explanation(**{**made.__dict__, "values": values}))).blocks
    assert block["values"] == [[said]]


def test_facts_and_the_note_about_the_first_rows() -> None:
    made = explanation(569, 30, 3)
    text = section("t", made, truth=made.prediction.tolist())
    (block,) = Reader(text).blocks
    assert "the first 100 of 569 rows" in text
    assert len(block["weights"]) == len(block["probs"]) == len(block["truth"]) == len(block["agreement"]) == 100
    for said in ("AIM", "569", "30", "0.90", "0.40 with no weights", "100.0%", "Wrong predictions only (0)"):
        assert said in text
    whole = section("t", made, most=569)
    assert "the first" not in re.sub(r"<noscript>.*?</noscript>", "", whole)
    assert "Wrong predictions only" not in whole


def test_no_check_no_agreement() -> None:
    text = section("t", Explanation(**{**explanation().__dict__, "check": None}))
    assert "Agreement" not in text
    assert '"agreement":null' in text


def test_the_plot_over_all_rows_uses_all_rows_and_ranks_by_size() -> None:
    made = explanation(40, 15, 2)
    made.weights[:, 3, 0] = torch.tensor([5.0, -5.0]).repeat(20)
    made.weights[:, 7, 0] = -3.0
    text = section("t", made, most=5)
    figures = re.findall(r'<figure data-target="(-?\d+)"(?: class="(k\d)")?( hidden)?>(.*?)</figure>', text, re.S)
    assert [(target, colour, hidden) for target, colour, hidden, _ in figures] == [
        ("-2", "", " hidden"),
        ("-1", "", " hidden"),
        ("0", "k0", ""),
        ("1", "k1", " hidden"),
    ]
    names = re.findall(r"<bdi>(.*?)</bdi>", figures[2][3])
    assert len(names) == 12
    assert names[:2] == ["feature 3", "feature 7"]
    weights = re.findall(r'<span class="weight">([^<]*)<small>([^<]*)', figures[2][3])
    assert weights[:2] == [("0.00", "size 5.00"), ("\N{MINUS SIGN}3.00", "size 3.00")]


def test_it_is_readable_without_a_script() -> None:
    reader = Reader(page("t", [section("t", explanation(), truth=[0] * 6)]))
    assert reader.count("noscript") == 1
    hidden = [(tag, attrs.get("class")) for tag, attrs in reader.tags if "hidden" in attrs]
    assert ("fieldset", "switch") in hidden
    assert ("div", "rows") in hidden


def test_the_page_asks_nobody_for_anything() -> None:
    text = page("t", [section("a", explanation()), section("b", explanation(seed=1))])
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|innerHTML|src=", text)
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:" in text
    hrefs = [attrs["href"] for _, attrs in Reader(text).tags if "href" in attrs]
    assert hrefs == ["data:,", "#set-1-rows", "#set-1", "#set-2"]


def test_contents_stand_only_above_several_sections_and_ids_are_unique() -> None:
    body = section("Wine & more", explanation())
    assert "<nav" not in page("t", [body])
    reader = Reader(page("t", [body, body]))
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["name"] for tag, attrs in reader.tags if tag == "input" and "name" in attrs} == {"set-1-class", "set-2-class"}
    assert "".join(reader.texts).count("Wine & more") == 4  # twice in the contents, twice as a heading


def test_a_title_is_seen_once() -> None:
    assert 'class="set alone"' in page("Wine", [section("Wine", explanation())])
    assert 'class="set alone"' not in page("Wine", [section("Beer", explanation())])


def test_a_table_says_what_it_holds() -> None:
    table = Table(("Method", "Score"), (("AIM", "0.9"), ("LIME", "-0.8")), "Three seeds")
    text = section("t", explanation(), table=table)
    assert "<caption>Three seeds</caption>" in text
    assert text.count('class="number"') == 3
    with pytest.raises(BadSetting, match="Row 0 of the table has 1 cells, the header has 2"):
        Table(("a", "b"), (("c",),))


def test_wrong_arguments_are_named() -> None:
    made = explanation(3)
    with pytest.raises(BadSetting, match="Got 2 true classes for 3 rows"):
        section("t", made, truth=[0, 1])
    with pytest.raises(BadSetting, match="true class of row 1 is 3, wanted a number from 0 to 2"):
        section("t", made, truth=[0, 3, 0])
    with pytest.raises(BadSetting, match="most=0"):
        section("t", made, most=0)


def test_edges_are_drawn() -> None:
    assert "There are no rows." in section("t", explanation()[:0], truth=[])
    flat = explanation(2, 2, 2)
    flat.weights.zero_()
    assert "--w:0.00%" in section("t", flat)
    page("half \ud800", [section("half \ud800", explanation(names=["\ud800"] * 15))]).encode("utf-8")


@pytest.mark.parametrize(
    ("number", "scale", "said"),
    [
        (0.5, 0.9, "+0.500"),
        (-12.34, 50.0, "-12.3"),
        (-0.0001, 0.9, "0.000"),
        (0.0, 0.0, "0"),
        (2e-5, 3e-5, "+2.00e-5"),
        (-12345.6, 2e4, "-12346"),
        (float("nan"), 1.0, "not a number"),
    ],
)
def test_weights_have_a_sign_and_the_decimals_of_their_scale(number: float, scale: float, said: str) -> None:
    assert signed(number, scale) == said.replace("-", "\N{MINUS SIGN}", number < 0)


def test_a_thousand_rows_stay_small() -> None:
    made = explanation(1000, 30, 3)
    start = time.perf_counter()
    text = page("t", [section("t", made, truth=[0] * 1000, most=1000)])
    assert len(text.encode()) < 10_000_000
    assert time.perf_counter() - start < 20


def test_it_works_in_a_browser(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: install it to test the page in a browser")
    made = explanation(30, 15, 3, names=["worst_area", *HOSTILE[:2], *(f"feature {j}" for j in range(12))])
    made = Explanation(**{**made.__dict__, "classes": ("benign", HOSTILE[0], "malign")})
    made.weights[:, 0] = 0.001  # the feature that is searched for is never among the first
    truth = [(p + (i < 4)) % 3 for i, p in enumerate(made.prediction.tolist())]
    odd = hostile()
    file = tmp_path / "page.html"
    file.write_text(page(HOSTILE[1], [section(HOSTILE[0], made, truth=truth), section("second", odd)]), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    args = [*flags.split(), "--disable-component-update", "--disable-sync"]
    said: list[str] = []
    asked: list[str] = []
    with api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=args)
        tab = browser.new_page(viewport={"width": 360, "height": 800})
        tab.on("console", lambda m: said.append(m.text))
        tab.on("pageerror", lambda e: said.append(str(e)))
        tab.on("dialog", lambda d: (said.append(d.message), d.dismiss()))
        tab.on("request", lambda r: asked.append(r.url))
        tab.goto(file.as_uri())
        first, second = tab.locator("#set-1"), tab.locator("#set-2")

        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        assert first.locator(".card").count() == 30
        assert first.locator(".card:not(:empty)").count() == 12  # the others are made when they come near
        assert first.locator("figure:visible").get_attribute("data-target") == "-1"
        assert first.locator(".card").first.locator(".bar").count() == 12
        assert "3 smaller features" in first.locator(".card").first.text_content()
        first.locator(".card").nth(23).scroll_into_view_if_needed()
        first.locator(".card").nth(23).locator(".bar").first.wait_for()

        first.get_by_role("radio", name="predicted class").focus()
        tab.keyboard.press("ArrowRight")
        assert first.locator("figure:visible").get_attribute("data-target") == "0"
        assert second.locator("figure:visible").get_attribute("data-target") == "-1"
        assert first.locator(".card").count() == 30
        assert set(first.locator(".towards").all_text_contents()) == {"Evidence for benign"}
        largest = made.weights[0, :, 0].abs().argmax()
        shown = first.locator(".card").first.locator(".bar").first
        assert shown.locator(".name").text_content() == f"{made.names[largest]} = {made.values[0, largest]:.6g}"
        sign = "plus" if made.weights[0, largest, 0] > 0 else "minus"
        assert shown.locator(f".{sign}").count() == 1
        assert shown.locator(".weight").text_content()[0] == ("+" if sign == "plus" else "\N{MINUS SIGN}")

        tab.set_viewport_size({"width": 1280, "height": 800})
        first.locator(".card").nth(5).evaluate("card => window.scrollTo(0, card.getBoundingClientRect().top)")
        before = tab.evaluate("window.scrollY")
        first.locator(".card").nth(5).evaluate("card => { card.id = 'same'; }")
        tab.keyboard.press("ArrowRight")  # the switch is still in sight, and using it moves nothing
        assert first.locator("figure:not([hidden])").get_attribute("data-target") == "1"
        assert before > 800
        assert tab.evaluate("window.scrollY") == before
        assert first.locator(".card").nth(5).get_attribute("id") == "same"  # cards stay, and so does what is around them

        search = first.get_by_label("Search rows")
        search.fill("WORST_AREA")
        assert first.locator(".count").inner_text() == "30 of 30 rows found"
        assert first.locator(".card").first.locator("mark").text_content().startswith("worst_area = ")
        search.fill(f"feature 3 = {made.values[17, 6]:.6g}")
        assert "Row 17" in first.locator(".card").first.text_content()
        assert first.locator(".card").count() < 3
        search.fill("no such thing")
        assert first.locator(".card").count() == 0
        assert first.locator(".count").inner_text() == "0 of 30 rows found"
        search.fill("")
        first.get_by_label("Wrong predictions only (4)").check()
        assert first.locator(".card").count() == first.locator(".badge.bad").count() == 4
        search.fill("row 2")
        assert first.locator(".card").count() == 1

        assert first.locator("h2").inner_text() == HOSTILE[0]
        names = second.locator(".card").first.locator(".bar .name bdi:first-child").all_text_contents()
        assert sorted(names) == sorted(HOSTILE)
        assert tab.locator("body script").count() == 3
        assert tab.locator("img").count() == 0
        browser.close()
    assert said == []
    assert asked == [file.as_uri()]


def test_to_html_writes_the_page(tmp_path: Path) -> None:
    made = explanation()
    text = made.to_html(tmp_path / "page.html", title="A < B", truth=[0] * 6).read_text(encoding="utf-8")
    assert escape("A < B") in text
    assert text == page("A < B", [section("A < B", made, truth=[0] * 6, most=1000)])
    first = made.to_html(tmp_path / "page.html", most=2).read_text(encoding="utf-8")
    assert "the first 2 of 6 rows" in first
