"""A control: another method's order reversed. A metric that does not put it below that method measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import unknown
from aimwise.explainers.base import Explainer
from aimwise.masked import Masked


@dataclass(eq=False, repr=False)
class Inverse(Explainer):
    """The weights of another method, negated.

    of: the other method's name in `METHODS`. settings: its settings by name.
    """

    method: ClassVar[str] = "inverse"
    rows_at_once: ClassVar[int] = 64

    of: str = "random"
    settings: dict[str, Any] | None = None

    @property
    def every_class(self) -> bool:
        return self._made().every_class

    @property
    def asks(self) -> bool:
        return self._made().asks

    @property
    def gradients(self) -> bool:
        return self._made().gradients

    @property
    def sampled(self) -> bool:
        return self._made().sampled

    def _made(self) -> Explainer:
        """The other method, not fitted."""
        from aimwise.explainers import METHODS

        if self.of not in METHODS:
            raise unknown("method", self.of, METHODS)
        return METHODS[self.of](**{"device": self.device} | (self.settings or {}))

    def _taught(self) -> Explainer:
        """The other method with what `fit` found before it learns by itself."""
        other = self._made()
        other.base_, other.classes_, other.named_, other.seed_ = self.base_, self.classes_, self.named_, self.seed_
        return other

    def _suits(self, box: Masked) -> None:
        self._made()._suits(box)

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        self.other_ = self._taught()
        self.other_._fit(box, data, probs, seed, folder)
        self.base_ = self.other_.base_

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        return -self.other_._weigh(box, batch, probs)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self.other_._learned()

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.other_ = self._taught()
        self.other_._restore(box, facts, tensors)
