"""Data sets are found, checked and split as their notes say, and the zoo's black boxes learn them."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aimwise.data import DATASETS, Dataset, Split, catalog, load, store, tables, zoo
from aimwise.errors import BadFeatures, BadSetting, MissingData, MissingExtra, UnknownName

CONTENT = b"three rows\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ON_DISK = ("adult", "admission", "california_housing")
MADE = ("breast_cancer", "wine", "planted")


def needs(dataset: str) -> None:
    """Skip the test unless AIMWISE_DATA holds the data set."""
    folder = os.environ.get("AIMWISE_DATA")
    if not folder or not (Path(folder) / dataset).is_dir():
        pytest.skip(f"needs the data set {dataset!r}: set AIMWISE_DATA to a folder that holds {dataset}/")


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Dataset]:
    """Data sets by name, each loaded once."""
    kept: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        if name in ON_DISK:
            needs(name)
        if name not in kept:
            kept[name] = load(name)
        return kept[name]

    return get


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty AIMWISE_DATA and an empty cache."""
    given, cache = tmp_path / "given", tmp_path / "xdg" / "aimwise" / "data"
    given.mkdir()
    monkeypatch.setenv("AIMWISE_DATA", str(given))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return given, cache


def put(folder: Path, content: bytes = CONTENT) -> Path:
    path = folder / "toys" / "toys.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


# --- store


def test_the_given_folder_comes_before_the_cache(places: tuple[Path, Path]) -> None:
    in_cache = put(places[1])
    assert store.find("toys", "toys.csv", DIGEST) == in_cache
    in_given = put(places[0])
    assert store.find("toys", "toys.csv", DIGEST) == in_given


@pytest.mark.parametrize("value", [None, ""])
def test_the_cache_serves_when_the_variable_is_not_set(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    in_cache = put(places[1])
    put(places[0])
    if value is None:
        monkeypatch.delenv("AIMWISE_DATA")
    else:
        monkeypatch.setenv("AIMWISE_DATA", value)
    assert store.find("toys", "toys.csv", DIGEST) == in_cache


@pytest.mark.parametrize("value", [None, "", "relative/folder"])
def test_the_cache_defaults_to_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert store.cache() == tmp_path / ".cache" / "aimwise" / "data"


def test_a_wrong_checksum_names_both_digests(places: tuple[Path, Path]) -> None:
    path = put(places[1], b"two rows\n")
    with pytest.raises(MissingData) as caught:
        store.find("toys", "toys.csv", DIGEST)
    for part in (str(path), DIGEST, hashlib.sha256(b"two rows\n").hexdigest(), "replace", "remove"):
        assert part in str(caught.value)


def test_a_damaged_given_file_does_not_fall_back_to_the_cache(places: tuple[Path, Path]) -> None:
    damaged = put(places[0], b"two rows\n")
    put(places[1])
    with pytest.raises(MissingData, match="sha256") as caught:
        store.find("toys", "toys.csv", DIGEST)
    assert str(damaged) in str(caught.value)


def test_an_absent_file_says_what_to_put_where(places: tuple[Path, Path]) -> None:
    with pytest.raises(MissingData) as caught:
        store.find("toys", "toys.csv", DIGEST)
    message = str(caught.value)
    for part in ("'toys'", DIGEST, "set AIMWISE_DATA", *(str(p / "toys" / "toys.csv") for p in places)):
        assert part in message
    assert "not set" not in message


def test_an_absent_file_says_that_the_variable_is_not_set(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIMWISE_DATA")
    with pytest.raises(MissingData, match="AIMWISE_DATA is not set") as caught:
        store.find("toys", "toys.csv", DIGEST)
    assert str(places[0]) not in str(caught.value)


def test_a_variable_that_is_no_folder_is_named(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    put(places[1])
    monkeypatch.setenv("AIMWISE_DATA", str(places[0] / "nowhere"))
    with pytest.raises(MissingData, match=r"nowhere', which is not a folder"):
        store.find("toys", "toys.csv", DIGEST)


def test_loaders_check_their_files(places: tuple[Path, Path]) -> None:
    for name in ON_DISK:
        with pytest.raises(MissingData, match=name):
            load(name)
    (places[0] / "adult").mkdir()
    (places[0] / "adult" / "adult.parquet").write_bytes(CONTENT)
    with pytest.raises(MissingData, match=f"has sha256 {DIGEST}, wanted {catalog.ADULT.sha256}"):
        load("adult")


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*aimwise\[table\]"):
        tables.adult()


# --- loaders


def test_the_registry_names_every_table() -> None:
    assert set(ON_DISK + MADE) < set(DATASETS)
    with pytest.raises(UnknownName, match=r"no data set 'adults'.*Did you mean 'adult'"):
        load("adults")


@pytest.mark.parametrize("name", ON_DISK + MADE)
def test_every_data_set_keeps_the_contract(loaded: Callable[[str], Dataset], name: str) -> None:
    data = loaded(name)
    assert data.name == name
    assert data.note.endswith(".")
    for split in (data.train, data.test):
        assert isinstance(split.inputs, pd.DataFrame)
        assert len(split) == len(split.inputs) == len(split.labels)
        assert list(split.inputs.index) == list(range(len(split)))
        assert split.labels.dtype == np.int64
        assert np.unique(split.labels).tolist() == list(range(len(data.classes)))
    pd.testing.assert_series_equal(data.train.inputs.dtypes, data.test.inputs.dtypes)


@pytest.mark.parametrize("name", ON_DISK + MADE)
def test_loading_twice_gives_the_same(loaded: Callable[[str], Dataset], name: str) -> None:
    first, again = loaded(name), load(name)
    for a, b in ((first.train, again.train), (first.test, again.test)):
        pd.testing.assert_frame_equal(a.inputs, b.inputs)
        np.testing.assert_array_equal(a.labels, b.labels)


def test_adult_has_the_published_numbers(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("adult")
    assert data.classes == ("<=50K", ">50K")
    assert np.bincount(data.train.labels).tolist() == [24_720, 7_841]
    assert np.bincount(data.test.labels).tolist() == [12_435, 3_846]
    assert int((data.train.inputs == "?").any(axis=1).sum()) == 2_399
    assert int((data.test.inputs == "?").any(axis=1).sum()) == 1_221
    names = (
        "age workclass education-num marital-status occupation relationship race sex capital-gain capital-loss "
        "hours-per-week native-country"
    )
    assert list(data.train.inputs.columns) == names.split()
    first = data.train.inputs.iloc[0]
    assert (first["age"], first["workclass"], first["native-country"]) == (39, "State-gov", "United-States")
    assert not data.train.inputs.isna().any(axis=None)


def test_admission_is_balanced_at_the_median(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("admission")
    assert (len(data.train), len(data.test)) == (400, 100)
    assert list(data.train.inputs.columns) == ["GRE Score", "TOEFL Score", "University Rating", "SOP", "LOR", "CGPA", "Research"]
    assert data.classes == ("not admitted", "admitted")
    assert data.train.labels.sum() + data.test.labels.sum() == 264


@pytest.mark.parametrize(
    ("file", "threshold", "admitted"),
    [
        ("admission_predict_v1_1.parquet", 0.5, 463),
        ("admission_predict_v1_1.parquet", 0.7, 300),
        ("admission_predict_v1_1.parquet", 0.75, 218),
        ("admission_predict_v1_1.parquet", 0.8, 155),
        ("admission_predict.parquet", 0.5, 367),
        ("admission_predict.parquet", 0.8, 128),
    ],
)
def test_admission_counts_by_threshold(file: str, threshold: float, admitted: int) -> None:
    needs("admission")
    data = tables.admission(threshold=threshold, file=file)
    assert data.train.labels.sum() + data.test.labels.sum() == admitted
    assert f"{threshold:g}" in data.note


@pytest.mark.parametrize("threshold", [0.1, 0.99, float("nan")])
def test_a_threshold_that_leaves_one_class_is_refused(threshold: float) -> None:
    needs("admission")
    with pytest.raises(BadSetting, match=r"threshold=.* wanted both classes\. Choose a value between 0\.34 and 0\.97"):
        tables.admission(threshold=threshold)


def test_an_unknown_admission_file_is_named() -> None:
    with pytest.raises(UnknownName, match="no file of admission"):
        tables.admission(file="admission.csv")


def test_california_housing_keeps_gaps_and_strings(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("california_housing")
    frame = pd.concat([data.train.inputs, data.test.inputs])
    assert (len(data.train), len(data.test), frame.shape[1]) == (16_512, 4_128, 9)
    assert frame.isna().sum().sum() == frame["total_bedrooms"].isna().sum() == 207
    counts = {"<1H OCEAN": 9136, "INLAND": 6551, "NEAR OCEAN": 2658, "NEAR BAY": 2290, "ISLAND": 5}
    assert frame["ocean_proximity"].value_counts().to_dict() == counts
    assert data.classes == ("below", "above")
    assert data.train.labels.sum() + data.test.labels.sum() == 10_325
    with pytest.raises(BadSetting, match="california_housing"):
        tables.california_housing(threshold=1e6)


def test_embedded_tables_keep_their_class_shares(loaded: Callable[[str], Dataset]) -> None:
    cancer, wine = loaded("breast_cancer"), loaded("wine")
    assert cancer.classes == ("malignant", "benign")
    assert (cancer.train.inputs.shape, cancer.test.inputs.shape) == ((398, 30), (171, 30))
    assert (np.bincount(cancer.train.labels) + np.bincount(cancer.test.labels)).tolist() == [212, 357]
    assert wine.classes == ("class_0", "class_1", "class_2")
    assert (wine.train.inputs.shape, wine.test.inputs.shape) == ((124, 13), (54, 13))
    for data in (cancer, wine):
        shares = [np.bincount(s.labels) / len(s) for s in (data.train, data.test)]
        np.testing.assert_allclose(*shares, atol=0.02)


# --- planted


def test_planted_has_every_kind_of_column(loaded: Callable[[str], Dataset]) -> None:
    data = loaded("planted")
    frame = pd.concat([data.train.inputs, data.test.inputs])
    assert (len(data.train), len(data.test)) == (2800, 1200)
    names = ["age", "education", "job", "hours", "married", "city", "hired", "bonus", "noise_1", "noise_2", "noise_3"]
    assert list(frame.columns) == names
    assert frame["noise_1"].is_unique
    assert frame["education"].cat.ordered
    assert not frame["job"].cat.ordered
    assert [frame[c].nunique() for c in ("education", "job", "city", "married")] == [5, 6, 8, 2]
    assert [frame[c].dtype.kind for c in ("age", "hours", "married", "hired", "bonus")] == ["i", "f", "b", "M", "f"]
    assert not isinstance(frame["city"].dtype, pd.CategoricalDtype)
    assert 0.04 < frame["bonus"].isna().mean() < 0.06
    assert not frame.drop(columns="bonus").isna().any(axis=None)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_labels_follow_the_rule(seed: int) -> None:
    data = tables.planted(rows=1000, seed=seed)
    for split in (data.train, data.test):
        np.testing.assert_array_equal(split.labels, tables.planted_rule(split.inputs) >= 0.5)
        assert 0.4 < split.labels.mean() < 0.6


def test_planted_labels_depend_on_the_planted_columns_alone(loaded: Callable[[str], Dataset]) -> None:
    split = loaded("planted").train
    np.testing.assert_array_equal(split.labels, tables.planted_rule(split.inputs[list(tables.PLANTED)]) >= 0.5)
    order = np.random.default_rng(1).permutation(len(split))
    for name in tables.PLANTED:
        other = split.inputs.assign(**{name: split.inputs[name].array[order]})
        assert np.mean((tables.planted_rule(other) >= 0.5) != split.labels) > 0.1


def test_planted_follows_its_seed_and_leaves_the_global_generator() -> None:
    before = np.random.get_state(legacy=False)
    a, b = tables.planted(rows=200, seed=1), tables.planted(rows=200, seed=2)
    zoo.random_forest(a)
    after = np.random.get_state(legacy=False)
    assert not a.train.inputs["hours"].equals(b.train.inputs["hours"])
    np.testing.assert_equal(after, before)


def test_too_few_planted_rows_are_refused() -> None:
    with pytest.raises(BadSetting, match="rows=99, wanted at least 100"):
        tables.planted(rows=99)


# --- zoo


@pytest.mark.parametrize(
    ("name", "box", "least"),
    [
        ("adult", zoo.logistic_regression, 0.84),
        ("admission", zoo.random_forest, 0.80),
        ("planted", zoo.random_forest, 0.90),
        ("planted", zoo.logistic_regression, 0.95),
        ("breast_cancer", zoo.random_forest, 0.92),
        ("wine", zoo.random_forest, 0.95),
        ("wine", zoo.logistic_regression, 0.95),
        ("california_housing", zoo.logistic_regression, 0.80),
    ],
)
def test_black_boxes_learn(loaded: Callable[[str], Dataset], name: str, box: Any, least: float) -> None:
    data = loaded(name)
    model = box(data)
    assert model.classes_.tolist() == list(range(len(data.classes)))
    assert least <= zoo.accuracy(model, data.test) <= 1.0
    answer = model.predict_proba(data.test.inputs)
    assert answer.shape == (len(data.test), len(data.classes))
    np.testing.assert_allclose(answer.sum(1), 1.0)
    assert zoo.accuracy(model, data.test) == np.mean(answer.argmax(1) == data.test.labels)


def test_the_papers_pairing() -> None:
    assert dict(zoo.BOXES) == {"admission": zoo.random_forest, "adult": zoo.logistic_regression}
    assert set(zoo.BOXES) < set(DATASETS)


@pytest.mark.parametrize("box", [zoo.random_forest, zoo.logistic_regression])
def test_black_boxes_are_deterministic(box: Any) -> None:
    data = tables.planted(rows=600)
    first = box(data, seed=3).predict_proba(data.test.inputs)
    np.testing.assert_array_equal(first, box(data, seed=3).predict_proba(data.test.inputs))
    if box is zoo.random_forest:
        assert np.abs(first - box(data, seed=4).predict_proba(data.test.inputs)).max() > 0.01


@pytest.mark.parametrize("box", [zoo.random_forest, zoo.logistic_regression])
def test_black_boxes_take_unseen_levels_gaps_and_any_column_order(box: Any) -> None:
    data = tables.planted(rows=600)
    model = box(data)
    frame = data.test.inputs.copy()
    usual = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(frame[frame.columns[::-1]]), usual)
    frame["city"] = "Atlantis"
    frame["job"] = frame["job"].cat.add_categories("pilot").where(np.arange(len(frame)) % 2 == 0, "pilot")
    frame.loc[::3, "hired"] = pd.NaT
    frame.loc[::4, ["bonus", "hours"]] = np.nan
    answer = model.predict_proba(frame)
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(answer.sum(1), 1.0)
    assert not np.array_equal(answer, usual)


def test_black_boxes_travel_between_processes() -> None:
    data = tables.planted(rows=200)
    model = zoo.logistic_regression(data)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(data.test.inputs), model.predict_proba(data.test.inputs))


def test_dates_become_days() -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(["1970-01-03 12:00", None])})
    np.testing.assert_array_equal(zoo.days(frame), [[2.5], [np.nan]])


def test_an_array_is_refused_with_what_to_do() -> None:
    split = Split(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    with pytest.raises(BadFeatures, match="take a DataFrame, got ndarray"):
        zoo.random_forest(Dataset("zeros", split, split, ("no", "yes"), ""))


def test_labels_that_miss_a_class_are_refused() -> None:
    split = Split(pd.DataFrame({"a": [0.0, 1.0]}), np.array([0, 2]))
    with pytest.raises(BadSetting, match=r"labels of gap are \[0, 2\], wanted each of 0 to 2"):
        zoo.random_forest(Dataset("gap", split, split, ("a", "b", "c"), ""))
