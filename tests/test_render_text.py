"""Explanations of texts on a page, in a notebook and in a terminal: every word in its place, and nothing but text."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from aimwise.errors import BadSetting, UnknownName
from aimwise.explanation import Check, Explanation
from aimwise.features.words import Words
from aimwise.render.codec import SIGNS
from aimwise.render.html import page, section
from aimwise.render.notebook import inline
from aimwise.render.terminal import show
from aimwise.render.text import Lexicon, passage, record
from aimwise.render.views import View, shade_scale
from test_render_html import unpacked

HOSTILE = (
    "<script>alert(1)</script> is a word",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)> [bold]loud[/bold] [/] :smile:',
    "'onload='alert(4) <!--<script> &lt;b&gt; \x1b[31mred\x07 \u2028 \\u003c",
)


def explain(
    texts: Sequence[str], *, classes: Sequence[str] = ("bad", "good"), length: int = 512, known: dict[str, float] | None = None
) -> Explanation:
    """Small random weights, and given ones for the last class (their opposite for the first)."""
    features = Words(length=length).fit(texts)
    batch = features.encode(texts)
    rows, d = batch.present.shape
    weights = 0.01 * torch.randn(rows, d, len(classes), generator=torch.Generator().manual_seed(0))
    values = features.values(batch)
    for i, j in np.ndindex(rows, d):
        weight = (known or {}).get(str(values[i, j]).lower())
        if weight is not None:
            weights[i, j, -1], weights[i, j, 0] = weight, -weight
    return Explanation(
        weights=weights,
        probs=(weights * batch.present[:, :, None]).sum(1).softmax(-1),
        base=torch.zeros(len(classes)),
        present=batch.present,
        names=None,
        values=values,
        classes=tuple(classes),
        method="AIM",
        check=Check(torch.full((rows,), 0.9), torch.full((rows,), 0.4), 32),
        spans=features.spans(batch),
        sources=features.sources(batch),
        unexplained=features.unexplained(batch),
    )


def places_of(text: str) -> list[int]:
    """Where the words of a text begin and end, as the page's script reads it."""
    places, number, shift = [0], 0, 0
    for value in map(SIGNS.index, text):
        number += (value & 31) << shift
        shift += 5
        if value < 32:
            places.append(places[-1] + number)
            number = shift = 0
    return places[1:]


def block(text: str) -> dict[str, object]:
    (data,) = re.findall(r'<script type="application/json" class="data">(.*?)</script>', text, re.S)
    made: dict[str, object] = json.loads(data)
    return made


def printed(made: Explanation, *, width: int = 80, **settings: object) -> str:
    console = Console(file=io.StringIO(), no_color=True, record=True, width=width)
    show(made, console=console, **settings)  # type: ignore[arg-type]
    return console.export_text()


def bare(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html.replace("<br>", "\n")))


def test_a_passage_gives_back_its_text() -> None:
    texts = ["Fine, really  fine!\n\tYes. ", "", "...", "Zürich 😀 is naïve", "one two three four"]
    made = explain(texts, length=3)
    for i, text in enumerate(texts):
        read = passage(made, i)
        assert "".join(piece for piece, _ in read.pieces()) + read.tail == text
        assert [piece for piece, j in read.pieces() if j is not None] == [w for w in made.values[i] if w]
    assert [passage(made, i).beyond for i in (1, 4)] == [0, 1]
    assert passage(made, 4).note == "1 more word was not explained"


def test_words_without_a_place_are_set_one_behind_the_other() -> None:
    made = explain(["a good film"])
    bare_words = Explanation(**{**made.__dict__, "spans": None, "sources": None})
    assert passage(bare_words, 0) == passage(made, 0)
    assert "a good film" in bare(inline(bare_words))


def test_strongest_words_are_ranked_by_size_and_never_absent() -> None:
    made = explain(["so dull but clever", "hm"], known={"dull": -2.0, "clever": 1.0})
    assert View.one(made, "good").strongest(0, 2) == [1, 3]
    assert View.one(made).strongest(1, 5) == [0]
    assert View.one(made).strongest(0, 0) == []


def test_one_odd_row_does_not_pale_the_others() -> None:
    weights = torch.tensor([[[1.0]], [[-1.0]], [[100.0]], [[torch.nan]]])
    assert shade_scale(weights, torch.ones(4, 1, dtype=torch.bool)) == 1.0
    assert shade_scale(weights, torch.zeros(4, 1, dtype=torch.bool)) == 0.0


def test_the_record_is_compact_and_exact() -> None:
    made = explain(["😀 good film", "bad 😀😀 bad"], known={"good": 1.5, "bad": -0.75})
    data: dict[str, Any] = {**record(made), "classes": made.classes}
    for i, text in enumerate(data["texts"]):
        wide, spans = text.encode("utf-16-le"), places_of(data["spans"][i])
        cut = [wide[2 * a : 2 * b].decode("utf-16-le") for a, b in zip(spans[::2], spans[1::2], strict=True)]
        assert cut == [w for w in made.values[i] if w]
        assert data["units"][i] == pytest.approx((1.5, 0.75)[i] / 2047, rel=1e-5)
        wanted = made.weights[i, made.present[i]].numpy()
        np.testing.assert_allclose(unpacked(data, i), wanted, atol=0.501 * data["units"][i])


def test_the_plot_sums_words_whatever_their_case_and_prefers_those_that_come_twice() -> None:
    made = explain(["Good good once", "GOOD film dull dull"], known={"good": 1.0, "once": 9.0, "dull": -0.5})
    lexicon = Lexicon.of(made)
    weights = made.towards("good")[made.present].double().numpy()
    assert [(w, round(m, 6), round(s, 6), n) for w, m, s, n in lexicon.leading(weights, 2)] == [
        ("good", 1.0, 1.0, 3),
        ("dull", -0.5, 0.5, 2),
    ]
    assert [w for w, *_ in lexicon.leading(weights, 3)] == ["once", "good", "dull"]
    figures = re.findall(r'<figure data-target="1"[^>]*>(.*?)</figure>', section("t", made), re.S)
    assert "+1.00<small>3 times</small>" in figures[0]
    assert "\N{MINUS SIGN}0.50<small>2 times</small>" in figures[0]


@pytest.mark.parametrize("where", ["page", "inline"])
def test_hostile_texts_stay_text_in_html(where: str) -> None:
    made = explain(HOSTILE, classes=HOSTILE[:2])
    odd = Explanation(**{**made.__dict__, "method": HOSTILE[0]})
    text = page("t", [section("t", odd)]) if where == "page" else inline(odd)
    assert not [evil for evil in HOSTILE if evil in text]
    assert text.count("<script") == (2 if where == "page" else 0)  # the data and the page's own script
    assert "<img" not in text
    if where == "page":
        assert block(text)["texts"] == list(HOSTILE)
    else:
        assert "alert(2)" in bare(text)
        assert not re.search(r"<(style|link|iframe|object|form)|\son\w+=\"|href|src=\"|url\(", text)


def test_hostile_texts_stay_text_in_the_terminal() -> None:
    made = explain(HOSTILE, classes=("[bold]a[/bold]", "[/]"))
    out = printed(made, k=0)
    assert "[bold]loud[/bold] [/] :smile:" in out
    assert "[bold]a[/bold]" in out
    assert "<script>alert(1)</script> is a word" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[31mred" in out  # its escape character is shown as a picture


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_the_terminal_writes_what_its_encoding_can_hold(encoding: str) -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    made = explain(["😀 half \ud800 naïve"], known={"half": -1.0})
    show(made, console=Console(file=file, width=80))
    file.flush()
    said = file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert ("naïve" in said) == (encoding != "ascii")
    assert ("█" in said) == (encoding == "utf-8")
    inline(made).encode("utf-8")
    page("t", [section("t", made)]).encode("utf-8")


def test_the_terminal_without_colour_marks_the_top_words() -> None:
    made = explain(["a clever but dull and slow film"], known={"clever": 2.0, "dull": -1.0, "slow": -0.5})
    out = printed(made, k=2, target="good")
    assert "a [+clever] but [-dull] and slow film" in out
    listed = out.split("Evidence for good")[1]
    assert re.findall(r"^\s+(\w+)\s+([+\N{MINUS SIGN}][\d.]+)", listed, re.M) == [
        ("clever", "+2.00"),
        ("dull", "\N{MINUS SIGN}1.00"),
    ]
    assert "a [-clever] but [+dull] and slow film" in printed(made, k=2, target=0)
    assert "a clever but dull and slow film" in printed(made, k=0)


def test_the_terminal_with_colour_shades_and_keeps_the_text_as_it_is() -> None:
    made = explain(["a clever but dull film"], known={"clever": 2.0, "dull": -1.9})
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor", width=80, record=True, _environ={})
    show(made, target="good", k=2, console=console)
    out = file.getvalue()
    assert "a clever but dull film" in console.export_text()
    assert "\x1b[1;38;2;27;31;38;48;2;94;141;229mclever" in out  # the ground of the second class
    assert "\x1b[1;4mdull" in out
    bold = Console(file=io.StringIO(), force_terminal=True, no_color=True, width=80, _environ={"TERM": "xterm"})
    show(made, target="good", k=2, console=bold)
    assert "\x1b[1m[+clever]" in bold.file.getvalue()  # type: ignore[attr-defined]


def test_the_terminal_shows_columns_too() -> None:
    made = explain(["a b c"])
    table = Explanation(
        **{
            **made.__dict__,
            "names": ("age", "[red]pay", "size"),
            "values": np.array([[41.0, 2.5, 0.125]]),
            "spans": None,
            "sources": None,
            "unexplained": None,
            "weights": torch.tensor([[[0.0, 1.0], [0.0, -2.0], [0.0, 0.1]]]),
        }
    )
    out = printed(table, target=1, k=2)
    assert re.search(r"\[red\]pay = 2.5\s+\N{MINUS SIGN}2.00\s+▒{12}│", out)
    assert re.search(r"age = 41\s+\+1.00\s+│█{6}", out)
    assert "size" not in out
    assert "[red]pay = <bdi>2.5</bdi>" in inline(table)


def test_show_stops_after_ten_rows_and_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    made = explain([f"text {i}" for i in range(12)])
    made.show(k=1)
    out = capsys.readouterr().out
    assert "Row 9" in out
    assert "Row 10" not in out
    assert "2 more rows not shown." in out
    with pytest.raises(BadSetting, match="k=-1, wanted 0 or more"):
        made.show(k=-1)
    with pytest.raises(UnknownName):
        made.show(target="ugly")


def test_inline_shows_the_first_rows_with_the_top_words_bold() -> None:
    made = explain([f"text {i} is good\nand costs $5 or $6" for i in range(7)], known={"good": 1.0})
    text = made._repr_html_()
    assert text == inline(made)
    assert "2 more rows not shown" in text
    assert "Row 4" in text
    assert "Row 5" not in text
    assert "<b>good</b></span><br>" in text
    assert "mathjax_ignore" in text
    assert "<script" not in text


def test_duplicate_words_keep_their_own_weights() -> None:
    made = explain(["good good good"])
    made.weights[0, :, 1] = torch.tensor([1.0, -3.0, 2.0])
    read = unpacked({**record(made), "classes": made.classes}, 0)[:, 1]
    np.testing.assert_allclose(read, [1.0, -3.0, 2.0], atol=3 / 2047)
    assert re.findall(r"good\s+([+\N{MINUS SIGN}]\d)", printed(made, target="good").split("Evidence")[1]) == [
        "\N{MINUS SIGN}3",
        "+2",
        "+1",
    ]
    assert "[+good] [-good] [+good]" in printed(made, target="good")


def test_the_tail_that_was_not_explained_is_said_everywhere() -> None:
    made = explain(["one two three four five", "one"], length=2)
    text = section("t", made)
    assert "3 more were not explained" in text
    assert block(text)["beyond"] == [3, 0]
    assert block(text)["notes"] == ["3 more words were not explained", ""]
    assert '<span style="opacity:.6"> three four five</span>' in inline(made)
    for said in (inline(made), printed(made)):
        assert said.count("3 more words were not explained") == 1
    assert "three four five" in printed(made)


def test_empty_texts_and_bare_punctuation_are_drawn() -> None:
    made = explain(["", "?! ...", "  \n "])
    assert block(section("t", made))["texts"] == ["", "?! ...", "  \n "]
    assert printed(made).count("This text has no words.") == 2
    assert inline(made).count("This text has no words.") == 2
    assert "?" in printed(made)
    nothing = explain([""])
    assert "There are no words to weigh" in section("t", nothing)
    for empty in (made[:0], nothing):
        assert section("t", empty)
        assert inline(empty)
        printed(empty)


def test_it_works_in_a_browser(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: install it to test the page in a browser")
    known = {"clever": 1.0, "dull": -0.8, "script": 0.5, "slow": -0.3}
    odd = "<script>alert(1)</script> 😀 clever but dull,\n  and  slow"
    long = "very clever words that go on and on, " * 60
    made = explain([odd, long, "", "?!", *HOSTILE], known=known, classes=("bad", "<b>mixed</b>", "good"), length=400)
    file = tmp_path / "page.html"
    file.write_text(page("t", [section("t", made, truth=[0] * len(made)), section("u", made[:1])]), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    said: list[str] = []
    asked: list[str] = []
    with api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=flags.split())
        tab = browser.new_page(viewport={"width": 360, "height": 800})
        tab.on("console", lambda m: said.append(m.text))
        tab.on("pageerror", lambda e: said.append(str(e)))
        tab.on("dialog", lambda d: (said.append(d.message), d.dismiss()))
        tab.on("request", lambda r: asked.append(r.url))
        tab.goto(file.as_uri())
        first, second = tab.locator("#set-1"), tab.locator("#set-2")
        cards = first.locator(".card")
        card = cards.first
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        assert cards.locator(".text").all_text_contents() == list(made.sources or ())
        assert card.locator(".word").all_text_contents() == [w for w in made.values[0] if w]
        assert card.locator(".text").evaluate("node => getComputedStyle(node).whiteSpace") == "pre-wrap"
        assert tab.locator("body script").count() == 3
        assert tab.locator("img, .text script").count() == 0

        def word(said: str) -> Any:
            return card.locator(".word", has_text=re.compile(f"^{said}$")).first

        def ground(said: str) -> str:
            colour: str = word(said).evaluate("node => getComputedStyle(node).backgroundColor")
            return word(said).get_attribute("class").replace("word ", "") + " " + colour

        first.get_by_role("radio", name="good").check(force=True)
        before = ground("clever"), ground("dull")
        assert [colour.split()[0] for colour in before] == ["for", "against"]
        assert set(first.locator(".towards").all_text_contents()) == {"Evidence for good"}
        listed = card.locator(".bar .name").all_text_contents()
        assert len(listed) == 10
        assert listed[:2] == ["clever", "dull"]
        assert card.locator(".bar .weight").first.text_content() == "+1.00"
        scrolled = cards.nth(1).locator(".text")
        scrolled.evaluate("node => { node.scrollTop = 50; }")
        first.get_by_role("radio", name="bad").check(force=True)
        after = ground("clever"), ground("dull")
        assert [colour.split()[0] for colour in after] == ["against", "for"]
        assert all(b != a for b, a in zip(before, after, strict=True))
        empty = "rgba(0, 0, 0, 0)"  # what speaks against the class has no ground but dashes under it
        assert [colour.endswith(empty) for colour in (*before, *after)] == [False, True, True, False]
        assert "dashed" in word("clever").evaluate("node => getComputedStyle(node).textDecoration")
        assert scrolled.evaluate("node => node.scrollTop") == 50  # another class, the same place in the text
        assert scrolled.evaluate("node => node.scrollHeight > node.clientHeight")
        assert second.locator(".towards").text_content() == f"Evidence for {made.classes[int(made.prediction[0])]}"

        bold = "nodes => nodes.filter(node => getComputedStyle(node).fontWeight >= 700).length"
        slider = first.get_by_label("Top words")
        for k in (3, 0, 30):
            slider.fill(str(k))
            wanted = min(k, int(made.present[0].sum()))
            assert card.locator(".word").evaluate_all(bold) == wanted
            assert card.locator(".word.top").count() == card.locator(".bar").count() == wanted
            assert first.locator("output").inner_text() == str(k)
        slider.fill("1")
        assert card.locator(".word.top").all_text_contents() == ["clever"]
        assert second.locator(".card .word").evaluate_all(bold) == 10

        beyond = int(made.unexplained[1])  # type: ignore[index]
        assert beyond > 0
        assert f"{beyond} more words were not explained." in cards.nth(1).text_content()
        assert cards.nth(1).locator(".tail").count() == 1
        assert card.locator(".tail").count() == 0
        assert "This text has no words." in cards.nth(2).text_content()

        first.get_by_label("Search rows").fill("clever BUT")
        assert cards.count() == 1
        assert card.locator(".word.hit").all_text_contents() == ["clever", "but"]
        browser.close()
    assert said == []
    assert asked == [file.as_uri()]
