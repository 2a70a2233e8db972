"""The page to try explainers on, in a browser: texts, rows, images, the slider, two explainers, links, keyboard, phone, dark."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aimwise
from aimwise.explainers import METHODS
from aimwise.web.app import Settings
from command_line import texts as news_texts
from test_render_colours import contrast
from test_report_browser import CONTRASTS
from web_service import EVIL, News, explainers, png, served

TEXT = f"the match had a goal and a law {EVIL} <img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def model() -> News:
    return News()


@pytest.fixture(scope="module")
def address(model: News) -> Iterator[str]:
    texts = [*news_texts(30, 0)["body"].tolist(), "goal match vote law"]
    box = aimwise.SklearnBox(model)
    made = explainers() | {"news": METHODS["occlusion"]().fit(box, texts), EVIL: METHODS["random"]().fit(box, texts)}
    with served(made) as client:
        yield str(client.base_url)


class Page:
    """The page, with what it said and what it asked for."""

    def __init__(self, browser: Any, address: str, *, fragment: str = "", ready: str = "#ask", **screen: Any) -> None:
        self.address = address
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab = browser.new_page(**{"viewport": {"width": 1100, "height": 900}, **screen})
        self.tab.on("console", lambda m: self.said.append(m.text))
        self.tab.on("pageerror", lambda e: self.said.append(str(e)))
        self.tab.on("request", lambda r: self.asked.append(r.url))
        self.tab.goto(address + "/" + fragment)
        self.tab.locator(ready).wait_for()
        self.cards = self.tab.locator("#results .card")

    def explain(self) -> None:
        self.tab.get_by_role("button", name="Explain").click()
        self.tab.locator("#results").wait_for()

    def done(self) -> None:
        assert self.said == []
        own = (self.address, "data:", "blob:")
        assert all(url.startswith(own) for url in self.asked)
        assert not any("#" in url for url in self.asked if url.startswith("http") and "/v1/" in url)
        assert self.tab.title() == "Why does the model say that?"
        self.tab.close()


def rest(page: Page, k: int) -> None:
    """Wait until the model was asked about so many features."""
    page.tab.locator(".trial h5", has_text=f"Only the top {k}").first.wait_for()
    page.tab.wait_for_function("() => !document.querySelector('.cards.busy')")


def test_a_text_is_explained_and_the_slider_asks_the_model(browser: Any, address: str, model: News) -> None:
    page = Page(browser, address)
    page.tab.get_by_label("Text").fill(TEXT)
    page.explain()
    card = page.cards.first
    assert card.locator("h2").inner_text() == "The model says sports"
    assert card.locator(".text").text_content() == TEXT
    assert page.tab.locator("#status").inner_text().startswith("The model says sports, 88.1%")
    assert page.tab.evaluate("document.activeElement.id") == "results"
    for k, kept, without in ((2, "98.2%", "11.9%"), (1, "88.1%", "50.0%"), (0, "50.0%", "88.1%")):
        asked = len(model.sizes)
        page.tab.get_by_label("Top words").fill(str(k))
        rest(page, k)
        assert len(model.sizes) == asked + 1  # the black box itself was asked
        first = [card.locator(".trial > div").nth(n).locator("li").first.locator(".percent").inner_text() for n in (0, 1)]
        assert first == [kept, without]
    assert "with" in page.tab.locator("#status").inner_text().lower()
    page.tab.get_by_role("radio", name=EVIL).check(force=True)
    page.tab.get_by_label("Top words").fill("1")
    rest(page, 1)
    assert card.locator(".asked").inner_text() == f"The 1 word that speaks most for {EVIL}: law"
    assert page.tab.locator("#results img, #results script").count() == 0
    page.done()


def test_two_explainers_stand_side_by_side_and_a_link_brings_them_back(browser: Any, address: str) -> None:
    page = Page(browser, address)
    page.tab.get_by_label("Beside it").select_option(EVIL)
    page.tab.get_by_label("Text").fill(TEXT + " \u00fc \U0001f600")
    page.explain()
    page.tab.get_by_label("Top words").fill("3")
    rest(page, 3)
    page.tab.get_by_role("radio", name="sports").check(force=True)
    rest(page, 3)
    page.tab.wait_for_timeout(300)
    lefts = [box["x"] for box in (page.cards.nth(n).bounding_box() for n in (0, 1))]
    assert lefts[1] > lefts[0] + 300
    assert [page.cards.nth(n).locator(".marks bdi").inner_text() for n in (0, 1)] == ["news", EVIL]
    page.tab.get_by_role("button", name="Copy a link").click()
    page.tab.locator("#copied", has_text=re.compile("Copied|Copy the address")).wait_for()
    seen, link = page.tab.locator("#results .cards").inner_text(), page.tab.url
    page.done()
    assert EVIL not in link
    again = Page(browser, address, fragment="#" + link.partition("#")[2], ready="#results")
    rest(again, 3)
    assert again.tab.get_by_label("Text").input_value() == TEXT + " \u00fc \U0001f600"
    assert again.tab.locator("#results .cards").inner_text() == seen
    assert again.tab.locator(".options input:checked").get_attribute("value") == "0"
    again.done()
    broken = Page(browser, address, fragment="#v=%%%")
    assert broken.tab.locator("#error").inner_text() == "The link is damaged."
    broken.done()


def test_a_row_is_filled_in(browser: Any, address: str) -> None:
    page = Page(browser, address)
    page.tab.get_by_label("Explainer").select_option("people")
    assert page.tab.get_by_label("age").get_attribute("type") == "number"
    assert page.tab.get_by_label(EVIL).locator("option").all_text_contents()[1:] in (["cook", "nurse"], ["nurse", "cook"])
    assert page.tab.get_by_label("since").get_attribute("type") == "datetime-local"
    page.explain()  # the usual values are there already
    page.tab.get_by_label(EVIL).select_option(label="cook")
    page.tab.get_by_label("income").fill("")
    page.tab.get_by_label("age").fill("30")
    with page.tab.expect_request(lambda r: r.url.endswith("/v1/explain")) as sent:
        page.tab.keyboard.press("Enter")
    row = sent.value.post_data_json["rows"][0]
    assert {name: row[name] for name in ("age", EVIL, "income", "grade")} | {"since": row["since"][:10]} == {
        "age": 30, EVIL: "cook", "income": None, "grade": row["grade"], "since": row["since"][:10],
    }  # fmt: skip
    page.cards.first.locator(".bar .name", has_text=f"{EVIL} = cook").wait_for()
    page.tab.get_by_label("age").fill("1.5")
    page.tab.get_by_role("button", name="Explain").click()
    assert page.tab.get_by_role("alert").inner_text() == "age: please write a whole number."
    assert page.tab.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    page.done()


def test_an_image_is_dropped(browser: Any, address: str) -> None:
    page = Page(browser, address)
    page.tab.get_by_label("Explainer").select_option("pictures")
    page.tab.get_by_role("button", name="Explain").click()
    assert page.tab.get_by_role("alert").inner_text() == "Please choose or drop an image first."
    picture = np.zeros((32, 32, 3), dtype=np.uint8)
    picture[:16, :16] = 255
    drop = """([node, data]) => {
      const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
      const held = new DataTransfer();
      held.items.add(new File([bytes], "x.png", { type: "image/png" }));
      node.dispatchEvent(new DragEvent("drop", { dataTransfer: held, bubbles: true, cancelable: true }));
    }"""
    page.tab.evaluate(drop, [page.tab.locator(".drop").element_handle(), png(picture)])
    page.tab.locator("#results").wait_for()
    assert page.cards.first.locator("h2").inner_text() == "The model says dark"
    assert page.cards.first.locator(".shot").count() == 4
    page.tab.get_by_role("radio", name="bright").check(force=True)
    page.tab.get_by_label("Top regions").fill("1")
    rest(page, 1)
    page.tab.locator(".asked", has_text="rows 0-3, columns 0-3").wait_for()
    link = page.tab.url
    page.done()
    again = Page(browser, address, fragment="#" + link.partition("#")[2], ready="#results")
    rest(again, 1)
    again.done()
    page = Page(browser, address)
    page.tab.get_by_label("Explainer").select_option("pictures")
    text = {"name": "x.png", "mimeType": "image/png", "buffer": b"no image"}
    page.tab.locator("input[type=file]").set_input_files([text])
    page.tab.get_by_role("alert").filter(has_text="not an image").wait_for()
    page.done()


def test_everything_can_be_done_by_keyboard(browser: Any, address: str) -> None:
    page = Page(browser, address)
    tab, active = page.tab, "document.activeElement"
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{active}.textContent") == "To the answer"
    for wanted in ("explainer", "beside"):
        tab.keyboard.press("Tab")
        assert tab.evaluate(f"{active}.id") == wanted
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{active}.labels[0].textContent") == "Text"
    tab.keyboard.type("a goal")
    tab.keyboard.press("Control+Enter")
    tab.locator("#results").wait_for()
    assert tab.evaluate(f"{active}.id") == "results"
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".options input:checked").get_attribute("value") == "0"
    tab.keyboard.press("Tab")
    assert tab.evaluate(f"{active}.id") == "top"
    tab.keyboard.press("Home")
    rest(page, 0)
    assert tab.locator("#top").get_attribute("aria-valuetext") == "0 words"
    named = "nodes => nodes.every(n => n.labels?.length || n.getAttribute('aria-label') || n.textContent.trim())"
    assert tab.locator("input:visible, select:visible, textarea:visible, button:visible").evaluate_all(named)
    page.done()


def test_an_error_is_said_and_the_page_goes_on(browser: Any, address: str) -> None:
    page = Page(browser, address)
    page.tab.get_by_role("button", name="Explain").click()
    assert page.tab.get_by_role("alert").inner_text() == "Please paste or type a text first."
    page.tab.get_by_label("Text").fill("poison")
    page.tab.get_by_role("button", name="Explain").click()
    page.tab.get_by_role("alert").filter(has_text="The black box raised ValueError").wait_for()
    page.tab.route("**/v1/**", lambda route: route.abort())
    page.tab.get_by_role("button", name="Explain").click()
    page.tab.get_by_role("alert").filter(has_text="cannot be reached").wait_for()
    page.tab.unroute("**/v1/**")
    page.tab.get_by_label("Text").fill("goal")
    page.explain()
    assert page.tab.locator("#error").is_hidden()
    assert all("Failed to load resource" in said for said in page.said)
    page.tab.close()


def test_a_token_is_asked_for(browser: Any) -> None:
    explainer = METHODS["random"]().fit(News(), news_texts(30, 0)["body"].tolist())
    with served({"news": explainer}, Settings(token="secret")) as client:
        page = Page(browser, str(client.base_url), ready="#login")
        for token in ("wrong", "secret"):
            page.tab.get_by_label("token").fill(token)
            page.tab.keyboard.press("Enter")
            page.tab.wait_for_timeout(300)
        page.tab.get_by_label("Text").fill("goal")
        page.explain()
        page.tab.reload()  # the token is kept for this tab, the view in the link
        page.tab.locator("#results").wait_for()
        page.tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["news", "people", "pictures"])
def test_it_fits_a_phone_and_every_text_stands_out(browser: Any, address: str, name: str, scheme: str, tmp_path: Path) -> None:
    page = Page(browser, address, viewport={"width": 360, "height": 780}, color_scheme=scheme)
    page.tab.get_by_label("Explainer").select_option(name)
    if name == "news":
        page.tab.get_by_label("Beside it").select_option(EVIL)
        page.tab.get_by_label("Text").fill(TEXT + " a_very_long_word" * 9)
    if name == "pictures":
        file = {"name": "x.png", "mimeType": "image/png", "buffer": base64.b64decode(png(np.zeros((9, 9, 3), np.uint8)))}
        page.tab.locator("input[type=file]").set_input_files([file])
        page.tab.locator("#results").wait_for()
    else:
        page.explain()
    page.tab.wait_for_timeout(200)
    assert page.tab.evaluate("document.documentElement.scrollWidth") == 360
    found = page.tab.evaluate(CONTRASTS)
    assert len(found) > 20
    for ink, ground, where in found:
        ratio = contrast(*("#" + "".join(f"{round(n):02x}" for n in each) for each in (ink, ground)))
        assert ratio >= 4.5, (where, ink, ground, ratio)
    page.tab.screenshot(path=tmp_path / "phone.png", full_page=True)
    page.done()
