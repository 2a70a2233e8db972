"""What features say in twos: sums by hand, orders against a slow loop, and images in which two patches count together."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import aimwise
from aimwise import Explanation, Patches, ranking
from aimwise.errors import BadSetting
from aimwise.explainers.judge import Judge
from aimwise.pairs import Pairs
from conftest import logistic
from test_ranking import case

TWO = 2  # numbers of each feature in the cases below


def some_pairs(present, classes, seed=1):
    rng = torch.Generator().manual_seed(seed)
    parts = torch.randn(*present.shape, TWO, generator=rng) * present[..., None]
    return Pairs(parts, torch.randn(len(present), TWO, classes, generator=rng))


def explained(present=None, **more):
    W, there, start, _ = case(rows=6)
    there = there if present is None else present
    pairs = some_pairs(there, W.shape[2])
    names = tuple(f"f{i}" for i in range(W.shape[1]))
    values = np.arange(W.shape[0] * W.shape[1], dtype=float).reshape(W.shape[:2]).astype(object)
    return Explanation(
        W * there[..., None],
        start.softmax(1),
        start[0],
        there,
        names,
        values,
        tuple("abcd"),
        "aim",
        scores=True,
        pairs=pairs,
        **more,
    )


def test_scores_are_sums_over_all_twos():
    pairs = Pairs(torch.tensor([[[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]]]), torch.tensor([[[1.0, -1.0], [0.5, 2.0]]]))
    z = torch.tensor([[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]])
    # kept together: (1 + 2)^2 and 1^2; then 2^2 and (1 + 3)^2; then nothing
    assert pairs.scores(z)[0].tolist() == [[9 + 0.5, -9 + 2], [4 + 8, -4 + 32], [0, 0]]
    assert torch.equal(pairs.whole(), pairs.scores(torch.ones(1, 1, 3))[:, 0])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("rank", "sign"), [(ranking.enough, 1), (ranking.needed, -1)])
def test_each_next_feature_is_the_best_given_those_before(rank, sign, classes):
    W, present, start, target = case(classes=classes)
    pairs = some_pairs(present, classes)
    everything = start + pairs.whole() if sign < 0 else start  # where the steps of `needed` begin
    order = rank(W, present, everything, target, pairs)
    for i in range(len(W)):
        there = int(present[i].sum())
        assert sorted(order[i].tolist()) == list(range(W.shape[1]))
        assert present[i, order[i, :there]].all()
        taken: list[int] = []
        for k in range(there):
            free = [j for j in range(W.shape[1]) if present[i, j] and j not in taken]
            values = {}
            for j in free:
                z = torch.zeros(W.shape[1]) if sign > 0 else present[i].float()
                z[[*taken, j]] = 1.0 if sign > 0 else 0.0
                weighed = start[i] + sign * W[i][[*taken, j]].sum(0)
                both = weighed + pairs.rows(torch.tensor([i])).scores(z[None, None])[0, 0]
                values[j] = sign * float(log_odds(both, target[i]))
            assert values[int(order[i, k])] == pytest.approx(max(values.values()), abs=1e-3)
            taken.append(int(order[i, k]))


def log_odds(scores, c):
    return scores[c] - torch.cat([scores[:c], scores[c + 1 :]]).logsumexp(0)


def test_of_two_features_that_say_the_same_one_is_enough():
    W = torch.tensor([[[2.0, 0.0], [1.9, 0.0], [1.0, 0.0]]])
    again = Pairs(torch.tensor([[[1.0], [1.0], [0.0]]]), torch.tensor([[[-1.0, 0.0]]]))  # less when both are there
    everything, start, target = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 2), torch.tensor([0])
    assert ranking.enough(W, everything, start, target)[0].tolist() == [0, 1, 2]
    assert ranking.enough(W, everything, start, target, again)[0].tolist() == [0, 2, 1]


def test_parts_joined_sliced_and_written_keep_what_they_say():
    whole = explained()
    parts = [whole[:2], whole[torch.tensor([2, 3])], whole[4:]]
    for back in (Explanation.concat(parts), Explanation.from_json(whole.to_json())):
        assert torch.equal(back.pairs.parts, whole.pairs.parts)
        assert torch.equal(back.pairs.forms, whole.pairs.forms)
        for by in ("enough", "needed"):
            assert torch.equal(back.order(by=by), whole.order(by=by))
    assert Explanation.concat([whole[:2], from_version_3(whole)]).pairs is None


def from_version_3(explanation):
    """As the version before wrote it, which knew no pairs."""
    record = json.loads(explanation.to_json())
    del record["pairs"]
    return Explanation.from_json(json.dumps({**record, "version": 3}))


def test_older_records_are_read():
    assert from_version_3(explained()).pairs is None


def test_pairs_that_do_not_fit_are_refused():
    whole = explained()
    parts, forms = whole.pairs.parts, whole.pairs.forms
    for other in (Pairs(parts[:3], forms[:3]), Pairs(parts[:, :3], forms), Pairs(parts, forms[..., :2])):
        with pytest.raises(BadSetting, match="do not fit pairs of parts"):
            replace(whole, pairs=other)


LEFT, RIGHT = (0, 5), (10, 15)  # of the sixteen patches of an image: two that count together, and two others


def both_or_both(images):
    """Yes where the first two patches are bright together, or the other two are."""
    stack = np.asarray(images, dtype=float)
    cells = stack.reshape(len(stack), 4, 2, 4, 2).mean((2, 4)).reshape(len(stack), 16) / 255
    together = [cells[:, a] * cells[:, b] for a, b in (LEFT, RIGHT)]
    return logistic(6 * np.maximum(*together) - 3)


def images(n, seed):
    rng = np.random.default_rng(seed)
    bright = rng.random((n, 4, 4)) < 0.7
    return (255 * bright.repeat(2, 1).repeat(2, 2)).astype(np.uint8)


@pytest.fixture(scope="module")
def fitted():
    return {pairs: aimwise.AIM(pairs=pairs).fit(both_or_both, images(1500, 0), features=Patches(2)) for pairs in (16, 0)}


def everything_bright(n=8):
    return np.full((n, 8, 8), 255, dtype=np.uint8) - np.arange(n, dtype=np.uint8)[:, None, None]


def test_patches_that_count_together_are_chosen_together(fitted):
    two = [set(row) for row in fitted[16].explain(everything_bright()).order(1)[:, :2].tolist()]
    assert all(pair in ({*LEFT}, {*RIGHT}) for pair in two)
    best = fitted[16].history_[fitted[16].best_epoch_]
    assert best["in_twos"] > best["agreement"] + 0.002
    assert "in_twos" not in fitted[0].history_[0]
    assert fitted[0].explain(everything_bright()).pairs is None


def test_both_pairs_must_go(fitted):
    four = fitted[16].explain(everything_bright()).order(1, by="needed")[:, :2].tolist()
    for a, b in four:  # one of each, since either pair is enough
        assert len({a, b} & {*LEFT}) == len({a, b} & {*RIGHT}) == 1


def test_weights_are_those_that_are_learned_without(fitted):
    one, other = (fitted[pairs].explain(images(20, 1)).weights for pairs in (16, 0))
    assert torch.equal(one, other)


def test_saved_and_loaded_ranks_alike(fitted, tmp_path):
    inputs = images(20, 1)
    fitted[16].save(tmp_path / "it")
    back = aimwise.load(tmp_path / "it", both_or_both).explain(inputs)
    there = fitted[16].explain(inputs)
    torch.testing.assert_close(back.pairs.parts, there.pairs.parts)
    assert torch.equal(back.order(), there.order())


def test_what_held_out_answers_do_not_bear_out_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(Judge, "agreement", lambda self, scores, *, hard: 0.5)
    explainer = aimwise.AIM(epochs=1).fit(both_or_both, images(100, 0), features=Patches(2))
    assert explainer.explain(images(3, 1)).pairs is None
    explainer.save(tmp_path / "it")
    assert aimwise.load(tmp_path / "it", both_or_both).explain(images(3, 1)).pairs is None


def test_many_features_are_ranked_by_weights_alone():
    shown = images(40, 0).repeat(3, 1).repeat(3, 2)  # 24 by 24
    explainer = aimwise.AIM(epochs=1).fit(lambda x: both_or_both(x[:, ::3, ::3]), shown, features=aimwise.Pixels())
    assert explainer.explain(shown[:3]).pairs is None


def test_segments_that_are_not_there_say_nothing():
    labels = np.arange(16).reshape(4, 4).repeat(2, 0).repeat(2, 1)
    kept = aimwise.Segments(by=lambda image: labels if image[0, 0] > 0 else np.minimum(labels, 9))
    explainer = aimwise.AIM(epochs=8).fit(both_or_both, images(400, 0), features=kept)
    found = explainer.explain(images(10, 1))
    assert found.pairs is not None
    assert (found.pairs.parts[~found.present] == 0).all()
    assert (~found.present).any()


def test_fewer_than_none_are_refused():
    with pytest.raises(BadSetting, match="pairs=-1"):
        aimwise.AIM(pairs=-1).fit(both_or_both, images(40, 0), features=Patches(2))
