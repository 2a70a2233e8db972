"""What a feature is: columns of tables, words of texts, parts of images."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from aimwise.errors import BadFeatures
from aimwise.features.base import Features as Features
from aimwise.features.columns import Columns as Columns
from aimwise.features.images import Patches as Patches
from aimwise.features.images import Pixels as Pixels
from aimwise.features.images import Segments as Segments
from aimwise.features.pictures import is_pil
from aimwise.features.tokens import Tokens as Tokens
from aimwise.features.words import Words as Words

FEATURES: dict[str, type[Features]] = {
    "columns": Columns,
    "patches": Patches,
    "pixels": Pixels,
    "segments": Segments,
    "tokens": Tokens,
    "words": Words,
}


def as_features(features: Features | None, inputs: Any, *, word_fill: str = "delete") -> Features:
    """The features given, learned from the inputs if they are not yet; without any, the kind that suits the inputs."""
    if features is not None and not isinstance(features, Features):
        raise BadFeatures(
            f"features={features!r}, wanted what the features are: aimwise.Columns(), Words(), Patches(7) and so on."
        )
    if features is None:
        features = Words(fill=word_fill) if are_texts(inputs) else Columns()
        if isinstance(features, Columns) and (is_pil(inputs) or len(shape := table_shape(inputs)) != 2):
            shape = "images" if is_pil(inputs) else f"inputs of shape {shape}"
            raise BadFeatures(
                f"Cannot tell what the features of {shape} are: tables (n, columns) and lists of texts are recognised. Pass a "
                "DataFrame, a 2-D array or tensor, a list of strings, or say what the features are; for images "
                "features=aimwise.Patches(side), aimwise.Pixels() or aimwise.Segments(n)."
            )
    return features if features.fitted else features.fit(inputs)


def are_texts(inputs: Any) -> bool:
    """Whether the inputs are a sequence of strings."""
    shape = getattr(inputs, "shape", (len(inputs),))  # of arrays, frames and series
    return len(shape) == 1 and shape[0] > 0 and any(isinstance(one, str) for one in islice(iter(inputs), 100))


def table_shape(inputs: Any) -> tuple[int, ...] | str:
    """The shape of the inputs as an array."""
    try:
        return tuple(np.shape(inputs))
    except ValueError:
        return "that differ from row to row"
