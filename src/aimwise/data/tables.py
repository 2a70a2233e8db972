"""Data sets that are tables, as pandas DataFrames with the types their publishers gave them."""

from __future__ import annotations

from typing import Any

import numpy as np

from aimwise.data.base import Dataset, Split
from aimwise.data.catalog import read
from aimwise.errors import BadSetting, extra

PLANTED = ("hours", "education", "married")
EDUCATION = ("primary", "secondary", "bachelor", "master", "doctorate")
JOBS = ("clerk", "cook", "driver", "engineer", "nurse", "teacher")
CITIES = ("Cork", "Dover", "Essen", "Gent", "Lyon", "Malmo", "Porto", "Turin")


def adult() -> Dataset:
    """Census income above 50,000 dollars a year, 12 columns (Becker and Kohavi, 1996)."""
    frame = read("adult", "adult.parquet")
    classes = ("<=50K", ">50K")
    labels = (frame["income"] == classes[1]).to_numpy(dtype=np.int64)
    train = (frame["split"] == "train").to_numpy(dtype=bool)
    inputs = frame.drop(columns=["fnlwgt", "education", "income", "split"])
    note = (
        "fnlwgt and education (the same as education-num) are dropped, '?' stays a level of its own; "
        "the publishers' split into adult.data and adult.test."
    )
    return Dataset("adult", rows_of(inputs, labels, train), rows_of(inputs, labels, ~train), classes, note)


def admission(*, threshold: float = 0.72, file: str = "admission_predict_v1_1.parquet") -> Dataset:
    """Graduate admission at or above a stated chance, 7 columns (Acharya and others, 2019)."""
    frame = read("admission", file).rename(columns=str.strip)
    inputs = frame.drop(columns=["Serial No.", "Chance of Admit"])
    note = (
        f"The {len(frame)} rows of {file} without the serial number; admitted is a chance of at least {threshold:g} "
        "(0.72 is the median of the 500 rows); 80/20 split by a permutation of seed 0."
    )
    return halved("admission", inputs, frame["Chance of Admit"], threshold, ("not admitted", "admitted"), note)


def california_housing(*, threshold: float = 179_700.0) -> Dataset:
    """Median house value of a block group at or above a price in dollars, 9 columns (Pace and Barry, 1997)."""
    frame = read("california_housing", "california_housing.parquet")
    inputs = frame.drop(columns="median_house_value")
    note = (
        f"Geron's version, missing total_bedrooms left as NaN; above is a median house value of at least {threshold:g} "
        "dollars (179700 is the median); 80/20 split by a permutation of seed 0."
    )
    return halved("california_housing", inputs, frame["median_house_value"], threshold, ("below", "above"), note)


def breast_cancer() -> Dataset:
    """Malignant or benign tumours by 30 measures, embedded in scikit-learn (Wolberg and others, 1995)."""
    from sklearn.datasets import load_breast_cancer

    extra("pandas", "table")
    return embedded("breast_cancer", load_breast_cancer(as_frame=True))


def wine() -> Dataset:
    """Three cultivars of wine by 13 measures, embedded in scikit-learn (Aeberhard and Forina, 1992)."""
    from sklearn.datasets import load_wine

    extra("pandas", "table")
    return embedded("wine", load_wine(as_frame=True))


def planted(*, rows: int = 4000, seed: int = 0) -> Dataset:
    """A generated table of every kind of column, whose label is decided by the columns PLANTED alone."""
    if rows < 100:
        raise BadSetting(f"rows={rows}, wanted at least 100 so that both classes are in both parts. Ask for more rows.")
    pd = extra("pandas", "table")
    rng = np.random.default_rng(seed)
    bonus = rng.gamma(2.0, 1500.0, rows)
    bonus[rng.random(rows) < 0.05] = np.nan
    hired = np.datetime64("2000-01-01", "ns") + rng.integers(0, 9000, rows).astype("timedelta64[D]")
    columns = {
        "age": rng.integers(18, 70, rows),
        "education": pd.Categorical.from_codes(rng.integers(0, len(EDUCATION), rows), EDUCATION, ordered=True),
        "job": pd.Categorical.from_codes(rng.integers(0, len(JOBS), rows), JOBS),
        "hours": rng.normal(40, 10, rows).clip(5, 80).round(1),
        "married": rng.random(rows) < 0.5,
        "city": rng.choice(np.array(CITIES, dtype=object), rows),
        "hired": hired,
        "bonus": bonus,
    }
    noise = {f"noise_{i}": rng.normal(size=rows) for i in (1, 2, 3)}
    frame = pd.DataFrame(columns | noise)
    labels = (planted_rule(frame) >= 0.5).astype(np.int64)
    note = (
        f"{rows} rows generated from seed {seed}, all columns independent; the label is high where planted_rule, which reads "
        f"only {', '.join(PLANTED)}, is at least 0.5; 70/30 split by a permutation of seed {seed}."
    )
    return parted("planted", frame, labels, ("low", "high"), note, share=0.7, seed=seed)


def planted_rule(frame: Any) -> np.ndarray:
    """The probability of "high" for rows of the planted table: a logistic function of hours, education and married."""
    hours = (frame["hours"].to_numpy(dtype=np.float64) - 40) / 10
    education = frame["education"].cat.codes.to_numpy(dtype=np.float64) - 2
    married = np.where(frame["married"].to_numpy(dtype=bool), 1.0, -1.0)
    return np.asarray(1 / (1 + np.exp(-(2.0 * hours + 1.2 * education + 1.5 * married))))


def rows_of(inputs: Any, labels: np.ndarray, rows: np.ndarray) -> Split:
    """Some rows of a table, numbered anew, with their labels."""
    return Split(inputs.iloc[np.flatnonzero(rows) if rows.dtype == bool else rows].reset_index(drop=True), labels[rows])


def embedded(name: str, bunch: Any) -> Dataset:
    """One of scikit-learn's own tables, split with the shares of its classes kept."""
    from sklearn.model_selection import train_test_split

    labels = bunch.target.to_numpy(dtype=np.int64)
    train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=0, stratify=labels)
    classes = tuple(str(c) for c in bunch.target_names)
    note = "As scikit-learn carries it, no column dropped; stratified 70/30 split by train_test_split of seed 0."
    return Dataset(name, rows_of(bunch.data, labels, train), rows_of(bunch.data, labels, test), classes, note)


def halved(name: str, inputs: Any, target: Any, threshold: float, classes: tuple[str, str], note: str) -> Dataset:
    """A number to predict made into two classes at a threshold, which must leave rows of both in both parts."""
    values = target.to_numpy(dtype=np.float64)
    data = parted(name, inputs, (values >= threshold).astype(np.int64), classes, note, share=0.8, seed=0)
    for part, split in (("train", data.train), ("test", data.test)):
        high = int(split.labels.sum())
        if high in (0, len(split)):
            raise BadSetting(
                f"threshold={threshold} puts {high} of the {len(split)} {part} rows of {name} in the class {classes[1]!r}, "
                f"wanted both classes. Choose a value between {values.min():g} and {values.max():g}, away from the ends."
            )
    return data


def parted(
    name: str, inputs: Any, labels: np.ndarray, classes: tuple[str, ...], note: str, *, share: float, seed: int
) -> Dataset:
    """A table split by a seeded permutation, this share of the rows for training."""
    order = np.random.default_rng(seed).permutation(len(labels))
    train, test = np.split(order, [round(share * len(labels))])
    return Dataset(name, rows_of(inputs, labels, train), rows_of(inputs, labels, test), classes, note)
