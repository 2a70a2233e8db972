"""The black boxes that are explained, each with the inputs to learn from and to explain, and the sha256 of its weights.

In full they are the paper's, from the cache or trained. The quick ones for texts are small CNNs trained on a few thousand texts
of 48 words; they are kept in the cache too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimwise.blackbox import BlackBox, SklearnBox, TorchBox
from aimwise.blackbox.modules import place_of
from aimwise.data import Dataset, Split, load, store, zoo
from aimwise.data.readers import Reader, Vocabulary, train_reader
from aimwise.data.trained import CONFIG, Trained, learn
from aimwise.device import resolve_device
from aimwise.errors import extra
from aimwise.features import Columns, Features, Patches, Pixels, Tokens
from aimwise.files import read_json
from aimwise.study.locks import made_once
from aimwise.training import Plan

TEXTS = ("imdb", "hatexplain", "ag_news")
IMAGES = ("mnist3", "fashion3")
TABLES = ("admission", "adult")
CLEAN = {  # as people call them
    "imdb": "IMDB",
    "hatexplain": "HateXplain",
    "ag_news": "AG News",
    "mnist3": "MNIST 0, 1, 2",
    "fashion3": "Fashion-MNIST, T-shirt, Trouser, Pullover",
    "admission": "Admission",
    "adult": "Adult",
}
READER_EPOCHS = {"imdb": 6, "ag_news": 8, "hatexplain": 25}  # at most; the best one by the dev part is kept
ROWS, GPU_ROWS = 1024, 2048  # texts that a network is asked about at once
GPU_TRACED = 1 << 18  # words at once where gradients are wanted
QUICK_TEXTS, QUICK_DEV, QUICK_LENGTH, QUICK_EPOCHS = 6000, 1000, 48, 6
QUICK_LEARNED = 1500  # texts that explainers learn from


@dataclass(frozen=True, eq=False)
class Task:
    """A black box, the inputs to learn from and to explain, their features, and how well the black box does."""

    box: BlackBox
    data: Dataset
    train: Any
    test: Any
    features: Features
    sha256: str
    accuracy: float
    network: str
    reader: Reader | None = None

    def filled(self, fill: str) -> Features:
        """Features with another fill."""
        return replace(self.features, fill=fill)  # type: ignore[type-var]


@cache
def task(data: str, scale: str, features: str = "") -> Task:
    """The black box for a data set; features: "pixels" or "patches" for images."""
    if data in TEXTS:
        return text_task(data, scale)
    return image_task(data, features) if data in IMAGES else table_task(data)


def weights(data: str, scale: str) -> str:
    """The sha256 of the weights of a data set's black box, which is trained if it is not there yet."""
    if data in TABLES:
        return task(data, scale).sha256
    folder = home(data, scale)
    if not (folder / CONFIG).is_file():
        network(data, scale)
    return str(read_json(folder / CONFIG)["sha256"])


def network(data: str, scale: str) -> Trained:
    """A data set's network, from the cache or trained."""
    if scale == "quick" and data in TEXTS:
        return small_reader(data)
    return zoo.kept(data, epochs=READER_EPOCHS.get(data)).network


def home(data: str, scale: str) -> Path:
    """The folder that keeps a data set's network, or will."""
    if scale == "quick" and data in TEXTS:
        return store.home() / "zoo" / f"{data}-quick"
    epochs = READER_EPOCHS.get(data)
    return zoo.found(data, epochs=epochs) or zoo.folder(data, epochs=epochs)


def text_task(name: str, scale: str) -> Task:
    """A network that reads texts as ids."""
    torch.set_num_threads(1)
    data, sha, found = load(name), weights(name, scale), network(name, scale)
    assert isinstance(found, Reader)
    if scale == "quick":
        data = replace(data, train=first(data.train, QUICK_LEARNED))
    box, place = reading(found), next(found.module.parameters()).device
    train, test = (found.encode(part.inputs).to(place) for part in (data.train, data.test))
    words = Tokens(words=list(found.vocabulary.words))
    return Task(box, data, train, test, words, sha, found.test_accuracy, found.network, found)


def reading(reader: Reader) -> TorchBox:
    """A network that reads texts as a black box over ids."""
    box = TorchBox(reader.module, output="logits", class_names=reader.classes)
    box.rows_per_call = ROWS
    if place_of(reader.module).is_cuda:
        box.rows_per_call, box.traced_per_call = GPU_ROWS, GPU_TRACED
    return box


def small_reader(name: str) -> Reader:
    """The quick black box for texts, from the cache or trained."""
    folder = home(name, "quick")
    if (folder / CONFIG).is_file():
        return Reader.load(folder)
    made = small_reader_of(load(name))
    made.save(folder)
    return made


def mistaught(name: str, scale: str) -> TorchBox:
    """A data set's network for texts, trained on shuffled labels; from the cache, or trained by one of several processes."""
    place, folder = resolve_device("auto"), store.home() / "zoo" / f"{name}-{scale}-shuffled"

    def make() -> None:
        data = load(name)
        labels = np.random.default_rng(0).permutation(data.train.labels)
        data = replace(data, train=Split(data.train.inputs, labels))
        quick = scale == "quick"
        made = small_reader_of(data) if quick else train_reader(data, device=str(place), epochs=READER_EPOCHS[name])
        made.save(folder)

    made_once(folder / CONFIG, make)
    found = Reader.load(folder)
    found.module.to(place)
    return reading(found)


def small_reader_of(data: Dataset) -> Reader:
    """A small network trained on a few thousand texts."""
    data = replace(data, train=first(data.train, QUICK_TEXTS), dev=data.dev and first(data.dev, QUICK_DEV))
    config = {"length": QUICK_LENGTH, "words": Vocabulary.learn(data.train.inputs, min_count=3).words[2:]}
    new = partial(Reader._build, "small_cnn", data.classes, config)
    return learn(new, data, Plan(epochs=QUICK_EPOCHS, batch_size=50, lr=2e-3), seed=0, device="cpu", epochs=None)


def image_task(name: str, features: str) -> Task:
    """A network that sees images, which are taken away to black, as in the paper."""
    torch.set_num_threads(1)
    data, kept = load(name), network(name, "")
    box = TorchBox(kept.module, output="logits", class_names=data.classes)
    kind = Pixels(fill="zero") if features == "pixels" else Patches(7, fill="zero")
    return Task(box, data, data.train.inputs, data.test.inputs, kind, weights(name, ""), kept.test_accuracy, kept.network)


def table_task(name: str) -> Task:
    """A model of scikit-learn over a table."""
    torch.set_num_threads(1)
    data = load(name)
    model = zoo.BOXES[name](data)
    sha = by_making(model, data)
    kind = {"admission": "random forest", "adult": "logistic regression"}[name]
    box = SklearnBox(model, class_names=data.classes)
    return Task(box, data, data.train.inputs, data.test.inputs, Columns(fill="mean"), sha, zoo.accuracy(model, data.test), kind)


def by_making(model: zoo.Classifier, data: Dataset) -> str:
    """What a model that has no file of weights is known by: the sha256 of its settings and of what it was trained on.

    Not of its answers, whose last digits are a processor's own.
    """
    pd = extra("pandas", "table")
    sklearn = import_module("sklearn")
    settings = re.sub(r" at 0x[0-9a-f]+", "", repr(model))
    rows = pd.util.hash_pandas_object(data.train.inputs).to_numpy().tobytes()
    labels = np.asarray(data.train.labels, dtype=np.int64).tobytes()
    return hashlib.sha256(f"{settings}, scikit-learn {sklearn.__version__}".encode() + rows + labels).hexdigest()


def first(split: Split, rows: int) -> Split:
    """The first rows of a part."""
    return Split(split.inputs[:rows], split.labels[:rows])


def labels(found: Task, rows: Sequence[int]) -> list[str]:
    """The true classes of test inputs."""
    return [found.data.classes[int(found.data.test.labels[i])] for i in rows]
