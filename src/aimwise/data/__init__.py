"""Data sets by name: files are checked against their sha256, choices are written in `Dataset.note`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aimwise.data import images, tables, texts
from aimwise.data.base import Dataset as Dataset
from aimwise.data.base import Split as Split
from aimwise.errors import unknown

DATASETS: dict[str, Callable[[], Dataset]] = {
    "adult": tables.adult,
    "admission": tables.admission,
    "california_housing": tables.california_housing,
    "breast_cancer": tables.breast_cancer,
    "wine": tables.wine,
    "planted": tables.planted,
    "imdb": texts.imdb,
    "ag_news": texts.ag_news,
    "hatexplain": texts.hatexplain,
    "hatexplain3": partial(texts.hatexplain, classes=3),
    "sst2": texts.sst2,
    "mnist": images.mnist,
    "mnist3": partial(images.mnist, classes=3),
    "fashion_mnist": images.fashion_mnist,
    "fashion3": partial(images.fashion_mnist, classes=3),
    "digits": images.digits,
}


def load(name: str) -> Dataset:
    """The data set of that name, with its default choices."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]()
