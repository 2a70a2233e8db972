"""The paper's black boxes: scikit-learn pipelines for tables, and networks for texts and images that are trained once.

Those for images come with the library, since another processor trains others and what is measured is about one file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from aimwise.data import load, readers, store, viewers
from aimwise.data.base import Dataset, Split
from aimwise.data.trained import CONFIG, Trained
from aimwise.device import resolve_device
from aimwise.errors import BadFeatures, BadFile, BadSetting, extra, unknown
from aimwise.files import is_empty_folder

NETWORKS: dict[str, tuple[type[Trained], Callable[..., Trained]]] = {
    **dict.fromkeys(readers.RECIPES, (readers.Reader, readers.train_reader)),
    **dict.fromkeys(viewers.RECIPES, (viewers.Viewer, viewers.train_viewer)),
}

SHIPPED = Path(__file__).parent / "kept"


@runtime_checkable
class Classifier(Protocol):
    """A fitted classifier in scikit-learn's manner."""

    def predict(self, inputs: Any, /) -> Any: ...

    def predict_proba(self, inputs: Any, /) -> Any: ...


def random_forest(data: Dataset, *, seed: int = 0) -> Classifier:
    """A random forest of 100 trees."""
    from sklearn.ensemble import RandomForestClassifier

    return fitted(data, RandomForestClassifier(n_estimators=100, random_state=seed), scaled=False)


def logistic_regression(data: Dataset, *, seed: int = 0) -> Classifier:
    """A logistic regression on standardised numbers."""
    from sklearn.linear_model import LogisticRegression

    return fitted(data, LogisticRegression(max_iter=1000, random_state=seed), scaled=True)


BOXES: dict[str, Callable[[Dataset], Classifier]] = {"admission": random_forest, "adult": logistic_regression}


def accuracy(model: Classifier, split: Split) -> float:
    """The share of a split's rows whose label the model predicts."""
    return float(np.mean(np.asarray(model.predict(split.inputs)) == split.labels))


def fitted(data: Dataset, model: Any, *, scaled: bool) -> Classifier:
    """The model behind the columns' preparation, fitted on the training part."""
    from sklearn.pipeline import Pipeline

    found = np.unique(data.train.labels)
    if not np.array_equal(found, np.arange(len(data.classes))):
        raise BadSetting(
            f"The training labels of {data.name} are {found.tolist()}, wanted each of 0 to {len(data.classes) - 1}, one for each "
            "class name. Number the labels by the position of their class, and keep rows of every class."
        )
    pipeline = Pipeline([("columns", preparation(data.train.inputs, scaled=scaled)), ("model", model)])
    box: Classifier = pipeline.fit(data.train.inputs, data.train.labels)
    return box


def preparation(frame: Any, *, scaled: bool) -> Any:
    """The step that turns a DataFrame's columns, each by its type, into numbers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    def numbers(*first: Any) -> Any:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        return make_pipeline(*first, impute, *([StandardScaler()] if scaled else []))

    steps = {
        "numbers": numbers(),
        "flags": "passthrough",
        "dates": numbers(FunctionTransformer(days, feature_names_out="one-to-one")),
        "levels": OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    }
    return ColumnTransformer([(kind, steps[kind], names) for kind, names in by_kind(frame).items()])


def by_kind(frame: Any) -> dict[str, list[Any]]:
    """A DataFrame's columns by how they are prepared: numbers, flags, dates, and levels for all others."""
    pd = extra("pandas", "table")
    if not isinstance(frame, pd.DataFrame):
        raise BadFeatures(f"The black boxes for tables take a DataFrame, got {type(frame).__name__}. Pass pd.DataFrame(inputs).")
    types = pd.api.types
    kinds: dict[str, list[Any]] = {}
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            kind = "levels"
        elif types.is_bool_dtype(dtype):
            kind = "flags"
        elif types.is_numeric_dtype(dtype):
            kind = "numbers"
        else:
            kind = "dates" if types.is_datetime64_any_dtype(dtype) else "levels"
        kinds.setdefault(kind, []).append(name)
    return kinds


def days(frame: Any) -> np.ndarray:
    """Dates as days since 1970, NaN where there is none."""
    moments = frame.to_numpy(dtype="datetime64[ns]")
    return np.asarray((moments - np.datetime64(0, "ns")) / np.timedelta64(1, "D"))


@dataclass(frozen=True)
class Kept:
    """A trained network, the folder that holds it, and whether it was trained just now."""

    network: Trained
    path: Path
    new: bool


def trained(name: str, *, seed: int = 0, device: str = "auto", epochs: int | None = None) -> Trained:
    """The network for a data set: from the user's cache or this library, or else trained and put into the cache."""
    return kept(name, seed=seed, device=device, epochs=epochs).network


def kept(
    name: str,
    *,
    seed: int = 0,
    device: str = "auto",
    epochs: int | None = None,
    out: Path | None = None,
    again: bool = False,
) -> Kept:
    """The network for a data set from the cache or this library, or else trained, and where it is kept: there, or in `out`.

    again: train it anew and replace what is in the cache. Of two processes that train the same, the first to end is kept by both.
    """
    place = resolve_device(device)
    here = found(name, seed=seed, epochs=epochs)
    if not again and here is not None:
        network = loaded(name, here, place)
        return Kept(network, here if out is None else network.save(free(out)), False)
    path = free(folder(name, seed=seed, epochs=epochs) if out is None else out, again=again)
    made = NETWORKS[name][1](load(name), seed=seed, device=str(place), epochs=epochs)
    if out is None and made.stopped == "interrupted":  # it is what so many epochs give
        path = folder(name, seed=seed, epochs=made.epochs)
    try:
        if again or not is_there(path):
            return Kept(made, made.save(path), True)
    except OSError as e:
        if not is_there(path):
            raise BadFile(f"{path} cannot be written ({e}). Make room there, or name another folder.") from e
    return Kept(loaded(name, path, place), path, True)


def folder(name: str, *, seed: int = 0, epochs: int | None = None) -> Path:
    """Where the cache keeps the network for a data set."""
    if name not in NETWORKS:
        raise unknown("network for the data set", name, NETWORKS)
    return store.home() / "zoo" / (f"{name}-seed{seed}" + ("" if epochs is None else f"-epochs{epochs}"))


def found(name: str, *, seed: int = 0, epochs: int | None = None) -> Path | None:
    """Where the network for a data set lies, if there is one: in the cache, or among those that come with the library."""
    home = folder(name, seed=seed, epochs=epochs)
    if is_there(home):
        return home
    return SHIPPED / name if (seed, epochs) == (0, None) and is_there(SHIPPED / name) else None


def is_there(path: Path) -> bool:
    """Whether something stands where a network would be kept."""
    return path.exists() and not is_empty_folder(path)


def free(path: Path, *, again: bool = False) -> Path:
    """The folder itself, if a network may and can be written there; found out before hours of training."""
    if is_there(path) and not (again and (path / CONFIG).is_file()):
        kind = "holds a network already" if (path / CONFIG).is_file() else "is no trained network"
        raise BadFile(f"{path} exists and {kind}. Name another folder or remove it; a network is replaced with --again.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}."):
            return path
    except OSError as e:
        raise BadFile(f"{path} cannot be written ({e}). Make it writable, or name another folder.") from e


def loaded(name: str, path: Path, place: torch.device) -> Trained:
    """The network in a folder of the cache, on a device."""
    try:
        found = NETWORKS[name][0].load(path)
    except BadFile as e:
        whole = (path / CONFIG).is_file()
        cure = f"`aimwise data train {name} --again`, with its seed and epochs, does" if whole else f"Remove {path}"
        raise BadFile(f"{e} {cure}.") from e
    found.module.to(place)
    return found
