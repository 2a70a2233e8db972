"""What the page says of its explainer, what an explanation knows of it, and how small a page of a thousand inputs is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aimwise
from aimwise.errors import BadFile, BadSetting
from aimwise.explanation import About, Check, Explanation, Training, Trial
from aimwise.render import codec, gallery
from aimwise.render.html import page, section
from aimwise.render.plots import column_plot
from aimwise.render.trust import findings, panel, seconds
from aimwise.render.views import checked_truth
from test_render_html import explanation as table_explanation
from test_render_html import unpacked
from test_render_pictures import seen
from test_render_text import explain, places_of

HISTORY = (
    {"epoch": 0, "loss": 0.9, "agreement": 0.7, "without": 0.6, "tracking": 0.5, "variation": 0.1},
    {"epoch": 1, "loss": 0.5, "agreement": 0.9, "without": 0.6, "tracking": 0.8, "variation": 0.4},
    {"epoch": 2, "loss": 0.4, "agreement": 0.8, "without": 0.6, "tracking": 0.7, "variation": 0.5},
)


def about(**changes: Any) -> About:
    told = About(
        explainer="AIM(epochs=3)",
        blackbox="RandomForestClassifier",
        features="Columns",
        fill="background",
        seed=7,
        rows=426,
        fit_queries=41_200,
        fit_seconds=9.34,
        queries=1_200,
        explained=100,
        training=Training(HISTORY, 1, "patience"),
    )
    return replace(told, **changes)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_an_explanation_knows_what_made_it(linear: Any, table: np.ndarray) -> None:
    explainer = aimwise.AIM(epochs=2, least_rows=256).fit(linear, table)
    before = len(linear.rows)
    made = explainer.explain(table[:20], check=4, top=(3, 1, 3, 0))
    told = made.about
    assert told is not None
    assert told.explainer == "AIM(epochs=2, least_rows=256)"
    assert (told.blackbox, told.features, told.fill, told.seed, told.rows) == ("FunctionBox", "Columns", "background", 0, 240)
    assert told.fit_queries == explainer.queries_ == sum(linear.rows[:before])
    assert told.queries == sum(linear.rows[before:])
    assert told.explained == 20
    assert told.training is not None
    assert [epoch["epoch"] for epoch in told.training.history] == [0, 1]
    assert told.training.best == explainer.best_epoch_
    again = Explanation.from_json(made.to_json())
    assert again.about == told == made[3].about == made[2:5].about
    assert aimwise.Random().fit(linear, table).explain(table[:2]).about.training is None


def test_a_history_with_a_number_that_is_none_is_still_json() -> None:
    odd = about(training=Training(({"epoch": 0, "agreement": float("nan")},), 0, "epochs"))
    made = replace(table_explanation(2), about=odd)
    back = Explanation.from_json(made.to_json()).about
    assert back is not None
    assert np.isnan(back.training.history[0]["agreement"])  # type: ignore[union-attr]
    panel(made)


def test_several_k_are_asked_about_together_and_say_what_each_says_alone(linear: Any, table: np.ndarray) -> None:
    explainer = aimwise.METHODS["occlusion"]().fit(linear, table, features=aimwise.Columns(fill="mean"))
    before = len(linear.rows)
    made = explainer.explain(table[:9], top=(4, 1))
    whole = linear.rows[before:]
    assert [trial.k for trial in made.trials] == [1, 4]
    assert whole[-1] == 9 * 2 * 2  # two K, kept and rest, one call
    assert made.trial is made.trials[-1]
    for trial in made.trials:
        alone = explainer.explain(table[:9], top=trial.k).trials
        assert len(alone) == 1
        torch.testing.assert_close(alone[0].kept, trial.kept)
        torch.testing.assert_close(alone[0].rest, trial.rest)
        z = made.chosen(trial.k).numpy()
        for said, gate in ((trial.kept, z), (trial.rest, 1 - z)):
            filled = table[:9] * gate + table.mean(0) * (1 - gate)
            np.testing.assert_allclose(said.numpy(), linear(filled), atol=1e-5)
    assert explainer.explain(table[:2]).trials == ()
    assert [t.k for t in explainer.explain(table[:0], top=(1, 2)).trials] == [1, 2]
    for wrong in (-1, (1, -2), (True,)):
        with pytest.raises(BadSetting, match="top="):
            explainer.explain(table[:2], top=wrong)


def test_trials_survive_json_slices_and_concatenation() -> None:
    made = replace(seen(3, k=2), about=about())
    made = replace(made, trials=(replace(made.trials[0], k=1), made.trials[0]))
    for again in (Explanation.from_json(made.to_json()), Explanation.concat([made[:1], made[1:]])):
        assert [t.k for t in again.trials] == [1, 2]
        np.testing.assert_array_equal(again.trials[1].kept_images, made.trials[1].kept_images)  # type: ignore[arg-type]
        torch.testing.assert_close(again.trials[0].rest, made.trials[0].rest)
    assert made[1].trials[0].kept.shape == (1, 3)
    with pytest.raises(BadFile, match="version 2, wanted aimwise-explanation 3 or 4"):
        Explanation.from_json(made.to_json().replace('"version": 4', '"version": 2'))


def test_parts_are_put_together() -> None:
    texts = ["a good film", "bad", "it was so so, really", ""]
    whole = explain(texts, known={"good": 1.0, "bad": -1.0})
    parts = [replace(explain(texts[a:b], known={"good": 1.0, "bad": -1.0}), about=about()) for a, b in ((0, 2), (2, 4))]
    made = Explanation.concat(parts)
    assert made.sources == whole.sources
    assert made.weights.shape == whole.weights.shape
    assert made.values.tolist() == whole.values.tolist()
    assert made.present.tolist() == whole.present.tolist()
    assert made.spans[0].tolist() == whole.spans[0].tolist()  # type: ignore[index]
    assert len(made.check.agreement) == 4  # type: ignore[union-attr]
    assert (made.about.queries, made.about.explained) == (2_400, 200)  # type: ignore[union-attr]
    assert made.about.fit_queries == 41_200  # type: ignore[union-attr]
    assert section("t", made)
    other = Explanation.concat([parts[0], replace(parts[1], about=about(seed=8), check=None)])
    assert other.about is None
    assert other.check is None
    pictures = Explanation.concat([seen(2), seen(1)])
    assert pictures.regions.shape == (1, 8, 8)  # type: ignore[union-attr]
    assert Explanation.concat([seen(2, segments=True), seen(1, segments=True)]).regions.shape == (3, 8, 8)  # type: ignore[union-attr]
    assert len(Explanation.concat([seen(1)])) == 1


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "Got no explanations"),
        ([seen(1), seen(1, classes=("a", "b", "c"))], "Part 1 has classes"),
        ([seen(1), replace(seen(1), method="lime")], "Part 1 has method 'lime', the first has 'AIM'"),
        ([seen(1), replace(seen(1), base=torch.ones(3))], "another base"),
        ([seen(1, segments=True), seen(1, segments=True, size=(9, 8), patch=5)], "images of different sizes"),
    ],
)
def test_what_does_not_belong_together_is_refused(parts: list[Explanation], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        Explanation.concat(parts)


def test_the_panel_says_what_was_measured() -> None:
    made = replace(table_explanation(20), about=about())
    made = replace(made, trials=tuple(Trial(k, made.probs, made.probs.flip(1)) for k in (1, 5)))
    text = words(panel(made))
    for said in (
        "Agreement in these rows 0.90 On 32 random masks of each row",
        "by 90.0%, no weights by 40.0%. So they explain 83.3% of what is to be explained.",
        "One row in ten has 0.90 or less",
        "Agreement in training 0.90 On masks of rows that were held back from training",
        "no weights by 60.0%. So they explain 75.0%",
        "It has not collapsed",
        "a correlation of 0.80. They differ between features by up to 0.40.",
        "The 5 features that speak most for the prediction keep it alone in 100.0% of the rows.",
        "top features 1 5 only them 100.0% 100.0%",
        "AIM(epochs=3)",
        "RandomForestClassifier",
        "takes the value of a random training row (fill='background')".replace("'", "&#x27;"),
        "on 426 inputs, in 9.3 s, seed 7",
        "Questions to fit 41,200",
        "1,200 for 100 inputs, 12.0 each",
        "epoch 2 of 3 was kept; no epoch was better for a while",
    ):
        assert said in text
    assert [each.mark for each in findings(made)] == ["good", "good", "good", "good"]
    assert 'aria-label="Agreement on held-out rows in each of 3 epochs: from 0.70 to 0.90 at best"' in panel(made)
    assert seconds(150.0) == "2 min"


def test_a_bad_explanation_says_so() -> None:
    made = table_explanation(12)
    worse = replace(made, check=Check(torch.full((12,), 0.4), torch.full((12,), 0.5), 8))
    assert findings(worse)[0].mark == "bad"
    assert "no better than no weights at all: do not trust them" in panel(worse)
    weak = replace(made, check=Check(torch.full((12,), 0.6), torch.full((12,), 0.5), 8))
    assert findings(weak)[0].mark == "fair"
    assert "look at each row" in panel(weak)
    perfect = replace(made, check=Check(torch.ones(12), torch.ones(12), 8))
    assert findings(perfect)[0].mark == "none"
    cut = replace(made, about=about(training=Training(HISTORY, 1, "interrupted")))
    assert "The training ended early: it was interrupted." in panel(cut)
    bare = replace(made, check=None)
    assert "Nothing was measured" in panel(bare)
    assert "explain(..., check=32)" in panel(bare)
    assert "Nothing was measured" in panel(made[:0])
    wrong = replace(made, trials=(Trial(1, made.probs.flip(1), made.probs),))
    assert findings(wrong)[-1].mark in ("fair", "bad")


def test_the_panel_escapes_what_it_is_told() -> None:
    evil = "<script>alert(1)</script>"
    text = panel(replace(table_explanation(2), about=about(explainer=evil, blackbox=evil, features=evil, fill=evil)))
    assert evil not in text
    assert text.count("&lt;script&gt;") == 4


@pytest.mark.parametrize(
    ("classes", "truth", "numbers"),
    [
        (("no", "yes"), ["yes", "no"], [1, 0]),
        (("no", "yes"), np.array(["yes", "no"]), [1, 0]),
        (("no", "yes"), np.array([1, 0]), [1, 0]),
        (("no", "yes"), torch.tensor([1, 0]), [1, 0]),
        (("no", "yes"), [1.0, 0.0], [1, 0]),
        (("3", "8"), [8, 3], [1, 0]),
        (("0", "1"), [1, 0], [1, 0]),
        (("False", "True"), [True, False], [1, 0]),
        (("3", "8"), [1, 0], [1, 0]),
    ],
)
def test_true_classes_are_numbers_or_names(classes: tuple[str, ...], truth: Any, numbers: list[int]) -> None:
    made = table_explanation(2, 3, 2, classes=classes)
    assert checked_truth(truth, made) == numbers
    assert '"truth":[1,0]' in section("t", made, truth=truth)


@pytest.mark.parametrize(
    ("classes", "truth", "said"),
    [
        (("no", "yes"), ["yes", "nein"], "row 1 is 'nein', wanted a number from 0 to 1 or one of the names no, yes"),
        (("no", "yes"), [0, 2], "row 1 is 2, wanted a number"),
        (("no", "yes"), [None, "no"], "row 0 is None, wanted"),
        (("no", "yes"), [float("nan"), 0], "row 0 is nan, wanted"),
        (("1", "0"), [1, 0], "may mean the class of that name or class number 1, '0'. Pass the names as strings"),
    ],
)
def test_true_classes_that_cannot_be_meant_are_named(classes: tuple[str, ...], truth: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(said)):
        checked_truth(truth, table_explanation(2, 3, 2, classes=classes))


@pytest.mark.parametrize("signs", [1, 2])
def test_packed_weights_are_read_back_within_half_a_step(signs: int) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-9, 9) for n in (1, 40, 7)] + [np.zeros((2, 3)), np.zeros((0, 3))]
    rows[1][3, 1], rows[1][5] = np.nan, np.inf
    made: dict[str, Any] = codec.packed(rows, signs)
    for i, row in enumerate(rows):
        found = unpacked({**made, "classes": ("a", "b", "c")}, i)
        np.testing.assert_array_equal(np.isnan(found), ~np.isfinite(row))
        known = np.isfinite(row)
        largest = np.abs(row[known]).max(initial=0)
        np.testing.assert_allclose(found[known], row[known], atol=1.001 * largest / (2047 if signs == 2 else 31) / 2)
    assert [len(text) for text in made["weights"]] == [signs * row.size for row in rows]


def test_places_are_read_back() -> None:
    numbers = [0, 1, 31, 32, 33, 1023, 1024, 10**6, 0]
    assert places_of(codec.counted(numbers)) == np.cumsum(numbers).tolist()


def test_the_mean_over_all_rows_is_that_of_rows_with_the_feature() -> None:
    made = table_explanation(4, 2, 2)
    made.weights[:, 0, 0] = 2.0
    made.present[1:, 0] = False
    assert "+2.00" in column_plot(made, made.towards(0), "class 0")


def large(kind: str, rows: int = 1000) -> Explanation:
    rng, g = np.random.default_rng(0), torch.Generator().manual_seed(0)
    if kind == "text":
        vocabulary = np.array(["".join(rng.choice(list("abcdefghij"), size=n)) for n in rng.integers(1, 9, size=4000)])
        made = explain([" ".join(rng.choice(vocabulary, size=230)) for _ in range(rows)])
    elif kind == "table":
        made = table_explanation(rows, 30, 3)
    else:
        made = seen(rows, size=(28, 28), patch=1, classes=tuple("0123456789"), k=None)
        strokes = np.zeros((rows, 28, 28), dtype=np.uint8)
        strokes[:, 4:24, 10:18] = rng.integers(0, 256, (rows, 20, 8))
        made = replace(made, images=strokes)
    made.weights.copy_(torch.randn(made.weights.shape, generator=g))
    trials = []
    for k in (1, 3, 5, 10):
        images: list[np.ndarray] = []
        if made.images is not None:
            gate = made.chosen(k).numpy().astype(bool)[:, made.regions[0]]  # type: ignore[index]
            images = [np.where(gate, made.images, 30).astype(np.uint8), np.where(gate, 30, made.images).astype(np.uint8)]
        trials.append(Trial(k, made.probs, made.probs.flip(1), *images))
    return replace(made, trials=tuple(trials), about=about())


@pytest.mark.parametrize(("kind", "most"), [("text", 4.0), ("table", 1.2), ("image", 10.0)])
def test_a_thousand_inputs_stay_small(kind: str, most: float, tmp_path: Path) -> None:
    made = large(kind)
    path = made.to_html(tmp_path / "page.html", truth=made.prediction)
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < most * 1e6
    assert "the first" not in re.sub(r"<noscript>.*?</noscript>", "", text.split("<script", 1)[0])
    data = json.loads(re.findall(r'class="data">(.*?)</script>', text, re.S)[0])
    assert len(data["weights"]) == 1000
    assert data["signs"] == (1 if kind == "image" else 2)
    assert ("rounded to a 31st" in text) == (kind == "image")


def test_pictures_of_trials_are_left_out_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made = seen(2, k=2)
    made = replace(made, trials=(replace(made.trials[0], k=1), made.trials[0]))
    whole: dict[str, Any] = gallery.record(made)
    assert all(whole["kept"])
    assert all(whole["rest"])
    pairs = [sum(map(len, whole[what][1])) for what in ("kept", "rest")]
    used = 2 * made.weights.numel() + sum(map(len, whole["pictures"]))
    monkeypatch.setattr(gallery, "SIGNS", used + sum(pairs) + 5)
    cut: dict[str, Any] = gallery.record(made)
    assert (cut["kept"][0], cut["rest"][0]) == (None, None)
    assert cut["kept"][1] == whole["kept"][1]
    assert "Only the top" not in page("t", [section("t", made)]).split("<script")[0]
