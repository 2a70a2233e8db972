"""Data sets that are texts, as lists of strings as their publishers released them."""

from __future__ import annotations

from typing import Any

import numpy as np

from aimwise.data.base import Dataset, Split
from aimwise.data.catalog import read
from aimwise.errors import BadSetting, extra

HATEXPLAIN_TRAIN = 15_000  # the paper's size


def imdb() -> Dataset:
    """Movie reviews, negative or positive (Maas and others, 2011)."""
    train, rest = (shuffled(texts_of(read("imdb", f"{part}.parquet"))) for part in ("train", "test"))
    dev, test = last_fifth(rest)
    note = (
        "Raw reviews, '<br />' left in, without the unlabelled ones; the publishers' train part, and their test part cut into "
        "20,000 for dev and 5,000 for test as in the paper, each part first put in the order of a permutation of seed 0. The "
        "release repeats itself: 96 train and 199 test reviews are copies within their part, 123 test reviews are in train too."
    )
    return Dataset("imdb", train, test, ("negative", "positive"), note, dev=dev)


def ag_news() -> Dataset:
    """News articles by topic (Zhang and others, 2015)."""
    train = texts_of(read("ag_news", "train_partial.parquet"))
    dev, test = last_fifth(texts_of(read("ag_news", "test.parquet")))
    note = (
        "Title and description joined by a blank, raw; the 68,124-article train subset of the 120,000 of the paper, and the "
        "publishers' test part in its own order, the first 6,080 for dev and the last 1,520 for test as in the paper."
    )
    return Dataset("ag_news", train, test, ("World", "Sports", "Business", "Sci/Tech"), note, dev=dev)


def hatexplain(*, classes: int = 2) -> Dataset:
    """Posts from Twitter and Gab by the majority of three annotators (Mathew and others, 2021)."""
    if classes not in (2, 3):
        raise BadSetting(
            f"classes={classes}, wanted 2 (normal, hate or offensive) or 3 (normal, offensive, hatespeech). Pass one of them."
        )
    posts = hatexplain_posts()
    found = posts["label"].to_numpy(dtype=np.int64)  # 0 hatespeech, 1 normal, 2 offensive
    labels = (found != 1).astype(np.int64) if classes == 2 else np.array([2, 0, 1])[found]
    inputs = posts["text"].tolist()
    train = Split(inputs[:HATEXPLAIN_TRAIN], labels[:HATEXPLAIN_TRAIN])
    dev, test = last_fifth(Split(inputs[HATEXPLAIN_TRAIN:], labels[HATEXPLAIN_TRAIN:]))
    names = ("normal", "hate or offensive") if classes == 2 else ("normal", "offensive", "hatespeech")
    note = (
        "Tokens joined by blanks; the authors' train, val and test files one after the other, 19,229 posts: 15,000 for train as "
        "in the paper, then four fifths of the rest for dev (3,383) and the last fifth for test (846), so that train is cut from "
        "the authors' train file and test from their test file. The paper's 4,119 and 1,029 count the 919 posts on which all "
        "annotators differ, which are left out here. 3 texts of test are in train too."
    )
    return Dataset("hatexplain" if classes == 2 else "hatexplain3", train, test, names, note, dev=dev)


def hatexplain_rationales() -> tuple[list[list[str]], list[list[list[int]]]]:
    """The tokens of each post of hatexplain's test part, and for each annotator's rationale a 1 at the tokens it marks."""
    posts = hatexplain_posts()
    posts = posts.iloc[len(posts) - fifth(len(posts) - HATEXPLAIN_TRAIN) :]
    tokens = [list(post) for post in posts["tokens"]]
    marks = [  # one released rationale is longer than its post
        [[int(mark) for mark in one[: len(post)]] for one in given]
        for post, given in zip(tokens, posts["rationales"], strict=True)
    ]
    return tokens, marks


def sst2(*, phrases: bool = False) -> Dataset:
    """Sentences of movie reviews, negative or positive (Socher and others, 2013)."""
    train = texts_of(read("sst2", "train_phrases.parquet" if phrases else "train.parquet"))
    dev, test = (texts_of(read("sst2", f"{part}.parquet")) for part in ("validation", "test"))
    which = "GLUE's 67,349 sentences and phrases, 1 of them" if phrases else "6,920 whole sentences, 2 of them"
    note = f"Tokenised and lower-cased as released, neutral ones left out; train has {which} in test too; the publishers' split."
    return Dataset("sst2", train, test, ("negative", "positive"), note, dev=dev)


def hatexplain_posts() -> Any:
    """The posts that have a majority, in the authors' order: train, val, test."""
    pd = extra("pandas", "table")
    return pd.concat([read("hatexplain", f"{part}.parquet") for part in ("train", "val", "test")], ignore_index=True)


def texts_of(frame: Any) -> Split:
    """A table's columns text and label."""
    return Split(frame["text"].tolist(), frame["label"].to_numpy(dtype=np.int64))


def shuffled(split: Split) -> Split:
    """The same rows in the order of a permutation of seed 0."""
    order = np.random.default_rng(0).permutation(len(split))
    return Split([split.inputs[i] for i in order], split.labels[order])


def last_fifth(split: Split) -> tuple[Split, Split]:
    """The rows before the last fifth, and the last fifth, as the paper cuts dev and test."""
    first = len(split) - fifth(len(split))
    return Split(split.inputs[:first], split.labels[:first]), Split(split.inputs[first:], split.labels[first:])


def fifth(rows: int) -> int:
    """A fifth of so many rows, as a whole number."""
    return round(rows / 5)
