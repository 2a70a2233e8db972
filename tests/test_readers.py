"""The paper's text black boxes: vocabulary, networks, training and files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aimwise.data import Dataset, Split
from aimwise.data.readers import NETWORKS, Reader, Vocabulary, train_reader
from aimwise.errors import BadFile, UnknownName


def toy(name="ag_news", rows=240):
    rng = np.random.default_rng(0)
    words = [
        ["goal", "coach", "match"],
        ["stock", "market", "profit"],
        ["planet", "robot", "chip"],
        ["treaty", "minister", "vote"],
    ]
    labels = rng.integers(0, 4, rows)
    texts = [" ".join(rng.permutation([*rng.choice(words[c], 3), *rng.choice(["the", "a", "of", "in"], 9)])) for c in labels]
    part = Split(texts, labels.astype(np.int64))
    return Dataset(name, part, part, ("sports", "business", "science", "world"), "toy")


def test_vocabulary_by_hand():
    vocabulary = Vocabulary.learn(["B a a, A", "b zzz"], min_count=2)
    assert vocabulary.words == ("<pad>", "<unk>", "a", "b")
    assert vocabulary.encode(["A b never", ""], 4).tolist() == [[2, 3, 1, 0], [0, 0, 0, 0]]
    assert vocabulary.encode(["a a a a a"], 2).tolist() == [[2, 2]]


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_read_ids_and_come_back_from_disk(network, tmp_path):
    vocabulary = Vocabulary(["a", "b", "c"])
    module = NETWORKS[network](5, 3).eval()
    reader = Reader(network, 12, vocabulary, module, ("x", "y", "z"), 0.5)
    ids = reader.encode(["a b c a", "c"])
    back = Reader.load(reader.save(tmp_path / "reader"))
    with torch.no_grad():
        assert module(ids).shape == (2, 3)
        torch.testing.assert_close(back.module(back.encode(["a b c a", "c"])), module(ids))
    assert (back.classes, back.accuracy, back.length) == (("x", "y", "z"), 0.5, 12)


def test_training_learns_and_is_the_same_for_a_seed():
    first, second = (train_reader(toy(), epochs=3, seed=1) for _ in range(2))
    assert first.accuracy > 0.9
    assert first.accuracy == second.accuracy
    assert not first.module.training


def test_unknown_sets_and_damaged_files_are_named(tmp_path):
    with pytest.raises(UnknownName, match="text black box 'wine'"):
        train_reader(toy("wine"))
    (tmp_path / "reader.json").write_text('{"format": "other"}')
    with pytest.raises(BadFile):
        Reader.load(tmp_path)
