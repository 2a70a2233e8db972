"""Token ids: masks in place and packed, and a torch model over ids explained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import aimwise
from aimwise import Tokens
from aimwise.errors import BadFeatures, BadSetting, UnknownName

IDS = torch.tensor([[5, 3, 4, 0, 0], [2, 2, 1, 3, 0]])


def masked(fill, z, token=None):
    features = Tokens(fill=fill, token=token).fit(IDS)
    return features.dim(features.encode(IDS), torch.tensor(z, dtype=torch.float32), torch.Generator()).tolist()


def test_masks_by_hand():
    z = [[1, 0, 1, 1, 1], [0, 1, 0, 1, 0]]
    assert masked("in_place", z) == [[5, 0, 4, 0, 0], [0, 2, 0, 3, 0]]
    assert masked("in_place", z, token=9) == [[5, 9, 4, 0, 0], [9, 2, 9, 3, 0]]
    assert masked("packed", z) == [[5, 4, 0, 0, 0], [2, 3, 0, 0, 0]]
    assert masked("in_place", np.ones((2, 5)).tolist()) == IDS.tolist()


def test_a_shorter_mask_leaves_the_padding_where_it_was():
    assert masked("in_place", [[1, 1, 0, 0], [1, 1, 1, 0]]) == [[5, 3, 0, 0, 0], [2, 2, 1, 0, 0]]
    features = Tokens().fit(IDS)
    trimmed = features.trim(features.encode(IDS))
    assert trimmed.x.shape == (2, 4)
    assert features.dim(trimmed, trimmed.present.float(), torch.Generator()).shape == (2, 5)


def test_words_are_shown_and_padding_is_not():
    features = Tokens(words=["<pad>", "a", "b", "c", "d", "e"]).fit(IDS)
    assert features.values(features.encode(IDS)).tolist() == [["e", "c", "d", "", ""], ["b", "b", "a", "c", ""]]


class Mean(nn.Module):
    """Adds up a score for every id: 7 speaks for class 1, 8 against it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 2)
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.embedding.weight[7] = torch.tensor([0.0, 3.0])
            self.embedding.weight[8] = torch.tensor([3.0, 0.0])

    def forward(self, ids):
        return self.embedding(ids).sum(1)


@pytest.mark.parametrize("fill", ["in_place", "packed"])
@pytest.mark.parametrize("make", [lambda: aimwise.AIM(epochs=8), lambda: aimwise.AIM.paper(epochs=8)], ids=["default", "paper"])
def test_a_torch_model_over_ids_is_explained(make, fill, tmp_path):
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 20, (600, 12), generator=rng)
    ids[:, 9:] *= torch.rand(600, 1, generator=rng) > 0.5
    model = Mean()
    explainer = make().fit(model, ids, features=Tokens(fill=fill))
    got = explainer.explain(ids[:100])
    for word, target in (("7", 1), ("8", 0)):
        rows = [i for i in range(100) if word in got.values[i]]
        tops = [got[i].top(1, target=target)[0][0] for i in rows]
        assert np.mean([t == word for t in tops]) > 0.9
    assert (got.weights[~got.present] == 0).all()
    back = aimwise.load(explainer.save(tmp_path / "x"), model)
    assert torch.equal(back.explain(ids[:100]).weights, got.weights)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: Tokens().fit(torch.rand(3, 4)), BadFeatures, "whole numbers"),
        (lambda: Tokens().fit(torch.ones(3, dtype=torch.long)), BadFeatures, r"\(3,\)"),
        (lambda: Tokens().fit(-IDS), BadFeatures, "id -5"),
        (lambda: Tokens(fill="none").fit(IDS), UnknownName, "fill 'none'"),
        (lambda: Tokens(pad=-1).fit(IDS), BadSetting, "pad=-1"),
        (lambda: Tokens().fit(IDS).encode(IDS + 90), BadFeatures, "id 95, wanted ids below 6"),
    ],
)
def test_bad_ids_are_named(use, error, message):
    with pytest.raises(error, match=message):
        use()


def test_settings_are_checked_even_if_the_number_of_ids_is_given():
    with pytest.raises(UnknownName, match="fill 'delete'"):
        aimwise.AIM().fit(Mean(), IDS.repeat(10, 1), features=Tokens(fill="delete", ids=20))
    with pytest.raises(BadFeatures, match="words names only 2 ids"):
        Tokens(words=["a", "b"]).fit(IDS)
    with pytest.raises(BadFeatures, match="Pad the rows"):
        Tokens().fit([[1, 2], [3]])
    assert Tokens().fit(IDS.numpy().astype(np.uint16)).encode(IDS).x.shape == (2, 5)


class SixthDecides(nn.Module):
    """Words say yes or no, and the sixth of a text twenty times as loud as any other."""

    def __init__(self):
        super().__init__()
        self.says = nn.Parameter(torch.tensor([0.0, *[1.0, -1.0] * 20]))

    def forward(self, ids):
        loud = torch.full((ids.shape[1],), 0.2)
        loud[5] = 4.0
        said = (self.says[ids] * loud).sum(1)
        return torch.stack([-said, said], 1)


def test_a_word_that_counts_by_its_place_is_found():
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 41, (900, 20), generator=rng)
    lengths = torch.randint(12, 21, (900, 1), generator=rng)
    ids = torch.where(torch.arange(20) < lengths, ids, 0)
    explainer = aimwise.AIM(epochs=8).fit(SixthDecides(), ids[:800], features=aimwise.Tokens(pad=0), seed=0)
    loudest = explainer.explain(ids[800:]).order(by="size")[:, 0]
    assert (loudest == 5).float().mean() > 0.95
