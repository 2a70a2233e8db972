"""The record: ranking, slicing, exports and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aimwise import Check, Explanation
from aimwise.errors import BadFile, BadSetting, SingleClass, UnknownName


def explanation(check=True):
    weights = torch.tensor([[[0.5, -0.5], [-2.0, 2.0], [1.0, -1.0]], [[0.1, -0.1], [0.2, -0.2], [0.3, -0.3]]])
    return Explanation(
        weights=weights,
        probs=torch.tensor([[0.3, 0.7], [0.6, 0.4]]),
        base=torch.tensor([0.0, 0.0]),
        present=torch.tensor([[True, True, True], [True, True, False]]),
        names=("a", "b", "c"),
        values=np.array([[1.5, "x", None], [2.5, "y", "z"]], dtype=object),
        classes=("no", "yes"),
        method="by hand",
        check=Check(torch.tensor([0.9, 0.8]), torch.tensor([0.5, 0.5]), 4) if check else None,
    )


def test_top_is_about_the_predicted_class_or_any_other():
    first = explanation()[0]
    assert first.top(2) == [("b", 2.0), ("a", -0.5)]
    assert first.top(2, target="no") == first.top(2, target=0) == first.top(2, target=-2) == [("c", 1.0), ("a", 0.5)]
    assert first.top(2, by="size") == [("b", 2.0), ("c", -1.0)]
    assert len(first.top(99)) == 3
    assert explanation()[1].top(3, target=0) == [("b", pytest.approx(0.2)), ("a", pytest.approx(0.1))]


def test_towards_and_chosen():
    e = explanation()
    torch.testing.assert_close(e.towards(), torch.tensor([[-0.5, 2.0, -1.0], [0.1, 0.2, 0.3]]))
    torch.testing.assert_close(e.towards(torch.tensor([0, 1])), torch.tensor([[0.5, -2.0, 1.0], [-0.1, -0.2, -0.3]]))
    assert e.chosen(1).tolist() == [[0, 1, 0], [0, 1, 0]]
    assert e.chosen(3).tolist() == [[1, 1, 1], [1, 1, 0]]
    assert e.chosen(0).sum() == 0


def test_slices_are_explanations():
    e = explanation()
    assert len(e[0]) == 1
    assert len(e[-1:]) == 1
    assert [len(row) for row in e] == [1, 1]
    assert e[[1, 0]].check.agreement.tolist() == pytest.approx([0.8, 0.9])
    assert e[torch.tensor([False, True])].probs.tolist() == e[1].probs.tolist()
    assert len(e[:0]) == 0
    with pytest.raises(IndexError):
        e[5]


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        explanation().method = "other"


def test_frame_is_tidy():
    frame = explanation().to_frame()
    assert list(frame.columns) == ["row", "feature", "value", "class", "weight", "rank"]
    assert len(frame) == 2 * 3 + 2 * 2  # the feature that the second row has not is left out
    first = frame[(frame["row"] == 0) & (frame["class"] == "yes")].sort_values("rank")
    assert first["feature"].tolist() == ["b", "a", "c"]
    assert first["value"].tolist()[0] == "x"
    assert set(explanation().to_frame(top=1)["rank"]) == {1}


def test_additive_by_hand():
    z = torch.tensor([[[1.0, 0, 1]], [[0.0, 0, 0]]])
    got = explanation().additive(z)
    assert float(got[0, 0, 0]) == pytest.approx(1 / (1 + np.exp(-3.0)))
    assert float(got[1, 0, 0]) == pytest.approx(0.5)


def test_repr_reads_well():
    text = repr(explanation())
    assert "by hand: 2 rows, 3 features, 2 classes, agreement with the black box 0.85 (without weights 0.50)" in text
    assert "0: yes (0.70): b +2.00, a -0.50, c -1.00 [agreement 0.90]" in text
    assert "1 row," in repr(explanation(check=False)[0])
    assert "0 rows" in repr(explanation()[:0])


def test_json_round_trip(tmp_path):
    e = explanation()
    text = e.to_json(tmp_path / "e.json")
    for back in (Explanation.from_json(text), Explanation.from_json(tmp_path / "e.json")):
        assert torch.equal(back.weights, e.weights)
        assert torch.equal(back.probs, e.probs)
        assert torch.equal(back.present, e.present)
        assert torch.equal(back.check.agreement, e.check.agreement)
        assert back.values.tolist() == e.values.tolist()
        assert (back.names, back.classes, back.method) == (e.names, e.classes, e.method)
    assert Explanation.from_json(explanation(check=False)[:0].to_json()).weights.shape == (0, 3, 2)


names = st.text(max_size=8)
cells = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=8)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_json_round_trip_of_anything(data):
    b, d, c = (data.draw(st.integers(low, 4)) for low in (0, 1, 2))
    weights = torch.tensor(data.draw(st.lists(st.floats(-1e6, 1e6, width=32), min_size=b * d * c, max_size=b * d * c)))
    values = np.empty((b, d), dtype=object)
    for i in range(b):
        for j in range(d):
            values[i, j] = data.draw(cells)
    e = Explanation(
        weights=weights.float().reshape(b, d, c),
        probs=torch.full((b, c), 1 / c),
        base=torch.zeros(c),
        present=torch.tensor(data.draw(st.lists(st.booleans(), min_size=b * d, max_size=b * d)), dtype=torch.bool).reshape(b, d),
        names=tuple(data.draw(st.lists(names, min_size=d, max_size=d))),
        values=values,
        classes=tuple(data.draw(st.lists(names, min_size=c, max_size=c))),
        method="any",
    )
    text = e.to_json()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    back = Explanation.from_json(text)
    assert torch.equal(back.weights, e.weights)
    assert (back.names, back.classes) == (e.names, e.classes)
    assert back.to_json() == text
    assert repr(back)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": "other", "version": 1}', '{"format": "aimwise-explanation", "version": 1}', "3"],
)
def test_other_json_is_refused(text):
    with pytest.raises(BadFile):
        Explanation.from_json(text)


def test_a_damaged_record_is_refused():
    record = json.loads(explanation().to_json())
    for key, value in (("weights", [1.0]), ("names", ["a"]), ("version", 99), ("present", "x"), ("values", [[1]])):
        with pytest.raises((BadFile, BadSetting)):
            Explanation.from_json(json.dumps(record | {key: value}))


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda e: e.top(3), BadSetting, r"has 2. Pick one: explanation\[0\]"),
        (lambda e: e[0].top(3, target="maybe"), UnknownName, "no class 'maybe'"),
        (lambda e: e[0].top(3, target=7), UnknownName, "no class number 7"),
        (lambda e: e[0].top(3, by="magic"), BadSetting, "by='magic'"),
        (lambda e: e.chosen(-1), BadSetting, "k=-1"),
    ],
)
def test_misuse_is_named(use, error, message):
    with pytest.raises(error, match=message):
        use(explanation())


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(BadSetting, match="do not fit"):
        Explanation(
            weights=torch.zeros(2, 3, 2),
            probs=torch.zeros(2, 2),
            base=torch.zeros(2),
            present=torch.ones(2, 3, dtype=torch.bool),
            names=("a", "b"),
            values=np.zeros((2, 3)),
            classes=("x", "y"),
            method="m",
        )


def test_page_is_written(tmp_path):
    path = explanation().to_html(tmp_path / "why.html", truth=[1, 1])
    page = path.read_text(encoding="utf-8")
    assert "<html" in page
    assert "by hand" in page


def test_a_number_that_is_also_a_name_must_be_said_as_a_string():
    e = Explanation(**(explanation().__dict__ | {"classes": ("1", "2")}))
    with pytest.raises(UnknownName, match="Pass the name as a string"):
        e[0].top(1, target=1)
    assert e[0].top(1, target="1") == explanation()[0].top(1, target=0)
    with pytest.raises(BadSetting, match="a class number for each of 2 rows"):
        e.towards(torch.tensor([0]))


def test_json_is_read_from_a_path_given_as_text(tmp_path):
    explanation().to_json(str(tmp_path / "why.json"))
    assert len(Explanation.from_json(str(tmp_path / "why.json"))) == 2


def test_an_explanation_of_one_class_says_so_and_can_be_drawn(tmp_path):
    whole = explanation()
    one = replace(whole, only=whole.prediction)
    assert one[0].top(2) == whole[0].top(2)
    with pytest.raises(SingleClass, match="by hand explained row 0 for 'yes' alone"):
        one[0].top(2, target="no")
    assert "the predicted one alone" in repr(one)
    assert set(one.to_frame()["class"]) <= {one.classes[c] for c in one.prediction.tolist()}
    assert torch.equal(Explanation.from_json(one.to_json()).only, one.only)
    assert "explains the predicted class alone" in one.to_html(tmp_path / "one.html").read_text(encoding="utf-8")
    assert one._repr_html_()
    one.show()
