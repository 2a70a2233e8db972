"""The methods, all behind `fit` and `explain`."""

from __future__ import annotations

from aimwise.explainers.aim import AIM as AIM
from aimwise.explainers.base import Explainer as Explainer
from aimwise.explainers.random import Random as Random

METHODS: dict[str, type[Explainer]] = {"aim": AIM, "random": Random}
