"""Krippendorff's alpha, intervals and tests of the human study, against published figures, laws and simulated people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aimwise.human.agreement import alpha
from aimwise.human.intervals import Share, chance, difference, holm, interval, over_items, paired

N = math.nan
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units.
FOUR = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
# Three coders and fifteen units, most of them seen by two: the example by which alpha is usually shown.
THREE = [
    [N, N, N, N, N, 3, 4, 1, 2, 1, 1, 3, 3, N, 3],
    [1, N, 2, 1, 3, 3, 4, 3, N, N, N, N, N, N, N],
    [N, N, 2, 1, 3, 4, 4, N, 2, 1, 1, 3, 3, N, 4],
]
# Section A of the same paper: two observers, ten units, two values.
TWO = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize(("answers", "printed"), [(FOUR, 0.743), (THREE, 0.691), (TWO, 0.095)])
def test_alpha_is_what_is_printed(answers, printed):
    assert alpha(np.array(answers, dtype=float)) == pytest.approx(printed, abs=6e-4)


def slow_alpha(answers):
    """The same from its definition: observed over expected disagreement, pair by pair."""
    columns = [[v for v in column if not math.isnan(v)] for column in answers.T]
    columns = [c for c in columns if len(c) > 1]
    values = [v for c in columns for v in c]
    n = len(values)
    seen = sum(sum(a != b for a in c for b in c) / (len(c) - 1) for c in columns) / n
    expected = sum(a != b for a in values for b in values) / (n * (n - 1))
    return 1 - seen / expected


grids = st.tuples(st.integers(2, 5), st.integers(1, 7)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from([N, -1.0, 0.0, 1.0, 2.0]), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    ).map(np.array)
)


@settings(deadline=None, max_examples=150)
@given(grids, st.randoms(use_true_random=False))
def test_alpha_has_its_laws(answers, rng):
    found = alpha(answers)
    known = answers[:, (~np.isnan(answers)).sum(0) >= 2]
    values = set(known[~np.isnan(known)].tolist())
    if len(values) < 2:
        assert math.isnan(found)
        return
    assert found == pytest.approx(slow_alpha(answers))
    assert found <= 1 + 1e-12
    people, items = list(range(len(answers))), list(range(answers.shape[1]))
    rng.shuffle(people)
    rng.shuffle(items)
    names = {-1.0: 7.0, 0.0: 3.0, 1.0: 5.0, 2.0: 4.0}
    renamed = np.vectorize(lambda v: names.get(v, N))(answers)
    nobody = np.vstack([answers, np.full(answers.shape[1], N)])
    alone = np.column_stack([answers, [9.0] + [N] * (len(answers) - 1)])  # an item with one answer tells nothing
    for other in (answers[people][:, items], renamed, nobody, alone):
        assert alpha(other) == pytest.approx(found)
    assert (
        alpha(np.repeat(answers[:1], 3, axis=0)) in (1.0, pytest.approx(1.0)) or len(set(answers[0][~np.isnan(answers[0])])) < 2
    )


def test_alpha_is_about_zero_for_guesses():
    answers = np.random.default_rng(0).integers(0, 3, (30, 400)).astype(float)
    assert abs(alpha(answers)) < 0.02


def people_and_items(rng, people, items, *, person, item, base):
    """Answers where people and items both differ: right with a probability that depends on both."""
    scores = base + person * rng.normal(size=(people, 1)) + item * rng.normal(size=(1, items))
    return Share(rng.random((people, items)) < 1 / (1 + np.exp(-scores)), np.ones((people, items), dtype=bool))


@pytest.mark.parametrize(
    ("people", "items", "person", "item"),
    [(30, 50, 0.0, 0.0), (30, 50, 0.8, 0.0), (30, 50, 0.0, 1.5), (20, 30, 0.7, 1.2), (6, 12, 0.5, 1.0)],
)
def test_intervals_cover_the_truth_about_as_often_as_they_say(people, items, person, item):
    rng = np.random.default_rng(0)
    truth = people_and_items(rng, 2500, 2500, person=person, item=item, base=1.5).value
    found = [interval(people_and_items(rng, people, items, person=person, item=item, base=1.5)) for _ in range(400)]
    covered = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.915 <= covered <= 0.995, covered
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in found)


def test_intervals_know_that_items_are_not_independent_of_each_other():
    rng = np.random.default_rng(0)
    same = people_and_items(rng, 30, 50, person=0.0, item=2.5, base=1.0)
    wide, narrow = interval(same), interval(people_and_items(rng, 30, 50, person=0.0, item=0.0, base=1.0))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_where_all_are_right_there_is_still_an_interval():
    all_right = Share(np.ones((5, 8), dtype=bool), np.ones((5, 8), dtype=bool))
    found = interval(all_right)
    assert found.value == found.high == 1.0
    assert 0.3 < found.low < 0.7
    one = Share(np.ones((1, 8), dtype=bool), np.ones((1, 8), dtype=bool))
    assert math.isnan(interval(one).low)
    assert interval(one).value == 1.0
    assert math.isnan(interval(Share(np.zeros((0, 8), dtype=bool), np.zeros((0, 8), dtype=bool))).value)
    assert over_items(one).low == pytest.approx(8 / (8 + 2.3646**2), abs=1e-3)


def test_accuracy_is_the_mean_over_participants_of_what_they_decided():
    hit = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    counted = np.array([[1, 1, 1, 0], [1, 0, 0, 0]], dtype=bool)
    share = Share(hit, counted)
    assert share.value == pytest.approx((2 / 3 + 1) / 2)
    assert share.pull().sum() == pytest.approx(0)
    nudged = share.pull()[0, 2] * -1  # the answer that was wrong
    assert nudged > 0


def share_of(rows):
    made = np.array(rows, dtype=bool)
    return Share(made, np.ones_like(made))


def test_the_paired_test_is_exact_where_it_can_be():
    better, worse = share_of(np.ones((3, 4))), share_of(np.zeros((3, 4)))
    found = paired(better, worse)
    assert found.exact
    assert found.people == pytest.approx(2 / 2**3)
    assert found.items == pytest.approx(2 / 2**4)
    assert found.p == found.people
    same = paired(better, better)
    assert same.p == 1.0


def test_the_paired_test_holds_its_level_where_items_decide():
    # Method and item interact: the words of one method are good for one item and bad for another, for all participants alike.
    rng, wrong, naive = np.random.default_rng(1), 0, 0
    for _ in range(100):
        item = 1.2 + rng.normal(0, 1.5, (2, 1, 20))
        answers = rng.random((2, 16, 20)) < 1 / (1 + np.exp(-item))
        found = paired(share_of(answers[0]), share_of(answers[1]))
        wrong += found.p < 0.05
        naive += found.people < 0.05
    assert wrong / 100 < 0.09
    assert naive / 100 > 0.2  # participants alone would call chance a finding


def test_the_paired_test_finds_a_difference_that_is_there():
    rng = np.random.default_rng(2)
    found = paired(share_of(rng.random((20, 40)) < 0.9), share_of(rng.random((20, 40)) < 0.6))
    assert found.p < 0.001
    assert not found.exact
    gap = difference(share_of(rng.random((20, 40)) < 0.9), share_of(rng.random((20, 40)) < 0.6))
    assert gap.low > 0.15
    assert gap.low < 0.3 < gap.high


def test_no_participant_saw_both_methods():
    none = Share(np.zeros((2, 3), dtype=bool), np.zeros((2, 3), dtype=bool))
    assert math.isnan(paired(none, none).p)
    assert chance(lambda swap: np.zeros(len(swap)), 0, 0) == 1.0


def test_holm_corrects_upwards_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    mixed = holm([math.nan, 0.02])
    assert math.isnan(mixed[0])
    assert mixed[1] == 0.02
