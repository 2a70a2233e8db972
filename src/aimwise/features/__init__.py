"""What a feature is: columns of tables, and later words, patches and segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from aimwise.errors import BadFeatures
from aimwise.features.base import Features as Features
from aimwise.features.columns import Columns as Columns

FEATURES: dict[str, type[Features]] = {"columns": Columns}


def as_features(features: Features | None, inputs: Any) -> Features:
    """The features given, learned from the inputs if they are not yet; without any, the kind that suits the inputs."""
    if features is None:
        try:
            shape: tuple[int, ...] | str = tuple(np.shape(inputs))
        except ValueError:
            shape = "that differ from row to row"
        if len(shape) != 2:
            raise BadFeatures(
                f"Cannot tell what the features of inputs of shape {shape} are: only tables (n, columns) are "
                "recognised. Pass a DataFrame, a 2-D array or tensor, or features=..."
            )
        features = Columns()
    return features if features.fitted else features.fit(inputs)
