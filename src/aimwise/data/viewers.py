"""The paper's black box for images, and a small one for the embedded digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from aimwise.blackbox.modules import as_tensor
from aimwise.data.base import Dataset
from aimwise.data.networks import IMAGE_NETWORKS
from aimwise.data.trained import PATIENCE, Recipe, Trained, learn
from aimwise.errors import unknown
from aimwise.training import Plan

MANY = Plan(epochs=6, batch_size=64, lr=1e-3, patience=PATIENCE)  # a minute on one core
FEWER = replace(MANY, epochs=10)
RECIPES: dict[str, Recipe] = {
    "mnist": Recipe("paper_cnn", MANY),
    "mnist3": Recipe("paper_cnn", FEWER),
    "fashion_mnist": Recipe("paper_cnn", MANY),
    "fashion3": Recipe("paper_cnn", FEWER),
    "digits": Recipe("digits_cnn", Plan(epochs=20, batch_size=32, lr=2e-3, patience=PATIENCE, least_rows=5000)),
}


@dataclass(eq=False, kw_only=True)
class Viewer(Trained):
    """A trained network over images."""

    kind: ClassVar[str] = "viewer"

    def encode(self, inputs: Any) -> Tensor:
        """Images as they were released, as a tensor."""
        return as_tensor(inputs)

    def _config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _build(cls, network: str, classes: tuple[str, ...], config: Mapping[str, Any]) -> Viewer:
        return cls(network=network, module=IMAGE_NETWORKS[network](len(classes)), classes=classes)


def train_viewer(data: Dataset, *, seed: int = 0, device: str = "cpu", epochs: int | None = None) -> Viewer:
    """Train the black box for a data set of images."""
    if data.name not in RECIPES:
        raise unknown("image black box", data.name, RECIPES)
    recipe = RECIPES[data.name]
    new = partial(Viewer._build, recipe.network, data.classes, {})
    return learn(new, data, recipe.plan, seed=seed, device=device, epochs=epochs)
