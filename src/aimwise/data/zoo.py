"""The paper's black boxes for tables: scikit-learn pipelines that take a data set's DataFrame as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aimwise.data.base import Dataset, Split
from aimwise.errors import BadFeatures, BadSetting, extra


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
