"""The participant's page in a browser: consent, keys, blindness, a phone, the dark, a screen reader, pictures and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aimwise.human.store import Store
from human_page import EVIL, Study, at, words
from human_study import survey, threaded
from test_render_colours import contrast
from test_report_browser import CONTRASTS


@pytest.fixture
def study(browser: Any, tmp_path: Path) -> Iterator[Study]:
    with words(browser, tmp_path) as made:
        yield made


def test_one_agrees_first_then_answers_by_keys_and_is_thanked(study):
    tab = study.person(begun=False)
    assert tab.locator("#begin").is_disabled()
    assert tab.locator("#consent-text p").all_text_contents() == [EVIL, "Second part."]
    assert tab.title() == f"Words {EVIL}"
    tab.check("#agree")
    tab.click("#begin")
    at(tab, "1 of 3, part 1 of 2")
    assert re.fullmatch(rf"{study.url}/p/[\w-]{{32}}#1", tab.url)
    assert tab.evaluate("document.activeElement.id") == "where"
    seen = []
    for part in (1, 2):
        for place in (1, 2, 3):
            at(tab, f"{place} of 3, part {part} of 2")
            seen.append((part, tab.locator("#shown li").first.text_content()))
            assert tab.locator("#choices button").all_text_contents() == ["1negative", "2positive", "0can't decide"]
            tab.keyboard.press("120"[place - 1])
            saved = f"Saved: {3 * part - 3 + place} of 6."
            tab.wait_for_function("w => document.getElementById('status').textContent === w", arg=saved)
        if part == 1:
            assert tab.locator("#pause-head").text_content() == "Part 1 of 2 is done"
            assert tab.evaluate("document.activeElement.id") == "pause-head"
            tab.click("#continue")
    tab.wait_for_selector("#done:not([hidden])")
    assert study.answers() == [(0, 0), (1, 1), (2, -1), (3, 0), (4, 1), (5, -1)]
    assert sorted(seen) == [(part, f"word{i}") for part in (1, 2) for i in range(3)]  # no item twice in a part
    assert [word for _, word in seen] == [
        f"word{a['item']}" for a in study.store.answers()
    ]  # what was seen is what was written down
    assert all(0.2 < a["seconds"] < 20 for a in study.store.answers())
    assert study.said == []
    assert all(url.startswith((study.url, "data:")) for url in study.asked)


def test_methods_and_right_answers_are_not_sent(study):
    tab = study.person()
    sent = []
    tab.on("response", lambda r: sent.append(r.text()))
    tab.keyboard.press("1")
    at(tab, "2 of 3")
    tab.reload()
    at(tab, "2 of 3")
    assert sent
    assert not re.search(r"lime|\baim\b|truth|prediction|method|row", "".join(s for s in sent if s.startswith("{")))


def test_a_held_or_hasty_key_answers_one_item(study):
    tab = study.person()
    tab.keyboard.down("1")
    for _ in range(20):
        tab.keyboard.down("1")  # as a held key repeats itself
    at(tab, "2 of 3")
    tab.keyboard.down("1")  # and goes on when the next item has come
    tab.keyboard.up("1")
    tab.wait_for_timeout(300)
    assert study.answers() == [(0, 0)]


def test_a_forgotten_or_wrong_link_says_so(study):
    tab = study.person()
    tab.keyboard.press("1")
    at(tab, "2 of 3")
    study.store.forget(study.store.everyone()[0].code)
    tab.keyboard.press("1")
    tab.wait_for_selector("#problem:not([hidden])")
    assert "deleted" in tab.locator("#why").text_content()
    wrong = study.person(link=f"{study.url}/p/{'A' * 32}")
    wrong.wait_for_selector("#problem:not([hidden])")
    assert "not known" in wrong.locator("#why").text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_on_a_phone_in_light_and_dark(study, scheme):
    tab = study.person(viewport={"width": 320, "height": 640}, color_scheme=scheme, has_touch=True, is_mobile=True)
    tab.click("summary")
    wide = tab.evaluate("document.documentElement.scrollWidth")
    assert wide <= 320
    for ink, ground, where in tab.evaluate(CONTRASTS):
        ratio = contrast(*("#" + "".join(f"{round(n):02x}" for n in each) for each in (ink, ground)))
        assert ratio >= 4.5, (where, ratio)
    sizes = tab.locator("#choices button").evaluate_all("all => all.map(b => b.getBoundingClientRect().height)")
    assert min(sizes) >= 44
    tab.tap("#choices button >> nth=0")
    at(tab, "2 of 3")


def test_a_screen_reader_is_told_what_is_there(study):
    tab = study.person()
    said = tab.locator("body").aria_snapshot()
    for part in (
        '- heading "1 of 3, part 1 of 2"',
        '- progressbar "Answered so far"',
        '- list "Key words"',
        '- group "Which of these do the words speak for?"',
        '- button "negative"',
        '- button "can\'t decide"',
        "- status",
    ):
        assert part in said, said
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.dataset.choice") == "0"
    tab.keyboard.press("Enter")
    at(tab, "2 of 3")


@pytest.mark.parametrize(("kind", "within"), [("image", "#shown img"), ("table", "#shown tr")])
def test_pictures_and_tables_are_shown_too(browser, tmp_path, kind, within):
    choices = tuple(f"class {i}" for i in range(12))
    made = survey(tmp_path / "s.toml", items=2, methods=("aim",), kind=kind, choices=choices)
    made.save()
    store = Store(made)
    with threaded(made, store) as url:
        study = Study(browser, url, store)
        tab = study.person()
        assert tab.locator(within).count() == (1 if kind == "image" else 2)
        if kind == "image":
            assert tab.locator(within).evaluate("node => node.naturalWidth") == 8
        assert tab.locator("#choices button").count() == 13
        tab.locator("#choices button").nth(11).click()
        at(tab, "2 of 2")
        assert study.answers() == [(0, 11)]
        assert study.said == []
        tab.context.close()
    store.close()
