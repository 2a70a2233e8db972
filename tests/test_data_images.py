"""Images are split as their notes say, and are the publishers' own to the last byte."""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aimwise.data import DATASETS, Dataset, Split, catalog, images, load, store
from aimwise.data.catalog import CATALOG, FASHION_MNIST, MNIST, File, Source
from aimwise.errors import BadSetting, MissingData
from test_data import needs

FOLDERS = {"mnist": "mnist", "mnist3": "mnist", "fashion_mnist": "fashion_mnist", "fashion3": "fashion_mnist"}
ROWS = {  # train, dev, test
    "mnist": (55_000, 5_000, 10_000),
    "mnist3": (14_000, 4_623, 3_147),
    "fashion_mnist": (55_000, 5_000, 10_000),
    "fashion3": (15_000, 3_000, 3_000),
    "digits": (1_047, 300, 450),
}
TRAIN = {  # of each class, dev included
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "mnist3": [5923, 6742, 5958],
    "fashion_mnist": [6000] * 10,
    "fashion3": [6000] * 3,
}
TEST = {
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    "mnist3": [980, 1135, 1032],
    "fashion_mnist": [1000] * 10,
    "fashion3": [1000] * 3,
}
PUBLISHED = {  # the MD5 of the publishers' files, unpacked: images and labels of train, then of test
    "mnist": (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion_mnist": (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Dataset]:
    kept: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        if name in FOLDERS:
            needs(FOLDERS[name])
        if name not in kept:
            kept[name] = load(name)
        return kept[name]

    return get


def parts(data: Dataset) -> list[Split]:
    assert data.dev is not None
    return [data.train, data.dev, data.test]


@pytest.mark.parametrize("name", ROWS)
def test_every_data_set_of_images_keeps_the_contract(loaded: Callable[[str], Dataset], name: str) -> None:
    data = loaded(name)
    side, top = (8, 16) if name == "digits" else (28, 255)
    assert data.name == name
    assert data.note.endswith(".")
    assert all(f"{rows:,}" in data.note for rows in ROWS[name][:2])
    assert tuple(len(split) for split in parts(data)) == ROWS[name]
    for split in parts(data):
        assert split.inputs.dtype == np.uint8
        assert split.inputs.shape == (len(split), side, side)
        assert (split.inputs.min(), split.inputs.max()) == (0, top)
        assert split.labels.dtype == np.int64
        assert np.unique(split.labels).tolist() == list(range(len(data.classes)))
    shares = [np.bincount(split.labels) / len(split) for split in parts(data)]
    for share in shares[1:]:
        np.testing.assert_allclose(share, shares[0], atol=0.005 if name == "digits" else 0.03)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_counts_are_the_published_ones(loaded: Callable[[str], Dataset], name: str) -> None:
    train, dev, test = (np.bincount(split.labels) for split in parts(loaded(name)))
    assert (train + dev).tolist() == TRAIN[name]
    assert test.tolist() == TEST[name]


@pytest.mark.parametrize(("short", "long"), [("mnist3", "mnist"), ("fashion3", "fashion_mnist")])
def test_the_papers_three_classes_are_the_first_of_the_ten(loaded: Callable[[str], Dataset], short: str, long: str) -> None:
    three, ten = loaded(short), loaded(long)
    assert three.classes == ten.classes[:3]
    whole = [np.concatenate([getattr(split, part) for split in parts(ten)[:2]]) for part in ("inputs", "labels")]
    ours = [np.concatenate([getattr(split, part) for split in parts(three)[:2]]) for part in ("inputs", "labels")]
    for mine, theirs in ((ours, whole), ((three.test.inputs, three.test.labels), (ten.test.inputs, ten.test.labels))):
        np.testing.assert_array_equal(mine[0], theirs[0][theirs[1] < 3])
        np.testing.assert_array_equal(mine[1], theirs[1][theirs[1] < 3])


def test_digits_are_scikit_learns_and_in_one_part_only(loaded: Callable[[str], Dataset]) -> None:
    from sklearn.datasets import load_digits

    data, again = loaded("digits"), load("digits")
    theirs = sorted((image.astype(np.uint8).tobytes(), int(y)) for image, y in zip(*load_digits(return_X_y=True), strict=True))
    ours = sorted((x.tobytes(), int(y)) for split in parts(data) for x, y in zip(split.inputs, split.labels, strict=True))
    assert ours == theirs
    for a, b in zip(parts(data), parts(again), strict=True):
        np.testing.assert_array_equal(a.inputs, b.inputs)
        np.testing.assert_array_equal(a.labels, b.labels)


@pytest.mark.parametrize("loader", [images.mnist, images.fashion_mnist])
def test_other_numbers_of_classes_are_refused(loader: Callable[..., Dataset]) -> None:
    with pytest.raises(BadSetting, match=r"classes=4, wanted 10 .all. or 3 .*, .*, "):
        loader(classes=4)


# --- files


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.mark.parametrize(("name", "file"), [("mnist", MNIST), ("fashion_mnist", FASHION_MNIST)])
def test_the_publishers_files_give_the_same_arrays(
    name: str, file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(name)
    usual = catalog.read(name, file.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AIMWISE_DATA")
    sources, sums = [], []
    (store.cache() / name).mkdir(parents=True)
    for source, part, key in zip(file.sources, (0, 0, 1, 1), ("images", "labels") * 2, strict=True):
        content = idx(usual[key][usual["split"] == part])
        sums.append(hashlib.md5(content).hexdigest())
        packed = gzip.compress(content, 0)
        (store.cache() / name / source.name).write_bytes(packed)
        sources.append(Source(source.url, len(packed), hashlib.sha256(packed).hexdigest()))
    assert tuple(sums) == PUBLISHED[name]
    monkeypatch.setitem(CATALOG, name, replace(CATALOG[name], files=(replace(file, sources=tuple(sources)),)))
    built = catalog.read(name, file.name)
    assert built.keys() == usual.keys()
    for key, values in built.items():
        assert values.dtype == usual[key].dtype
        np.testing.assert_array_equal(values, usual[key])
    (store.cache() / name / sources[3].name).unlink()
    with pytest.raises(MissingData, match=f"aimwise data get {name}` downloads it"):
        catalog.read(name, file.name)


def test_absent_and_damaged_images_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIMWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, folder in FOLDERS.items():
        with pytest.raises(MissingData, match=rf"{folder}' is not on this machine.*aimwise data get {folder}`"):
            load(name)
    place = store.cache() / "mnist" / "mnist.npz"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"not these")
    with pytest.raises(MissingData, match=f"mnist.npz has sha256 .*, wanted {MNIST.sha256}"):
        load("mnist3")


def test_images_need_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mnist")
    for package in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    assert set(catalog.read("mnist", "mnist.npz")) == {"images", "labels", "split"}


def test_the_registry_names_every_data_set_of_images() -> None:
    assert set(ROWS) < set(DATASETS)
    assert {name: CATALOG[name].folder for name in FOLDERS} == FOLDERS
