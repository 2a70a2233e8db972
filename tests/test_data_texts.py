"""Texts are split as their notes say: the publishers' counts, no row in two parts, the same at every load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aimwise.data import DATASETS, Dataset, Split, catalog, load, store, texts
from aimwise.errors import BadSetting, MissingData
from test_data import needs

FOLDERS = {"imdb": "imdb", "ag_news": "ag_news", "hatexplain": "hatexplain", "hatexplain3": "hatexplain", "sst2": "sst2"}

CLASSES = {
    "imdb": ("negative", "positive"),
    "ag_news": ("World", "Sports", "Business", "Sci/Tech"),
    "hatexplain": ("normal", "hate or offensive"),
    "hatexplain3": ("normal", "offensive", "hatespeech"),
    "sst2": ("negative", "positive"),
}

ROWS = {
    "imdb": (25_000, 20_000, 5_000),
    "ag_news": (68_124, 6_080, 1_520),
    "hatexplain": (15_000, 3_383, 846),
    "hatexplain3": (15_000, 3_383, 846),
    "sst2": (6_920, 872, 1_821),
}

PUBLISHED = {  # rows of each class over all parts
    "imdb": [25_000, 25_000],
    "ag_news": [18_908, 18_925, 18_950, 18_941],
    "hatexplain": [7_814, 5_480 + 5_935],
    "hatexplain3": [7_814, 5_480, 5_935],
    "sst2": [3_310 + 428 + 912, 3_610 + 444 + 909],
}


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Dataset]:
    kept: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        needs(FOLDERS[name])
        if name not in kept:
            kept[name] = load(name)
        return kept[name]

    return get


def parts(data: Dataset) -> list[Split]:
    assert data.dev is not None
    return [data.train, data.dev, data.test]


def raw(name: str, file: str) -> pd.DataFrame:
    return catalog.read(name, file)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_data_set_of_texts_keeps_the_contract(loaded: Callable[[str], Dataset], name: str) -> None:
    data = loaded(name)
    assert data.name == name
    assert data.classes == CLASSES[name]
    assert data.note.endswith(".")
    for split in parts(data):
        assert type(split.inputs) is list
        assert {type(text) for text in split.inputs} == {str}
        assert all(text.strip() for text in split.inputs)
        assert len(split) == len(split.inputs)
        assert split.labels.dtype == np.int64
        assert np.unique(split.labels).tolist() == list(range(len(data.classes)))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_counts_are_the_published_ones(loaded: Callable[[str], Dataset], name: str) -> None:
    data = loaded(name)
    assert tuple(len(split) for split in parts(data)) == ROWS[name]
    assert np.bincount(np.concatenate([split.labels for split in parts(data)])).tolist() == PUBLISHED[name]


@pytest.mark.parametrize("name", FOLDERS)
def test_every_part_has_the_classes_in_like_shares(loaded: Callable[[str], Dataset], name: str) -> None:
    shares = [np.bincount(split.labels) / len(split) for split in parts(loaded(name))]
    for share in shares[1:]:
        np.testing.assert_allclose(share, shares[0], atol=0.03)


@pytest.mark.parametrize("name", ["imdb", "hatexplain", "sst2"])
def test_loading_twice_gives_the_same(loaded: Callable[[str], Dataset], name: str) -> None:
    for a, b in zip(parts(loaded(name)), parts(load(name)), strict=True):
        assert a.inputs == b.inputs
        np.testing.assert_array_equal(a.labels, b.labels)


# --- no row is in two parts


def test_imdb_dev_and_test_are_the_publishers_test_part(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("imdb")
    for file, split in (("train.parquet", [data.train]), ("test.parquet", [data.dev, data.test])):
        frame = raw("imdb", file)
        ours = Counter((t, y) for s in split for t, y in zip(s.inputs, s.labels.tolist(), strict=True))
        assert ours == Counter(zip(frame["text"], frame["label"].tolist(), strict=True))
    seen = set(data.train.inputs)
    assert sum(text in seen for s in (data.dev, data.test) for text in s.inputs) == 123  # as the note says


def test_imdb_is_shuffled_before_it_is_cut(loaded: Callable[[str], Dataset]) -> None:
    for split in parts(loaded("imdb")):
        assert 0.4 < split.labels[:500].mean() < 0.6
    first = loaded("imdb").train
    frame = raw("imdb", "train.parquet").set_index("text")["label"]
    assert all(frame.loc[[t]].iloc[0] == y for t, y in zip(first.inputs[:50], first.labels, strict=False))


def test_ag_news_parts_have_no_text_in_common(loaded: Callable[[str], Dataset]) -> None:
    train, dev, test = (set(split.inputs) for split in parts(loaded("ag_news")))
    assert not train & dev
    assert not train & test
    assert not dev & test
    frame = raw("ag_news", "test.parquet")
    assert loaded("ag_news").test.inputs == frame["text"].tolist()[-1_520:]


def test_hatexplain_parts_are_cut_from_the_authors_parts(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("hatexplain")
    frames = {file: raw("hatexplain", f"{file}.parquet") for file in ("train", "val", "test")}
    order = [text for frame in frames.values() for text in frame["text"]]
    assert [text for split in parts(data) for text in split.inputs] == order
    assert data.train.inputs == frames["train"]["text"].tolist()[:15_000]
    assert data.test.inputs == frames["test"]["text"].tolist()[-846:]
    assert len(set(data.train.inputs) & set(data.test.inputs)) == 3  # as the note says


def test_sst2_parts_have_next_to_no_text_in_common(loaded: Callable[[str], Dataset]) -> None:
    train, dev, test = (set(split.inputs) for split in parts(loaded("sst2")))
    assert not (train | test) & dev
    assert len(train & test) == 2  # as released, as the note says
    assert "2 of them" in loaded("sst2").note


# --- choices


def test_hatexplain_labels_follow_the_annotators(loaded: Callable[[str], Dataset]) -> None:
    two, three = loaded("hatexplain"), loaded("hatexplain3")
    votes = raw("hatexplain", "test.parquet")["labels"].tolist()[-846:]
    for vote, a, b in zip(votes, two.test.labels, three.test.labels, strict=True):
        most = Counter(vote).most_common(1)[0][0]
        assert three.classes[b] == most
        assert (two.classes[a] == "normal") == (most == "normal")


@pytest.mark.parametrize("classes", [1, 4])
def test_other_numbers_of_classes_are_refused(classes: int) -> None:
    with pytest.raises(BadSetting, match=rf"classes={classes}, wanted 2 .* or 3"):
        texts.hatexplain(classes=classes)


def test_rationales_belong_to_the_test_part(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("hatexplain")
    tokens, marks = texts.hatexplain_rationales()
    assert [" ".join(post) for post in tokens] == data.test.inputs
    assert len(marks) == len(data.test)
    for post, given, label in zip(tokens, marks, data.test.labels, strict=True):
        assert len(given) in ((2, 3) if label else (0,))
        assert all(len(one) == len(post) and set(one) <= {0, 1} for one in given)
    assert sum(any(map(any, given)) for given in marks) > 400


def test_a_rationale_longer_than_its_post_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"text": "a b", "tokens": ["a", "b"], "label": 0, "rationales": [[0, 1, 1], [1, 0]]}
    monkeypatch.setattr(texts, "HATEXPLAIN_TRAIN", 0)
    monkeypatch.setattr(texts, "read", lambda name, file: pd.DataFrame([row] * 5))
    assert texts.hatexplain_rationales() == ([["a", "b"]] * 3, [[[0, 1], [1, 0]]] * 3)


def test_phrases_are_glues_train_part(loaded: Callable[[str], Dataset]) -> None:
    sentences = loaded("sst2")
    data = texts.sst2(phrases=True)
    assert np.bincount(data.train.labels).tolist() == [29_780, 37_569]
    assert data.test.inputs == sentences.test.inputs
    assert "67,349" in data.note
    assert "67,349" not in sentences.note


# --- the registry


def test_the_registry_names_every_data_set_of_texts() -> None:
    assert set(FOLDERS) < set(DATASETS)


def test_absent_texts_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIMWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, folder in FOLDERS.items():
        with pytest.raises(MissingData, match=rf"{folder}' is not on this machine.*aimwise data get {folder}`") as caught:
            load(name)
        assert str(store.cache() / folder) in str(caught.value)
