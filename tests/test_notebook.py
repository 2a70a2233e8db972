"""Explanations and scores inside a notebook: inline styles alone, legible on light and dark paper, and where styles are gone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from aimwise.render.colours import PALETTE
from aimwise.scores.table import Scores
from test_plots import scores
from test_render_classes import solid
from test_render_colours import contrast
from test_render_html import explanation as table
from test_render_pictures import seen
from test_render_text import explain

KNOWN = {"clever": 2.0, "dull": -2.0, "fair": 1.0}
# What a notebook's own style sheet does to tables and text, as JupyterLab and nbconvert write it.
AROUND = """<!doctype html><meta charset="utf-8"><style>
body {{ background: {paper}; color: {ink}; font-family: sans-serif; }}
.jp-RenderedHTMLCommon table {{ border-collapse: collapse; border: none; font-size: 12px; table-layout: fixed; margin: 0 auto; }}
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th {{
  vertical-align: middle; padding: .5em; line-height: normal; white-space: normal; max-width: none; text-align: right; }}
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) {{ background: {stripe}; }}
</style><div class="jp-RenderedHTMLCommon jp-RenderedHTML">{body}</div>"""
PAPERS = {"light": ("#ffffff", "#212121", "#f5f5f5"), "dark": ("#111111", "#ffffff", "#212121")}
INKS = """nodes => nodes.map((node) => {
  const look = getComputedStyle(node);
  return [node.textContent, look.color, look.backgroundColor, look.textDecorationLine + " " + look.textDecorationStyle];
})"""


class Tags(HTMLParser):
    """The tags, the attributes and the text of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]


def pieces() -> dict[str, str]:
    made = {"text": explain(["a clever but dull and fair film"], known=KNOWN), "table": table(2), "image": seen(2)}
    return {name: each._repr_html_() for name, each in made.items()} | {"scores": scores()._repr_html_()}


@pytest.mark.parametrize("kind", ["text", "table", "image", "scores"])
def test_nothing_is_needed_beside_the_html_itself(kind: str) -> None:
    text = pieces()[kind]
    found = Tags(text)
    assert not found.tags & {"script", "style", "link", "iframe", "object", "form", "input", "svg", "canvas", "button"}
    assert not any(name.startswith("on") or name in ("id", "href") for name in found.attributes)
    assert not re.search(r"url\(|var\(--|https?:|position\s*:", " ".join(found.styles))
    assert re.findall(r'class="([^"]*)"', text) == ["tex2jax_ignore mathjax_ignore"]
    bare = " ".join(re.sub(r"<[^>]*>", " ", re.sub(r' style="[^"]*"', "", text)).split())
    wanted = {
        "text": "Agreement with the black box 0.90, 0.40 with no weights",  # what is said is said without styles too
        "table": "█",
        "image": "Filled regions speak for the class",
        "scores": "faithfulness",
    }
    assert wanted[kind] in bare


def opened(browser: Any, tmp_path: Path, body: str, scheme: str) -> Any:
    paper, ink, stripe = PAPERS[scheme]
    file = tmp_path / "notebook.html"
    file.write_text(AROUND.format(paper=paper, ink=ink, stripe=stripe, body=body), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 900, "height": 900}, java_script_enabled=True, color_scheme=scheme)
    tab.goto(file.as_uri())
    return tab


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_their_colours_on_light_and_dark_paper(browser: Any, tmp_path: Path, scheme: str) -> None:
    tab = opened(browser, tmp_path, pieces()["text"], scheme)
    found = {said: rest for said, *rest in tab.locator("div[dir=auto] >> nth=0").locator("span, u").evaluate_all(INKS)}
    assert solid(found["clever"][1]) == (PALETTE[1].light, 1.0)
    assert contrast(solid(found["clever"][0])[0], solid(found["clever"][1])[0]) >= 4.5
    assert found["dull"][2] == "underline dashed"
    assert solid(found["dull"][1])[1] == 0.0
    paper, ink, _ = PAPERS[scheme]
    assert contrast(solid(found["dull"][0])[0], paper) >= 4.5
    bars = tab.locator("td:nth-child(3)").evaluate_all(INKS)
    assert all(contrast(solid(colour)[0], paper) >= 3 for said, colour, *_ in bars if said)
    assert contrast(ink, paper) >= 4.5
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_scores_are_legible_and_the_best_stands_out(browser: Any, tmp_path: Path, scheme: str) -> None:
    tab = opened(browser, tmp_path, pieces()["scores"], scheme)
    paper = PAPERS[scheme][0]
    cells = tab.locator("td").evaluate_all(INKS)
    assert all(contrast(solid(colour)[0], paper) >= 4.5 for _, colour, *_ in cells)
    rows = [[" ".join(said.split()) for said in row.locator("td").all_inner_texts()] for row in tab.locator("tbody tr").all()]
    assert rows[0][:3] == ["faithfulness ↑ share", "5", "mean"]
    assert rows[0][3:] == ["★ 0.850 ±0.025", "0.750 ±0.025"]
    assert rows[1][0] == ""  # the metric is named once
    assert rows[-1] == ["brevity ↓ words", "", "", "★ 4.000 ±1.000", ""]
    assert tab.locator("b").first.text_content() == "★ 0.850"
    assert "<b>nine</b> rows" in tab.locator("p").inner_text()  # what people write stays text
    assert tab.evaluate("document.documentElement.scrollWidth") == 900
    tab.close()


def test_no_scores_are_shown_as_none() -> None:
    assert "<tbody></tbody>" in Scores(())._repr_html_()
    odd = scores().rows[0]
    odd = type(odd)(**{**odd.__dict__, "mean": float("nan"), "values": torch.zeros(1)})
    assert ">-</td>" in Scores((odd,))._repr_html_()
