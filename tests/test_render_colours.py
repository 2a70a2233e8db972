"""The colours of classes: told apart by all eyes, readable on every paper, the same on pages, in notebooks and in terminals."""

from __future__ import annotations

import io
import re
from itertools import combinations

import numpy as np
import pytest
import torch
from rich.console import Console

from aimwise.explanation import Explanation
from aimwise.render.colours import CUES, INK, NEUTRAL, PALETTE, channels, colour, cue, marks, mixed
from aimwise.render.html import asset, section
from aimwise.render.notebook import inline
from aimwise.render.notebook import word as noted
from aimwise.render.terminal import DULL, show
from aimwise.render.views import View, margins
from test_render_text import bare, explain, printed

# How eyes that lack one kind of cone see linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
TEXT = "clever dull fair slow mild film"
KNOWN = {"clever": 2.0, "dull": -1.9, "fair": 1.0, "slow": -0.8, "mild": 0.5}


def linear(said: str) -> np.ndarray:
    c = np.array(channels(said)) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG, from 1 to 21."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def apart(one: str, other: str, eyes: np.ndarray) -> float:
    """How different two colours look, as a distance in OKLab; 0.02 can just be told."""
    cones = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
    lab = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])
    seen = [lab @ np.cbrt(cones @ (eyes @ linear(c)).clip(0, 1)) for c in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def papers() -> dict[str, dict[str, str]]:
    """The colours that the style sheet gives to text, cards and tracks, on light and on dark paper."""
    light, dark = re.findall(r":root \{(.*?)\}", asset("page.css"), re.S)
    return {name: dict(re.findall(r"--(\w+): (#\w{6});", part)) for name, part in (("light", light), ("dark", dark))}


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize(("paper", "any_two", "first_four"), [("light", 0.06, 0.15), ("dark", 0.045, 0.055)])
def test_every_eye_tells_the_grounds_apart(eyes: str, paper: str, any_two: float, first_four: float) -> None:
    grounds = [getattr(each, paper) for each in PALETTE]
    assert len(grounds) >= 10
    assert min(apart(a, b, EYES[eyes]) for a, b in combinations(grounds, 2)) > any_two
    assert min(apart(a, b, EYES[eyes]) for a, b in combinations(grounds[:4], 2)) > first_four


@pytest.mark.parametrize("each", [*PALETTE, NEUTRAL], ids=lambda each: each.name)
def test_text_is_readable_on_every_ground_and_lines_are_seen(each: object) -> None:
    paper = papers()
    assert paper["light"]["ink"] == INK
    for name in ("light", "dark"):
        assert contrast(paper[name]["ink"], getattr(each, name)) >= 4.5
        for around in ("card", "paper", "track"):
            assert contrast(each.line, paper[name][around]) >= 3  # type: ignore[attr-defined]
    assert contrast(INK, mixed(each.light, DULL, 0.5)) >= 4.5  # type: ignore[attr-defined]
    assert min(contrast(each.line, screen) for screen in ("#000000", "#ffffff")) >= 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.49, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "#212121"), ("#111111", "#cccccc"), ("#1e1e1e", "#d4d4d4")])
def test_text_in_a_notebook_is_readable_on_light_and_dark_paper(share: float, paper: str, ink: str) -> None:
    for each in PALETTE:
        said = noted("word", share, 1.0, each)
        ground, own = re.search(r"background:([^;]*)", said), re.search(r"[;\"]color:(#\w{6})", said)
        assert ground
        tint = re.fullmatch(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)", ground[1])
        if tint:
            solid = mixed("#" + "".join(f"{int(c):02x}" for c in tint.groups()[:3]), paper, float(tint[4]))
        assert contrast(own[1] if own else ink, solid if tint else ground[1]) >= 4.5


def test_forty_classes_look_different() -> None:
    looks = [(colour(c), cue(c)) for c in range(len(PALETTE) * CUES)]
    assert len(set(looks)) == len(looks) == 40
    assert [marks(c) for c in (0, 9, 10, 25, 39)] == ["k0", "k9", "k0 u1", "k5 u2", "k9 u3"]


def test_a_margin_is_the_largest_weight_less_the_mean_of_the_others() -> None:
    weights = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    found, classes = margins(weights)
    for i, j in np.ndindex(3, 5):
        w = weights[i, j].tolist()
        c = max(range(4), key=lambda k, w=w: w[k])  # type: ignore[misc]
        assert int(classes[i, j]) == c
        assert float(found[i, j]) == pytest.approx(w[c] - sum(w[k] for k in range(4) if k != c) / 3, abs=1e-6)
    two, _ = margins(torch.tensor([[[0.5, -0.5], [0.2, 0.2]]]))
    assert two.tolist() == [[1.0, 0.0]]
    one, _ = margins(torch.tensor([[[0.5], [-0.5]]]))
    assert one.tolist() == [[0.5, -0.5]]


def test_only_what_speaks_for_a_class_is_among_the_top_of_all_classes() -> None:
    made = explain(["a clever but dull film"], known=KNOWN)
    made.weights[0, 0] = 0.3  # says the same of all classes
    made.weights[0, 4, 0] = torch.nan
    view = View.all(made)
    order = view.strongest(0, 9)
    assert order[:2] == [1, 3]
    assert [int(view.classes[0, j]) for j in order[:2]] == [1, 0]
    assert sorted(order) == [1, 2, 3]
    assert view.scale == pytest.approx(4.0)
    assert View.one(made).scale == pytest.approx(2.0)


def coloured(made: Explanation, *, system: str = "truecolor", **settings: object) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=system, width=80, _environ={})  # type: ignore[arg-type]
    show(made, console=console, **settings)  # type: ignore[arg-type]
    return file.getvalue()


def code(ground: str, *, bold: bool = False) -> str:
    front, back = (";".join(map(str, channels(c))) for c in (INK, ground))
    return f"\x1b[{'1;' * bold}38;2;{front};48;2;{back}m"


def test_a_terminal_fills_what_speaks_for_a_class_and_underlines_what_speaks_against_it() -> None:
    made = explain([TEXT], known=KNOWN)
    out = coloured(made, target="good", k=2)
    mine = colour(1)
    assert code(mine.light, bold=True) + "clever" in out
    assert code(mixed(mine.light, DULL, 0.5)) + "fair" in out
    assert f"\x1b[38;2;{';'.join(map(str, channels(mine.line)))}mmild" in out
    assert "\x1b[1;4mdull" in out
    assert "\x1b[4mslow" in out
    assert code(mine.light) + " filled " in out
    assert code(mine.light, bold=True) + " good " in out
    said = " ".join(re.sub(r"\x1b\[[\d;]*m", "", out).split())
    assert "bold are the 2 with the largest weights; full strength is a weight of 2.00 and more" in said
    assert re.search(rf"bad .*\x1b\[38;2;{';'.join(map(str, channels(colour(0).line)))}m[█▌]", out)
    assert "bold are" not in re.sub(r"\x1b\[[\d;]*m", "", coloured(made, k=0))
    assert code(NEUTRAL.light) + " filled " in coloured(made)  # each row has the colour of its own class


def test_a_terminal_shows_all_classes_at_once() -> None:
    made = explain([TEXT], known=KNOWN)
    out = coloured(made, target="all", k=3)
    for word, c, bold in (("clever", 1, True), ("dull", 0, True), (" bad ", 0, False), (" good ", 1, True)):
        assert code(colour(c).light, bold=bold) + word in out
    assert "\x1b[4m" not in out
    said = re.sub(r"\x1b\[[\d;]*m", "", out)
    how = "Words have the colour of the class that they speak most for, bold are the 3 with the largest margins; full strength"
    assert f"{how} is a margin of 4.00 and more" in " ".join(said.split())
    assert re.findall(r"^  (\w+)  (\w+) +(\+[\d.]+) ", said.split("Evidence for all classes")[1], re.M) == [
        ("clever", "good", "+4.00"),
        ("dull", "bad", "+3.80"),
        ("fair", "good", "+2.00"),
    ]
    bland = printed(made, target="all", k=3)
    assert "[1:clever] [0:dull] [1:fair] slow mild film" in bland
    assert "[0:word] speaks most for class 0" in " ".join(bland.split())
    assert re.search(r"0: bad +\d.*\n +1: good +\d", bland)


def test_a_class_that_is_called_all_is_that_class() -> None:
    made = explain(["a clever film"], classes=("bad", "all"), known=KNOWN)
    assert "Evidence for all\n" in printed(made, target="all")
    assert "[+clever]" in printed(made, target="all")
    assert "All classes at once" in inline(made)


def test_later_classes_are_marked_a_second_time() -> None:
    made = explain(["clever dull film"], classes=[f"c{i}" for i in range(12)], known=KNOWN)
    out = coloured(made, target="all", k=1)
    assert f"\x1b[1;4;{code(colour(1).light)[2:]}clever" in out  # class 11 has the colour of class 1, and a line
    assert code(colour(0).light) + "dull" in out
    assert re.search(r'text-decoration:underline solid 2px"><b>clever</b></span>', inline(made).split("All classes at once")[1])


@pytest.mark.parametrize("system", ["standard", "256", "truecolor", None])
@pytest.mark.parametrize("target", ["good", "all", None])
def test_every_terminal_shows_every_view(system: str | None, target: str | None) -> None:
    out = coloured(explain(["a clever but dull film", ""], known=KNOWN), system=system, target=target)  # type: ignore[arg-type]
    assert "clever" in out
    if system is None:
        assert "48;" not in out
        assert "[+clever]" in out or "[1:clever]" in out


def test_no_colour_is_obeyed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    explain(["a clever but dull film"], known=KNOWN).show(target="all", k=2)
    out = capsys.readouterr().out
    assert "48;2" not in out
    assert "[1:clever] but [0:dull]" in re.sub(r"\x1b\[[\d;]*m", "", out)


def test_signs_that_turn_a_line_round_are_shown_as_pictures() -> None:
    made = explain(["good \u202efilm\u2066 end"], classes=("\u202ebad", "good"))
    out = printed(made)
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", out)
    assert "\N{REPLACEMENT CHARACTER}bad" in out


def test_a_notebook_has_the_colours_of_the_classes() -> None:
    made = explain(["clever dull fair slow film"], known=KNOWN)
    assert int(made.prediction[0]) == 1
    text = inline(made)
    first, every = text.split("<details>")
    assert f'<span style="background:{colour(1).light};color:{INK};border-radius:3px"><b>clever</b></span>' in first
    assert re.search(r'<u style="text-decoration:underline dashed [\d.]+px rgba\([\d,.]+\)[^"]*"><b>dull</b></u>', first)
    assert "Full strength: a weight of 2.00 and more" in first
    for c in (0, 1):
        assert f"color:{colour(c).line};letter-spacing" in first  # the bars of the probabilities
    assert "▒" in first
    assert f"background:{colour(1).light}" in every
    assert f"background:{mixed(colour(0).light, '#ffffff', 0.95)}" in every
    assert "<u " not in every
    assert "clever dull fair slow film" in bare(every)
    alone = explain([TEXT], classes=("only",), known=KNOWN)
    assert float(alone.weights[0, 1, 0]) == pytest.approx(1.9)
    assert "<details>" not in inline(alone)
    assert "\x1b[4m" in coloured(alone)
    assert "\x1b[4m" not in coloured(alone, target="all")  # nothing but what speaks for a class is shown


def test_the_plot_of_all_classes_divides_every_bar() -> None:
    made = explain(["Good dull good", "dull GOOD dull"], classes=("bad", "mixed", "good"))
    made.weights.zero_()
    made.weights[0, 0, 2] = made.weights[0, 2, 2] = 3.0
    made.weights[1, 1, 0] = 1.5
    made.weights[:, 1, 1] += torch.tensor([6.0, 0.0])
    (figure,) = re.findall(r'<figure data-target="-2"[^>]*>(.*?)</figure>', section("t", made), re.S)
    bars = re.findall(r'<li class="bar sum">(.*?)</li>', figure)
    assert "<bdi>good</bdi>" in bars[0]
    assert re.findall(r'part (k\d)" style="--w:([\d.]+)%', bars[0]) == [("k2", "80.00"), ("k0", "20.00")]
    assert "+2.50<small>3 times</small>" in bars[0]
    assert '<small class="of k2" dir="auto">good</small>' in bars[0]
    assert re.findall(r'part (k\d)" style="--w:([\d.]+)%', bars[1]) == [("k1", "80.00")]
