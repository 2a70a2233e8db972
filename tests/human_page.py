"""The participant's page in chromium, and the people who use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aimwise.human.store import Store
from human_study import survey, threaded

EVIL = "<img src=x onerror=\"document.title='run'\">"


class Study:
    """A served study, its answers, and the pages that are open."""

    def __init__(self, browser: Any, url: str, store: Store) -> None:
        self.browser, self.url, self.store, self.said, self.asked = browser, url, store, [], []

    def person(self, *, begun: bool = True, link: str | None = None, **screen: Any) -> Any:
        """A page of someone with a device of their own."""
        context = self.browser.new_context(**{"viewport": {"width": 1000, "height": 800}, **screen})
        tab = context.new_page()
        tab.set_default_timeout(8000)
        tab.on("console", lambda m: self.said.append(m.text))
        tab.on("pageerror", lambda e: self.said.append(str(e)))
        tab.on("request", lambda r: self.asked.append(r.url))
        tab.goto(link or self.url)
        if begun and link is None:
            tab.check("#agree")
            tab.click("#begin")
            at(tab, "1 of ")
        return tab

    def answers(self) -> list[tuple[int, int]]:
        """Position and choice of every answer."""
        return [(a["position"], a["choice"]) for a in self.store.answers()]


def at(tab: Any, where: str) -> None:
    """Wait until the page shows that item, and keys are heard."""
    tab.wait_for_function(
        "w => !document.getElementById('item').hidden && document.getElementById('where').textContent.startsWith(w)", arg=where
    )
    tab.wait_for_timeout(300)


@contextmanager
def words(browser: Any, folder: Path) -> Iterator[Study]:
    """A study of three texts and two methods, served."""
    made = survey(folder / "s.toml", items=3, methods=("aim", "lime"), title=f"Words {EVIL}", consent=f"{EVIL}\n\nSecond part.")
    made.save()
    store = Store(made)
    with threaded(made, store) as url:
        yield Study(browser, url, store)
        for context in browser.contexts:
            context.close()
    store.close()
