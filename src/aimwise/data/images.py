"""Data sets that are grey images, as arrays of unsigned bytes (n, height, width) as their publishers released them."""

from __future__ import annotations

import numpy as np

from aimwise.data.base import Dataset, Split
from aimwise.data.catalog import read
from aimwise.errors import BadSetting

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
DIGITS = tuple("0123456789")


def mnist(*, classes: int = 10) -> Dataset:
    """Handwritten digits, 28x28, all ten or the paper's 0, 1 and 2 (LeCun and others, 1998)."""
    return published("mnist", "mnist3", DIGITS, classes, train=14_000)


def fashion_mnist(*, classes: int = 10) -> Dataset:
    """Pictures of clothes, 28x28, all ten kinds or the paper's T-shirts, trousers and pullovers (Xiao and others, 2017)."""
    return published("fashion_mnist", "fashion3", FASHION, classes, train=15_000)


def published(name: str, short: str, names: tuple[str, ...], classes: int, *, train: int) -> Dataset:
    """The publishers' two parts, of all classes or the first three, the last images of their train part held out as dev."""
    if classes not in (3, 10):
        raise BadSetting(f"classes={classes}, wanted 10 (all) or 3 ({', '.join(names[:3])}). Pass one of them.")
    kept = read(name, f"{name}.npz")
    images, labels = kept["images"], kept["labels"].astype(np.int64)
    first, last = ((labels < classes) & (kept["split"] == part) for part in (0, 1))
    cut = train if classes == 3 else 55_000
    whole = Split(images[first], labels[first])
    held = len(whole) - cut
    note = (
        f"Bytes from 0 to 255 as released; the publishers' test part, and their train part in its own order, the first {cut:,} "
        f"for train and the last {held:,} for dev"
    )
    note += ": the paper's sizes, which images are whose it does not say." if classes == 3 else "."
    return Dataset(
        short if classes == 3 else name,
        Split(whole.inputs[:cut], whole.labels[:cut]),
        Split(images[last], labels[last]),
        names[:classes],
        note,
        dev=Split(whole.inputs[cut:], whole.labels[cut:]),
    )


def digits() -> Dataset:
    """Handwritten digits, 8x8, embedded in scikit-learn (Alpaydin and Kaynak, 1998)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    rest, test = train_test_split(np.arange(len(labels)), test_size=450, random_state=0, stratify=labels)
    train, dev = train_test_split(rest, test_size=300, random_state=0, stratify=labels[rest])
    note = (
        "As scikit-learn carries it, the whole numbers from 0 to 16 as bytes; stratified into 1,047 for train, 300 for dev and "
        "450 for test by train_test_split of seed 0."
    )
    parts = [Split(images[rows], labels[rows]) for rows in (train, test, dev)]
    return Dataset("digits", parts[0], parts[1], DIGITS, note, dev=parts[2])
