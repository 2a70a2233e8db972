"""Figures: the panels and bars they should have, one scale, the colours of the classes, files that are whole."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from aimwise.errors import BadSetting, MissingExtra, UnknownName
from aimwise.explanation import Explanation, Trial
from aimwise.render.colours import PALETTE, channels, colour
from aimwise.render.overlays import FILL, dulled, over
from test_render_html import explanation as table
from test_render_pictures import HOSTILE, seen
from test_render_text import explain

pytest.importorskip("matplotlib")
image = pytest.importorskip("PIL.Image")


def names(figure: Any) -> list[str]:
    return [axes.get_label() for axes in figure.axes]


def axes_of(figure: Any, name: str) -> Any:
    (found,) = [axes for axes in figure.axes if axes.get_label() == name]
    return found


def picture(figure: Any, name: str) -> np.ndarray:
    return np.asarray(axes_of(figure, name).images[0].get_array())


def texts(figure: Any) -> list[str]:
    return [each.get_text() for each in (*figure.texts, *(t for axes in figure.axes for t in axes.texts)) if each.get_text()]


def chips(figure: Any) -> dict[str, str]:
    """The names that stand on a colour, and that colour."""
    from matplotlib.colors import to_hex

    found = [each for each in figure.texts if each.get_bbox_patch() is not None]
    return {each.get_text(): to_hex(each.get_bbox_patch().get_facecolor()) for each in found}


def test_a_row_has_its_picture_a_panel_for_each_class_and_the_trial() -> None:
    made = seen(2)
    made.probs[1] = torch.tensor([0.2, 0.7, 0.1])
    figure = made.plot()
    line = ["input {0}", "input {0} probabilities", "class {1} of {0}", "class {2} of {0}", "class {3} of {0}"]
    line += ["kept {0}", "kept {0} probabilities", "rest {0}", "rest {0} probabilities"]
    wanted = [[each.format(*order) for each in line] for order in ((0, 2, 0, 1), (1, 1, 0, 2))]
    assert names(figure) == [*wanted[0], *wanted[1], "scale"]
    np.testing.assert_array_equal(picture(figure, "input 1"), made.images[1])  # type: ignore[index]
    np.testing.assert_array_equal(picture(figure, "kept 1"), made.trial.kept_images[1])  # type: ignore[union-attr, index]
    np.testing.assert_array_equal(picture(figure, "rest 0"), made.trial.rest_images[0])  # type: ignore[union-attr, index]
    left = [axes_of(figure, name).get_position().x0 for name in ("input 0", "class 2 of 0", "class 0 of 0", "kept 0", "rest 0")]
    assert left == sorted(left)
    assert len(set(left)) == 5
    said = texts(figure)
    assert said.count("the top 1") == 4
    assert {"90.0%", "70.0%", "Only", "Without", "Row 1"} <= set(said)
    assert "Outlined: the one that speaks most for the first class." in " ".join(said)


def test_without_a_trial_there_are_no_bars_and_no_outlines() -> None:
    figure = seen(1, k=None).plot()
    assert names(figure) == ["input 0", "class 2 of 0", "class 0 of 0", "class 1 of 0", "scale"]
    assert "Outlined" not in " ".join(texts(figure))


def test_the_bars_are_what_the_black_box_says_in_the_colours_of_the_classes() -> None:
    from matplotlib.colors import to_hex

    made = seen(1)
    figure = made.plot()
    for name, probs in (("input 0", made.probs), ("kept 0", made.trial.kept), ("rest 0", made.trial.rest)):  # type: ignore[union-attr]
        room = axes_of(figure, f"{name} probabilities")
        tracks, bars = room.patches[::2], room.patches[1::2]
        shares = [bar.get_width() / track.get_width() for track, bar in zip(tracks, bars, strict=True)]
        order = [2, 0, 1]
        np.testing.assert_allclose(shares, probs[0, order], atol=1e-6)
        assert [to_hex(bar.get_facecolor()) for bar in bars] == [colour(c).light for c in order]
        best = int(probs[0].argmax())
        bold = [text.get_text() for text in room.texts if text.get_fontweight() == "bold"]
        assert bold[0] == made.classes[best]


def test_the_bars_include_the_class_that_the_trial_made_probable() -> None:
    made = seen(1, classes=tuple(f"c{i}" for i in range(9)))
    kept, rest = torch.zeros(1, 9), torch.zeros(1, 9)
    kept[0, 6] = rest[0, 7] = 1.0
    made = replace(made, trials=(replace(made.trial, kept=kept, rest=rest),))  # type: ignore[type-var]
    said = [text.get_text() for text in axes_of(made.plot(), "kept 0 probabilities").texts]
    assert said[::2] == ["c8", "c0", "c1", "c6", "c7"]
    assert said[1::2][3:] == ["100.0%", "0.0%"]


def test_one_scale_holds_for_all_classes_and_rows() -> None:
    made = seen(3, k=None)
    made.weights[1] *= 0.5
    made.weights[2] *= 0.25
    figure = made.plot()  # the full strength is the largest weight of a typical row: here the second, 1
    for row, share in ((0, 1.0), (1, 1.0), (2, 0.5)):
        for c in (2, 0):
            square = (
                (slice(0, 4), slice(0, 4)) if c == 2 else (slice(0, 4), slice(4, 8))
            )  # what speaks for it by its largest weight
            ground = dulled(made.images[row])[square]  # type: ignore[index]
            wanted = over(ground, np.array([*channels(colour(c).light), round(255 * FILL * share)]))
            drawn = picture(figure, f"class {c} of {row}")[20::40, 20::40][square]
            np.testing.assert_array_equal(drawn, wanted)
    assert [text for text in texts(figure) if text[0] in "≥\N{MINUS SIGN}"] == ["\N{MINUS SIGN}1.00", "≥ +1.00"]
    alone = made[2].plot()
    assert "+0.500" in texts(alone)


def test_the_scale_is_drawn_as_the_pictures_are() -> None:
    values = picture(seen(1).plot(), "scale").astype(int)
    left, right = values[:, :60], values[:, 180:]
    assert left.std(0).min() > 5  # hatched: lines cross every column
    assert right.std(0).max() == 0
    assert right[0].sum(-1).tolist() == sorted(right[0].sum(-1), reverse=True)
    flat = seen(1)
    flat.weights.zero_()
    assert "scale" not in names(flat.plot())


def test_classes_have_their_colours_and_the_first_one_the_outlines() -> None:
    figure = seen(1, k=2).plot()
    assert chips(figure) == {"owl": PALETTE[2].light, "cat": PALETTE[0].light, "dog": PALETTE[1].light}
    dark = {c: int((picture(figure, f"class {c} of 0").sum(-1) < 120).sum()) for c in range(3)}
    assert dark[2] > 500
    assert dark[0] == dark[1] == 0
    other = seen(1, k=2).plot(target="dog", k=1)
    assert int((picture(other, "class 1 of 0").sum(-1) < 120).sum()) > 500
    assert names(other)[2:5] == ["class 1 of 0", "class 2 of 0", "class 0 of 0"]


def test_six_classes_unless_told_otherwise() -> None:
    many = seen(1, classes=tuple(f"c{i}" for i in range(12)), k=None)
    assert [name for name in names(many.plot()) if "class" in name] == [f"class {c} of 0" for c in (11, 0, 1, 2, 3, 4)]
    assert len(names(many.plot(classes=12))) == 14
    assert names(many.plot(classes=["c3", 10], target="c5")) == [
        "input 0",
        "class 5 of 0",
        "class 3 of 0",
        "class 10 of 0",
        "scale",
    ]
    few = many.plot(classes=5, columns=3)
    tops = [round(axes_of(few, name).get_position().y0, 3) for name in names(few)[:-1]]
    assert len(set(tops)) == 2
    assert tops == sorted(tops, reverse=True)


def test_mistakes_are_marked() -> None:
    said = texts(seen(2).plot(truth=[2, 0]))
    assert "truth: owl" in said
    assert "✗ truth: cat" in said
    assert "✗ truth: class 2" in texts(table(1, 4, 3).plot(truth=[2]))


def test_twelve_rows_at_most_and_it_says_so() -> None:
    figure = seen(14, k=None).plot(classes=1)
    assert [name for name in names(figure) if "input" in name] == [f"input {i}" for i in range(12)]
    assert "The first 12 of 14 rows." in texts(figure)
    assert "The first 12 of 13 rows." in texts(table(13, 4, 2).plot(classes=1))


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    made = seen(2)
    for settings, said in (
        ({"columns": 0}, "columns=0, wanted 1 or more"),
        ({"k": -1}, "k=-1, wanted 0 or more"),
        ({"classes": 0}, "classes=0, wanted at least one class"),
        ({"classes": []}, "classes is empty"),
        ({"classes": "owl"}, r"Use classes=\['owl'\]"),
        ({"truth": [1]}, "Got 1 true classes for 2 rows"),
    ):
        with pytest.raises(BadSetting, match=said):
            made.plot(**settings)  # type: ignore[arg-type]
    with pytest.raises(UnknownName):
        made.plot(classes=["cow"])
    with pytest.raises(BadSetting, match=r"has no rows"):
        made[:0].plot()
    for name in ("x.jpeg", "x", "x.html"):
        with pytest.raises(BadSetting, match=r"wanted a name that ends in \.png, \.svg, \.pdf"):
            made.plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [seen(1), seen(1, coloured=True, segments=True), table(1, 6, 3), explain(["a good film", ""])])
def test_files_are_whole_and_what_they_say_they_are(tmp_path: Path, made: Explanation) -> None:
    for end in ("png", "SVG", "pdf"):
        file = tmp_path / "new" / f"figure.{end}"
        figure = made.plot(str(file))
        data = file.read_bytes()
        if end == "png":
            with image.open(file) as opened:
                opened.load()
                assert opened.format == "PNG"
                inches = figure.get_size_inches()
                assert opened.size == tuple(int(200 * n + 1e-6) for n in inches)
        elif end == "SVG":
            root = ElementTree.fromstring(data)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert len(list(root.iter("{http://www.w3.org/2000/svg}image"))) == (7 if made.images is not None else 0)
        else:
            assert data.startswith(b"%PDF")
            assert data.rstrip().endswith(b"%%EOF")
    assert len(list((tmp_path / "new").iterdir())) == 3  # nothing is left beside them


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    file = tmp_path / "figure.png"
    file.write_bytes(b"old")

    def half(self: Figure, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("no room")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no room"):
        seen(1).plot(file)
    assert file.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["figure.png"]


def test_a_notebook_shows_the_figure() -> None:
    assert seen(1).plot()._repr_png_().startswith(b"\x89PNG")


def test_matplotlib_is_left_as_it_was_and_pyplot_is_never_imported(tmp_path: Path) -> None:
    code = (
        "import sys, matplotlib; sys.path.insert(0, 'tests'); before = matplotlib.rcParams.copy(); import aimwise\n"
        "assert not [m for m in sys.modules if m.startswith('aimwise.render')]\n"
        "from test_render_pictures import seen; from test_render_html import explanation\n"
        f"for end in ('png', 'svg', 'pdf'): seen(1).plot({str(tmp_path)!r} + '/a.' + end); explanation().plot()._repr_png_()\n"
        "assert 'matplotlib.figure' in sys.modules; assert 'matplotlib.pyplot' not in sys.modules\n"
        "now = matplotlib.rcParams.copy(); assert str(now) == str(before)"
    )
    root = Path(__file__).parent.parent
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=root, capture_output=True)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'aimwise\[plot\]'"):
        seen(1).plot()


@pytest.mark.parametrize("made", [seen(1, classes=HOSTILE), table(1, 3, 3, classes=HOSTILE, names=HOSTILE)])
def test_names_are_taken_as_they_are(made: Explanation) -> None:
    figure = made.plot()
    figure._repr_png_()
    assert not any(text.get_parse_math() for text in figure.texts)
    assert not any(text.get_parse_math() for axes in figure.axes for text in axes.texts)
    assert not any(ord(sign) < 32 or sign == "\u202e" for text in texts(figure) for sign in text)
    long = table(1, 1, 2, classes=["x" * 300, "\ud800\n\ty"], names=["n" * 99])
    said = texts(long.plot())
    assert "x" * 17 + "…" in said
    assert "? y" in said
    assert max(map(len, said)) < 120


def test_tables_have_a_chart_for_each_class_on_one_scale() -> None:
    from matplotlib.colors import to_hex

    made = table(1, 15, 3)
    made.weights[0, 0] = torch.tensor([4.0, -2.0, 1.0])
    figure = made.plot(k=5)
    ranked = made.probs[0].argsort(descending=True).tolist()
    assert names(figure) == [f"class {c} of 0" for c in ranked]
    for c in ranked:
        room = axes_of(figure, f"class {c} of 0")
        order = made.order(c, by="size")[0, :5].tolist()
        widths = np.array([bar.get_width() for bar in room.patches])
        np.testing.assert_allclose(widths / widths.max(), made.weights[0, order, c] / made.weights[0, order, c].max(), rtol=1e-5)
        for bar, j in zip(room.patches, order, strict=True):
            assert (bar.get_hatch() is not None) == (bar.get_width() < 0)
            assert to_hex(bar.get_edgecolor()) == colour(c).line
            assert to_hex(bar.get_facecolor()) == ("#ffffff" if made.weights[0, j, c] < 0 else colour(c).light)
        assert [text.get_text() for text in room.texts[::2]] == [f"feature {j} = {made.values[0, j]:.6g}" for j in order]
    first, second = (axes_of(figure, f"class {c} of 0").patches[0].get_width() for c in (0, 1))
    assert first / 4 == pytest.approx(second / float(made.weights[0, made.order(1, by="size")[0, 0], 1]))


def test_texts_have_charts_of_their_words() -> None:
    made = explain(["a clever but dull film", ""], known={"clever": 2.0, "dull": -1.0})
    made = replace(made, trials=(Trial(2, made.probs, made.probs.flip(1)),))
    figure = made.plot(k=2, target="good")
    assert names(figure) == ["class 1 of 0", "class 0 of 0", "class 1 of 1", "class 0 of 1"]
    assert [text.get_text() for text in axes_of(figure, "class 1 of 0").texts] == [
        "clever",
        "+2.00",
        "dull",
        "\N{MINUS SIGN}1.00",
    ]
    assert [text.get_text() for text in axes_of(figure, "class 1 of 1").texts] == ["no features"]
    said = texts(figure)
    assert f"Row 0: good {float(made.probs[0, 1]):.1%}" in said
    assert any(text.startswith("Only the top 2: good") and "without the top 2: bad" in text for text in said)
    assert chips(figure) == {"good": PALETTE[1].light, "bad": PALETTE[0].light}
