"""The paper's black boxes over texts: vocabulary, tokenizer, training and files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aimwise.blackbox import as_blackbox
from aimwise.data import Dataset, Split
from aimwise.data.networks import TEXT_NETWORKS, BiGRU, WordCNN
from aimwise.data.readers import RECIPES, Reader, Vocabulary, train_reader
from aimwise.errors import BadFeatures, UnknownName
from aimwise.study.paper import boxes


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


def reader(network="word_cnn", words=("a", "b", "c"), length=12):
    torch.manual_seed(0)
    return Reader._build(network, ("x", "y", "z"), {"length": length, "words": words})


def test_vocabulary_by_hand():
    vocabulary = Vocabulary.learn(["B a a, A", "b zzz"], min_count=2)
    assert vocabulary.words == ("<pad>", "<unk>", "a", "b")
    assert vocabulary.encode(["A b never", ""], 4).tolist() == [[2, 3, 1, 0], [0, 0, 0, 0]]
    assert vocabulary.encode(["a a a a a"], 2).tolist() == [[2, 2]]
    assert Vocabulary([]).encode(["a b"], 3).tolist() == [[1, 1, 0]]
    assert vocabulary.encode([], 3).shape == (0, 3)


def test_the_tokenizer_by_hand():
    made = reader(length=4).tokenizer(["Zoo,  a B", "", "c c c c c c"])
    assert made["input_ids"].tolist() == [[1, 1, 2, 3], [0, 0, 0, 0], [4, 4, 4, 4]]
    places = [[[0, 3], [3, 4], [6, 7], [8, 9]], [[0, 0]] * 4, [[0, 1], [2, 3], [4, 5], [6, 7]]]
    assert made["offset_mapping"].tolist() == places
    assert {v.dtype for v in made.values()} == {torch.int64}


TEXT = st.text(st.sampled_from("abc ABC,.'\u00e9\u0301\u4e2d\n"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=5))
def test_the_tokenizer_says_where_each_id_stands(texts):
    words = ("a", "b", "c", "ab", ",", "\u4e2d")
    one = reader(words=words, length=9)
    made = one.tokenizer(texts)
    assert torch.equal(made["input_ids"], one.encode(texts))
    assert made["offset_mapping"].shape == (len(texts), 9, 2)
    for text, ids, places in zip(texts, made["input_ids"].tolist(), made["offset_mapping"].tolist(), strict=True):
        for i, (start, end) in zip(ids, places, strict=True):
            word = text[start:end].lower()
            assert word == "" if i == 0 else word not in words and word if i == 1 else word == one.vocabulary.words[i]


@pytest.mark.parametrize("network", TEXT_NETWORKS)
def test_networks_read_ids_and_come_back_from_disk(network, tmp_path):
    made = reader(network)
    made.module.eval()
    ids = made.encode(["a b c a", "c"])
    back = Reader.load(made.save(tmp_path / "reader"))
    with torch.no_grad():
        assert made.module(ids).shape == (2, 3)
        assert torch.equal(back.module(back.encode(["a b c a", "c"])), made.module(ids))
    assert (back.network, back.classes, back.length, back.vocabulary.words[2:]) == (network, ("x", "y", "z"), 12, ("a", "b", "c"))
    assert not back.module.training


def test_a_reader_is_a_black_box_over_texts():
    made = reader()
    made.module.train()
    texts = ["a b", "", "c " * 30] * 300
    probs = made(texts)
    with torch.no_grad():
        torch.testing.assert_close(probs, made.module.eval()(made.encode(texts)).softmax(1))
    assert made([]).shape == (0, 3)
    torch.testing.assert_close(as_blackbox(made, class_names=made.classes).probs(texts), probs)
    with pytest.raises(BadFeatures, match="Got one text"):
        made("a b")


def test_training_learns_and_is_the_same_for_a_seed(monkeypatch):
    monkeypatch.setitem(RECIPES, "ag_news", replace(RECIPES["ag_news"], length=16))
    made = []
    for seed in (1, 1, 2):
        torch.rand(3)  # what the global generator has done must not matter
        state = torch.get_rng_state()
        made.append(train_reader(toy(), epochs=3, seed=seed))
        assert torch.equal(torch.get_rng_state(), state)
    first, second, other = made
    assert first.accuracy == second.accuracy == first.test_accuracy > 0.9
    assert not first.module.training
    ids = first.encode(toy().test.inputs)
    with torch.no_grad():
        assert torch.equal(first.module(ids), second.module(ids))
        assert not torch.equal(first.module(ids), other.module(ids))


def test_the_papers_recipes_and_unknown_sets():
    assert {name: (recipe.network, recipe.length, recipe.plan.batch_size) for name, recipe in RECIPES.items()} == {
        "imdb": ("bigru", 400, 64),
        "ag_news": ("word_cnn", 400, 100),
        "hatexplain": ("lstm_transformer", 200, 64),
    }
    with pytest.raises(UnknownName, match="text black box 'wine'"):
        train_reader(toy("wine"))


def test_the_last_place_needs_one_step_of_the_way_back() -> None:
    torch.manual_seed(0)
    net = BiGRU(30, 2).eval()
    both = torch.nn.GRU(100, 250, batch_first=True, bidirectional=True)
    for end, part in (("", net.forth), ("_reverse", net.back)):
        for name, value in part.named_parameters():
            getattr(both, name.removesuffix("_l0") + "_l0" + end).data.copy_(value)
    x = torch.randint(1, 30, (4, 12)) * (torch.arange(12) < torch.tensor([12, 7, 3, 0])[:, None])
    with torch.no_grad():
        torch.testing.assert_close(net(x), net.head(both(net.embedding(x))[0][:, -1]))


@pytest.mark.parametrize("lengths", [(25, 7, 3), (12, 1, 0), (0, 0, 0), (17, 16, 15)])
def test_padding_behind_the_longest_text_is_read_once(lengths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = WordCNN(30, 4).eval()
    x = torch.randint(1, 30, (3, 25)) * (torch.arange(25) < torch.tensor(lengths)[:, None])
    with torch.no_grad():
        words = net.embedding(x).transpose(1, 2)
        whole = net.head(torch.cat([f(words).relu().amax(2) for f in net.filters], 1))
        torch.testing.assert_close(net(x), whole)
        for one in range(3):  # what a text is read with does not matter
            torch.testing.assert_close(net(x[one : one + 1])[0], whole[one])


def test_a_mistaught_network_is_trained_once_and_knows_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(boxes, "load", lambda name: toy(name))
    data, taught = toy(), boxes.small_reader("ag_news")
    ids, truth = taught.encode(data.test.inputs), torch.from_numpy(data.test.labels)
    right = [float((box.probs(ids).argmax(1) == truth).float().mean()) for box in (boxes.reading(taught), mistaught())]
    assert right[0] > 0.9
    assert right[1] < 0.6
    monkeypatch.setattr(boxes, "learn", None)  # it is kept
    assert torch.equal(mistaught().probs(ids), mistaught().probs(ids))


def mistaught():
    return boxes.mistaught("ag_news", "quick")
