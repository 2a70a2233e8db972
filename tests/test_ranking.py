"""Orders of features that an additive explanation of several classes implies."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from aimwise import Explanation, ranking
from aimwise.errors import BadSetting
from aimwise.metrics.ablation import both_orders


def case(rows=40, d=7, classes=4, seed=0, absent=0.2):
    rng = torch.Generator().manual_seed(seed)
    W = torch.randn(rows, d, classes, generator=rng)
    present = torch.rand(rows, d, generator=rng) > absent
    present[0] = False
    present[1] = True
    start = torch.randn(rows, classes, generator=rng)
    return W, present, start, torch.randint(classes, (rows,), generator=rng)


def log_p(W, kept, start, target):
    return (start + W[kept].sum(0)).log_softmax(-1)[target]


@pytest.mark.parametrize(("rank", "sign"), [(ranking.enough, 1), (ranking.needed, -1)])
def test_each_next_feature_is_the_best_given_those_before(rank, sign):
    W, present, start, target = case()
    order = rank(W, present, start, target)
    for i in range(len(W)):
        there = int(present[i].sum())
        assert sorted(order[i].tolist()) == list(range(W.shape[1]))
        assert present[i, order[i, :there]].all()
        taken = []
        for k in range(there):
            free = [j for j in range(W.shape[1]) if present[i, j] and j not in taken]
            values = {j: sign * log_p(sign * W[i], [*taken, j], start[i], target[i]) for j in free}
            best = max(values.values())
            assert values[int(order[i, k])] == pytest.approx(float(best), abs=1e-5)
            taken.append(int(order[i, k]))


def test_two_classes_are_ranked_by_weight():
    W, present, start, target = case(classes=2)
    W = W - W.mean(-1, keepdim=True)
    wanted = ranking.by_weight(W[torch.arange(len(W)), :, target], present)
    assert torch.equal(ranking.enough(W, present, start, target), wanted)
    assert torch.equal(ranking.needed(W, present, start, target), wanted)


def test_a_feature_that_speaks_for_two_classes_gives_way_to_one_that_tells_them_apart():
    W = torch.tensor([[[3.0, 3.5, -6.5], [2.0, -3.0, 1.0], [-1.0, 0.0, 1.0]]])
    everything, start = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 3)
    target = torch.tensor([0])
    assert ranking.by_weight(W[..., 0], everything)[0].tolist() == [0, 1, 2]
    assert ranking.enough(W, everything, start, target)[0].tolist() == [1, 0, 2]


def test_greedy_sets_are_near_the_best_of_all_sets():
    W, _, start, target = case(rows=30, d=8, absent=0.0)
    present = torch.ones(30, 8, dtype=torch.bool)
    found = ranking.enough(W, present, start, target)
    plain = ranking.by_weight(W[torch.arange(30), :, target], present)
    gap, before = 0.0, 0.0
    for i in range(30):
        best = max(float(log_p(W[i], list(s), start[i], target[i])) for s in itertools.combinations(range(8), 3))
        gap += best - float(log_p(W[i], found[i, :3].tolist(), start[i], target[i]))
        before += best - float(log_p(W[i], plain[i, :3].tolist(), start[i], target[i]))
    assert gap < 0.25 * before


def test_long_inputs_are_ranked_in_groups_and_whole():
    W, present, start, target = case(rows=3, d=700)
    order = ranking.enough(W, present, start, target)
    assert all(sorted(row) == list(range(700)) for row in order.tolist())
    assert sum(ranking.group_sizes(700)) == 700
    assert len(list(ranking.group_sizes(700))) < 70
    first = ranking.enough(W[:, :32], present[:, :32], start, target)
    assert first.shape == (3, 32)


def test_no_rows_and_no_features_are_ordinary():
    none = torch.zeros(0, dtype=torch.long)
    assert ranking.enough(torch.zeros(0, 5, 3), torch.zeros(0, 5, dtype=torch.bool), torch.zeros(0, 3), none).shape == (0, 5)
    assert ranking.needed(
        torch.zeros(2, 0, 3), torch.zeros(2, 0, dtype=torch.bool), torch.zeros(2, 3), none.new_zeros(2)
    ).shape == (
        2,
        0,
    )


def explanation(scores=True):
    W = torch.tensor([[[3.0, 3.5, -6.5], [2.0, -3.0, 1.0], [-1.0, 0.0, 1.0], [9.0, 0.0, 0.0]]])
    present = torch.tensor([[True, True, True, False]])
    base, names = torch.zeros(3), ("both", "apart", "against", "absent")
    probs = (base + (W * present[..., None]).sum(1)).softmax(-1)
    values = np.array([["1", "2", "3", "4"]], dtype=object)
    return Explanation(W, probs, base, present, names, values, ("a", "b", "c"), "made", scores=scores)


def test_scores_are_ranked_together_and_other_weights_alone():
    told, plain = explanation(), explanation(scores=False)
    assert told.order("a")[0].tolist() == [1, 0, 2, 3]
    assert told.order("a", by="weight")[0].tolist() == plain.order("a")[0].tolist() == [0, 1, 2, 3]
    assert plain.order("a", by="needed")[0].tolist() == [0, 1, 2, 3]
    assert told.chosen(1, "a").tolist() == [[0, 1, 0, 0]]
    assert [name for name, _ in told.top(1, target="a")] == ["apart"]
    assert [name for name, _ in told.top(2, target="a")] == ["both", "apart"]  # the same two, by weight
    assert told.ranks()[0, :, 0].tolist() == [2, 1, 3, 4]
    frame = told.to_frame()
    assert frame[frame["class"] == "a"].set_index("feature")["rank"].to_dict() == {"apart": 1, "both": 2, "against": 3}
    with pytest.raises(BadSetting, match="by='loud', wanted one of 'enough', 'needed', 'weight', 'size'"):
        told.order(by="loud")


def test_what_is_needed_starts_from_the_sum_of_all_weights():
    told = explanation()
    whole = told.base + told.weights[0, :3].sum(0)
    left = {j: float((whole - told.weights[0, j]).log_softmax(-1)[0]) for j in range(3)}
    assert told.order("a", by="needed")[0, 0] == min(left, key=left.get) == 1
    surer = replace(told, probs=torch.tensor([[0.001, 0.001, 0.998]]))  # the model's answer, from which they may be far
    assert torch.equal(surer.order("a", by="needed"), told.order("a", by="needed"))
    kept, gone = both_orders(told, "b")
    assert torch.equal(kept, told.order("b", by="enough"))
    assert torch.equal(gone, told.order("b", by="needed"))


def test_a_record_keeps_how_it_is_ranked():
    assert Explanation.from_json(explanation().to_json()).scores
    assert not Explanation.from_json(explanation(scores=False).to_json()).scores
    assert explanation()[:1].scores
