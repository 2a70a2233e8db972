"""Plots on an axis: what they draw is what the explanation says, and shap's and captum's own plots take what we hand them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import aimwise
from aimwise import plots
from aimwise.errors import BadSetting, UnknownName
from aimwise.render.axes import SIGNED, lifts
from aimwise.render.colours import PALETTE, channels
from aimwise.render.dataset import leading
from aimwise.scores.table import Score, Scores
from test_render_html import explanation as table
from test_render_pictures import seen
from test_render_text import explain
from test_report import HISTORY, about

KNOWN = {"good": 1.0, "dull": -0.5, "film": 0.25}
TEXTS = ["A good good film", "good but dull", "a dull film $x^2$ of _names_", "dull"]


@pytest.fixture(autouse=True)
def pyplot() -> Iterator[Any]:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def labels(ax: Any, which: str = "y") -> list[str]:
    return [label.get_text() for label in getattr(ax, f"get_{which}ticklabels")()]


def drawn(ax: Any) -> np.ndarray:
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())[..., :3]


def scores() -> Scores:
    rows = []
    for method, base in (("aim", 0.9), ("lime $x$", 0.8)):
        for fill in ("mean", "background"):
            for k in (5, 1, 3):
                value = base + 0.01 * k - 0.1 * (fill == "mean")
                rows.append(
                    Score(
                        method, "faithfulness", k, fill, value, value - 0.02, value + 0.03, 9, "higher", "share", torch.zeros(3)
                    )
                )
    rows.append(Score("aim", "brevity", None, None, 4.0, 3.0, 5.0, 9, "lower", "words", torch.zeros(3)))
    return Scores(tuple(rows), note="<b>nine</b> rows")


def test_bars_are_the_means_where_the_feature_is_present() -> None:
    made = table(40, 15, 2)
    made.weights.mul_(0.1)
    made.weights[:, 3, 0], made.weights[:, 7, 0], made.present[10:, 7] = 2.0, -3.0, False
    ax = plots.bar(made, target=0, top=4)
    assert len(labels(ax)) == 4
    wide = dict(zip(labels(ax), ax.patches[8:], strict=True))
    assert wide["feature 3"].get_width() == pytest.approx(2.0)
    assert wide["feature 7"].get_width() == pytest.approx(-3.0)
    assert wide["feature 7"].get_hatch()
    assert not wide["feature 3"].get_hatch()
    assert wide["feature 3"].get_facecolor()[:3] == pytest.approx([n / 255 for n in channels(PALETTE[0].light)])
    assert ax.get_title("left") == "Evidence for class 0"
    assert plots.bar(made).get_title("left") == "Evidence for the predicted class"
    assert [f.name for f in leading(made, 0, top=2)] == ["feature 3", "feature 7"]


def test_words_are_counted_whatever_their_case() -> None:
    made = explain(TEXTS, known=KNOWN)
    ax = plots.bar(made, target="good", top=3)
    assert labels(ax) == ["good  ×3", "dull  ×3", "film  ×2"]
    assert [f.mean for f in leading(made, "good", top=2)] == pytest.approx([1.0, -0.5])


def test_a_swarm_has_a_point_for_every_row_shaded_by_the_value() -> None:
    made = table(50, 4, 2)
    ax = plots.beeswarm(made, target=1, top=3)
    points = ax.collections
    assert [len(each.get_offsets()) for each in points] == [50, 50, 50]
    first = leading(made, 1, top=1)[0]
    np.testing.assert_allclose(points[0].get_offsets()[:, 0], first.weights)
    order = np.argsort(first.values.astype(float))
    shades = np.asarray(points[0].get_array())
    assert shades[order[0]] == 0.0
    assert (shades == 0.0).sum() == (shades == 1.0).sum() == 3  # a twentieth on each side, so that one odd value hides no others
    assert shades[order[-1]] == 1.0
    assert (np.diff(shades[order]) >= 0).all()
    words = plots.beeswarm(explain(TEXTS, known=KNOWN), top=2)
    assert words.collections[0].get_array() is None  # a word has no value
    missing = replace(made, values=made.values.astype(object))
    missing.values[0, :] = None
    drawn(plots.beeswarm(missing, top=2))
    named = replace(made, values=np.full((50, 4), "x", dtype=object))
    assert plots.beeswarm(named, top=2).collections[0].get_array() is None


def test_points_of_like_weight_stand_beside_each_other() -> None:
    weights = np.array([0.5, 0.5, 0.5, -1.0, 0.0])
    found = lifts(weights, 1.0)
    assert sorted(found[:3].tolist()) == pytest.approx([-0.09, 0.0, 0.09])
    assert found[3:].tolist() == [0.0, 0.0]
    assert np.abs(lifts(np.zeros(500), 1.0)).max() <= 0.41


def test_a_heat_map_has_the_surest_rows_first_and_leaves_out_what_is_not_there() -> None:
    made = table(30, 6, 3)
    ax = plots.heatmap(made, target=2, top=5)
    values = ax.images[0].get_array()
    order = made.probs[:, 2].argsort(descending=True, stable=True).tolist()
    names = labels(ax, "x")
    columns = [made.names.index(name) for name in names]  # type: ignore[union-attr]
    np.testing.assert_allclose(values, made.weights[order][:, columns, 2].numpy(), rtol=1e-6)
    words = np.asarray(plots.heatmap(explain(TEXTS, known=KNOWN), target="good", top=3).images[0].get_array())
    nan = np.nan  # good, dull, film in each text
    np.testing.assert_allclose(words, [[1, nan, 0.25], [1, -0.5, nan], [nan, -0.5, 0.25], [nan, -0.5, nan]], atol=1e-6)
    low, high = SIGNED(0.0), SIGNED(1.0)
    assert low[2] > low[0] + 0.3  # blue against, orange for: apart for eyes of every kind
    assert high[0] > high[2] + 0.3


@pytest.mark.parametrize("segments", [False, True])
def test_the_heat_map_of_images_is_the_mean_of_every_pixel(segments: bool) -> None:
    made = seen(4, segments=segments)
    made.weights[0, 0, 2] = 4.0
    values = plots.heatmap(made, target="owl").images[0].get_array()
    assert values.shape == (8, 8)
    assert values[0, 0] == pytest.approx((4 + 2 + 2 + 2) / 4)
    assert values[0, 7] == pytest.approx(-2.0)


def test_a_waterfall_adds_up() -> None:
    made = replace(table(3, 15, 3), base=torch.tensor([0.5, -1.0, 0.25]))
    for top in (4, 15, 40):
        ax = plots.waterfall(made[1], target=2, top=top)
        bars = ax.patches
        at = 0.25
        for bar in bars:
            assert bar.get_x() == pytest.approx(at, abs=1e-5)
            at += bar.get_width()
        assert at == pytest.approx(0.25 + float(made.weights[1, :, 2].sum()), abs=1e-5)
        assert len(bars) == min(top, 15) + (top < 15)
    assert labels(plots.waterfall(made[1], top=4))[-1] == "11 others"
    biggest = int(made[1].order(by="size")[0, 0])
    assert labels(plots.waterfall(made[1]))[0] == f"feature {biggest} = {made.values[1, biggest]:.6g}"


def test_a_text_is_written_whole_and_its_words_are_marked() -> None:
    made = explain(TEXTS, known=KNOWN)
    ax = plots.text(made[1], target="good", top=1)
    drawn(ax)
    assert [node.get_text() for node in ax.texts] == ["good", "but", "dull"]
    assert [node.get_fontweight() for node in ax.texts] == ["bold", "normal", "normal"]
    grounds, dashes = ax.patches, ax.lines
    assert len(grounds) == 1
    assert grounds[0].get_facecolor()[:3] == pytest.approx([n / 255 for n in channels(PALETTE[1].light)])
    assert len(dashes) == 1
    assert dashes[0].get_linestyle() != "-"
    places = [node.get_position()[0] for node in ax.texts]
    assert places == sorted(places)
    long = explain(["many words that go on and on " * 40])
    inside = plots.text(long[0])
    boxes = [node.get_window_extent() for node in inside.texts]
    whole = inside.get_window_extent()
    assert max(box.x1 for box in boxes) <= whole.x1 + 1
    assert min(box.y0 for box in boxes) >= whole.y0 - 12
    small = plots.text(long[0], inside.figure.add_axes((0.1, 0.1, 0.3, 0.1)))
    assert small.texts[-1].get_text() == "…"


def test_a_picture_lies_under_its_evidence() -> None:
    ax = plots.image(seen(2)[0], target="owl", top=1)
    values = np.asarray(ax.images[0].get_array())
    assert values.shape[2] == 3
    assert len({tuple(v) for v in values[20:100, 20:100].reshape(-1, 3).tolist()}) > 1
    assert "probability 90.0%" in ax.get_xlabel()


def test_curves_have_a_line_with_a_band_for_each_method() -> None:
    ax = plots.curves(scores(), metric="faithfulness", fill="background")
    assert [line.get_label() for line in ax.lines] == ["aim", "lime $x$"]
    assert ax.lines[0].get_xdata().tolist() == [1, 3, 5]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.91, 0.93, 0.95])
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()
    assert len(ax.collections) == 2
    assert plots.curves(scores()).get_title("left") == "faithfulness, fill: mean"
    figure = scores().plot("faithfulness")
    assert [panel.get_title("left") for panel in figure.axes] == ["fill: mean", "fill: background"]
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), [0.91, 0.93, 0.95])
    drawn(ax)
    with pytest.raises(UnknownName, match="no fill 'blur'"):
        plots.curves(scores(), fill="blur")
    with pytest.raises(UnknownName, match="brevity"):
        plots.curves(scores(), metric="brevity")


def test_a_training_is_drawn_from_whatever_holds_it(linear: Any, table: np.ndarray) -> None:
    explainer = aimwise.AIM(epochs=2, least_rows=128).fit(linear, table)
    for trained in (explainer, explainer.explain(table[:2]), explainer.history_):
        ax = plots.history(trained)
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [epoch["agreement"] for epoch in explainer.history_])
        assert ax.lines[1].get_xdata() == [explainer.best_epoch_ + 1]
        drawn(ax)
    assert plots.history(list(HISTORY)).lines[1].get_xdata() == [2]
    for nothing in ([], aimwise.Random().fit(linear, table).explain(table[:2])):
        with pytest.raises(BadSetting, match="no training history"):
            plots.history(nothing)


@pytest.mark.parametrize("name", ["bar", "beeswarm", "heatmap", "waterfall"])
@pytest.mark.parametrize("kind", ["table", "text", "image"])
def test_each_plot_takes_an_axis_and_returns_it(pyplot: Any, name: str, kind: str) -> None:
    odd = {"table": table(5, 6, 3, names=["$x^2$", "a_b", "c" * 80, "<b>", "%", "\n"]), "text": explain(TEXTS), "image": seen(4)}
    made = odd[kind]
    made = made[0] if name == "waterfall" else made
    _, ax = pyplot.subplots()
    assert getattr(plots, name)(made, ax, target=0) is ax
    assert drawn(ax).std() > 1
    assert getattr(plots, name)(made) is not ax
    blank = replace(made, weights=torch.zeros_like(made.weights))
    drawn(getattr(plots, name)(blank))


def test_what_cannot_be_drawn_is_named() -> None:
    made = table(3)
    for name in ("waterfall", "text", "image"):
        with pytest.raises(BadSetting, match=rf"{name} is about one row, this explanation has 3. Pick one: plots.{name}\("):
            getattr(plots, name)(made)
    with pytest.raises(BadSetting, match="wants an explanation of texts, got features of the kind 'table'"):
        plots.text(made[0])
    with pytest.raises(BadSetting, match="wants an explanation of images"):
        plots.image(made[0])
    for name in ("bar", "beeswarm", "heatmap"):
        with pytest.raises(BadSetting, match="no rows"):
            getattr(plots, name)(made[:0])
        with pytest.raises(BadSetting, match="top=0"):
            getattr(plots, name)(made, top=0)
    with pytest.raises(UnknownName):
        plots.bar(made, target="no such class")


def test_one_class_methods_are_drawn_too() -> None:
    made = table(4)
    single = replace(made, only=made.prediction)
    assert labels(plots.bar(single)) == labels(plots.bar(made))


def test_shap_draws_tables(pyplot: Any) -> None:
    shap = pytest.importorskip("shap")
    made = replace(table(20, 6, 3), base=torch.tensor([0.5, -1.0, 0.25]), about=about())
    whole = made.to_shap()
    assert whole.shape == (20, 6, 3)
    assert list(whole.feature_names) == list(made.names)  # type: ignore[arg-type]
    np.testing.assert_allclose(whole.values, made.weights.numpy(), rtol=1e-6)
    np.testing.assert_allclose(whole.base_values[3], [0.5, -1.0, 0.25])
    one = made.to_shap(target="class 1")
    np.testing.assert_allclose(one.values, whole[..., 1].values)
    np.testing.assert_allclose(made.to_shap(target=made.prediction).values, made.towards().numpy(), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap's own
        shap.plots.bar(one, show=False)
        assert len(pyplot.gca().patches) >= 6
        pyplot.close("all")
        shap.plots.beeswarm(whole[..., 2], show=False)
        assert len(pyplot.gca().collections) >= 6
        pyplot.close("all")
        shap.plots.waterfall(whole[0, :, 0], show=False)
        assert any("feature" in label.get_text() for label in pyplot.gcf().axes[0].get_yticklabels())
    mixed = made.values.astype(object)
    mixed[:, 0] = "word"
    assert replace(made, values=mixed).to_shap().data[0, 0] == "word"


def test_shap_draws_texts_and_images(pyplot: Any) -> None:
    shap = pytest.importorskip("shap")
    made = explain(TEXTS, known=KNOWN)
    whole = made.to_shap()
    assert "".join(whole.data[2]) == TEXTS[2]
    np.testing.assert_allclose(whole[0].values, made.weights[0, :4].numpy(), rtol=1e-6)
    html = shap.plots.text(made.to_shap(target="good")[0], display=False)
    assert "good" in html
    assert len(shap.plots.text(whole[1], display=False)) > len(html)
    pictures = seen(2).to_shap()
    assert pictures.shape == (2, 8, 8, 1, 3)
    np.testing.assert_allclose(pictures.values[0, :4, :4, 0, 2].sum(), 2.0)  # a share of the square's weight in each pixel
    shap.plots.image(pictures, show=False)
    assert len(pyplot.gcf().axes) == 2 * 4 + 1
    shap.plots.image(seen(2, coloured=True).to_shap(target="owl"), show=False)


def test_captum_shows_images_and_texts() -> None:
    pytest.importorskip("captum")
    from captum.attr import visualization as shown

    for coloured in (False, True):
        made = seen(2, coloured=coloured)
        attributions, pictures = made.to_captum(target="owl")
        assert attributions.shape == (2, 8, 8, 1)
        assert pictures.shape == (2, 8, 8, 3 if coloured else 1)
        assert 0 <= pictures.min() < pictures.max() <= 1
        for method in ("heat_map", "blended_heat_map", "masked_image"):
            sign = "all" if method != "masked_image" else "positive"
            figure, _ = shown.visualize_image_attr(attributions[0], pictures[0], method=method, sign=sign, use_pyplot=False)
            assert figure.axes
    made = explain(TEXTS, known={word: 3 * weight for word, weight in KNOWN.items()})
    records = made.to_captum()
    assert len(records) == 4
    first = records[0]
    assert first.raw_input_ids == ["A", "good", "good", "film"]
    assert float(first.word_attributions.abs().max()) == 1.0
    assert first.pred_class == made.classes[int(made.prediction[0])]
    assert first.attr_score == pytest.approx(float((made.towards() * made.present)[0].sum()), abs=1e-6)
    assert shown.format_word_importances(first.raw_input_ids, first.word_attributions).count("<mark") == 4
    columns = table(3, 4, 2)
    np.testing.assert_allclose(columns.to_captum(target=1), columns.weights[:, :, 1].numpy(), rtol=1e-6)
