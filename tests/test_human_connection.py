"""Reload, the back button, another device, two people at once, and lost connections: nothing is lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from human_page import Study, at, words


@pytest.fixture
def study(browser: Any, tmp_path: Path) -> Iterator[Study]:
    with words(browser, tmp_path) as made:
        yield made


def test_a_reload_stays_where_one_was_and_the_link_brings_back(study):
    tab = study.person()
    tab.keyboard.press("1")
    at(tab, "2 of 3")
    word = tab.locator("#shown li").first.text_content()
    tab.reload()
    at(tab, "2 of 3")
    assert tab.locator("#shown li").first.text_content() == word
    tab.click("summary")
    link = tab.locator("#address").input_value()
    assert tab.locator("#code").text_content() == study.store.everyone()[0].code
    elsewhere = study.person(link=link)
    at(elsewhere, "2 of 3")
    assert elsewhere.locator("#shown li").first.text_content() == word
    elsewhere.keyboard.press("2")
    at(elsewhere, "3 of 3")
    tab.reload()
    at(tab, "2 of 3")  # the place in the address is an answered one now
    assert tab.locator("#choices [aria-pressed=true]").text_content() == "2positive"
    assert study.answers() == [(0, 0), (1, 1)]


def test_the_back_button_shows_the_answer_and_changing_it_keeps_one(study):
    tab = study.person()
    for place in (1, 2):
        tab.keyboard.press("1")
        at(tab, f"{place + 1} of 3")
    tab.go_back()
    at(tab, "2 of 3")
    assert tab.locator("#choices [aria-pressed=true]").text_content() == "1negative"
    tab.go_back()
    at(tab, "1 of 3")
    assert study.answers() == [(0, 0), (1, 0)]  # looking changes nothing
    tab.keyboard.press("2")
    at(tab, "3 of 3")
    assert study.answers() == [(0, 1), (1, 0)]
    tab.go_back()
    at(tab, "1 of 3")
    tab.click("#on")
    at(tab, "3 of 3")
    assert [a["changes"] for a in study.store.answers()] == [1, 0]


def test_a_connection_that_is_lost_before_the_server_hears_loses_nothing(study):
    tab = study.person()
    tab.context.set_offline(True)
    tab.keyboard.press("2")
    tab.wait_for_selector("#trouble:not([hidden])")
    assert "not saved yet" in tab.locator("#trouble").text_content()
    assert "Saved" not in tab.locator("#status").text_content()
    assert tab.locator("#where").text_content().startswith("1 of 3")
    tab.keyboard.press("1")  # is not taken while an answer is under way
    assert study.answers() == []
    tab.context.set_offline(False)
    at(tab, "2 of 3")
    assert tab.locator("#trouble").is_hidden()
    assert study.answers() == [(0, 1)]


def test_an_answer_of_the_server_that_is_lost_doubles_nothing(study):
    tab, tries = study.person(), []

    def lost(route: Any) -> None:
        tries.append(route.request.post_data)
        if len(tries) == 1:
            route.fetch()  # the server has saved it, the page does not hear so
            route.abort("connectionreset")
        else:
            route.continue_()

    tab.route("**/answers/*", lost)
    tab.keyboard.press("2")
    tab.wait_for_selector("#trouble:not([hidden])")
    assert study.answers() == [(0, 1)]
    tab.evaluate("document.getElementById('again').click()")  # it may be gone by now: the page tries by itself, too
    at(tab, "2 of 3")
    assert len(tries) == 2
    assert tries[0] == tries[1]  # under the same name
    (kept,) = study.store.answers()
    assert kept["changes"] == 0


def test_an_answer_under_way_outlives_a_reload(study):
    tab = study.person()
    tab.route("**/answers/*", lambda route: route.abort("connectionfailed"))
    tab.keyboard.press("2")
    tab.wait_for_selector("#trouble:not([hidden])")
    assert study.answers() == []
    tab.unroute("**/answers/*")
    tab.reload()
    at(tab, "2 of 3")
    assert study.answers() == [(0, 1)]
    tab.reload()
    at(tab, "2 of 3")
    assert study.answers() == [(0, 1)]


def test_a_server_that_cannot_write_is_not_said_to_have_saved(study):
    tab = study.person()
    tab.route("**/answers/*", lambda route: route.fulfill(status=503, json={"error": "away", "kind": "NotSaved"}))
    tab.keyboard.press("2")
    tab.wait_for_selector("#trouble:not([hidden])")
    assert tab.locator("#status").text_content() == ""
    tab.unroute("**/answers/*")
    tab.evaluate("document.getElementById('again').click()")  # it may be gone by now: the page tries by itself, too
    at(tab, "2 of 3")


def test_a_start_that_is_not_answered_makes_one_participant(study):
    tab, tries = study.person(begun=False), []

    def lost(route: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            route.fetch()
            route.abort("connectionreset")
        else:
            route.continue_()

    tab.route("**/api/participants", lost)
    tab.check("#agree")
    tab.click("#begin")
    at(tab, "1 of 3")
    assert len(tries) == 2
    assert len(study.store.everyone()) == 1


def test_two_participants_at_once_do_not_meet(study):
    one, other = study.person(), study.person()
    for place in (1, 2, 3):
        for tab, key in ((one, "1"), (other, "2")):
            at(tab, f"{place} of 3")
            tab.keyboard.press(key)
    for tab in (one, other):
        tab.wait_for_selector("#pause:not([hidden])")
    people = study.store.everyone()
    assert len(people) == 2
    found = {who.code: [a["choice"] for a in study.store.answers() if a["code"] == who.code] for who in people}
    assert sorted(found.values()) == [[0, 0, 0], [1, 1, 1]]
    assert one.url.split("#")[0] != other.url.split("#")[0]
