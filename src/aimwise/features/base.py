"""What a feature is: the contract every kind of features keeps."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadFeatures

F = TypeVar("F", bound="Features")


class Features(ABC):
    """How inputs are cut into features, and what stands in for a feature that is taken away.

    The constructor stores settings; `fit` returns a copy that has seen data. Everything below `fit` needs that copy.
    """

    kind: ClassVar[str]
    """Which networks read these features: a key of `aimwise.nn.build.NETWORKS`."""

    fill: str
    """What stands in for a feature that is taken away."""

    @abstractmethod
    def fit(self: F, inputs: Any) -> F:
        """A copy that has learned names, scales and fills from these inputs."""

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether `fit` made this object."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...] | None:
        """The features' names, in order; None if every input has features of its own, named by their values."""

    @property
    @abstractmethod
    def soft(self) -> Bool[Tensor, "*d"]:
        """Which features may be kept by a share between 0 and 1, or whether all may; the others are kept whole or not at all."""

    @property
    @abstractmethod
    def random(self) -> bool:
        """Whether the fill draws: asking twice about one mask may then give two answers."""

    @property
    def inside(self) -> str | None:
        """The fill, if only the model itself can do it: it is then handed gates (`aimwise.gates`) instead of changed inputs."""
        return None

    @property
    def cells(self) -> int:
        """How many numbers an input is about, where that is many: fewer inputs are then asked about at once."""
        return 1

    @property
    @abstractmethod
    def layout(self) -> Any:
        """The plain numbers from which networks for these features are built."""

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that make no sense, the fill among them."""

    def filled(self: F, fill: str) -> F:
        """The same features with another fill."""
        new = copy.copy(self)
        new.fill = fill
        new._check_settings()
        return new

    @property
    @abstractmethod
    def fills(self) -> tuple[str, ...]:
        """The fills that an explanation is judged by where nothing else is said: its own and another."""

    def softened(self: F) -> F:
        """The same features with a fill that can keep every one of them by a share, as gradients need it."""
        if not bool(self.soft.all()):
            hard = [name for name, soft in zip(self.names or (), self.soft.tolist(), strict=True) if not soft]
            raise BadFeatures(
                f"Gradients need features that can be kept by a share; {', '.join(hard[:3])}{', ...' * (len(hard) > 3)} cannot. "
                "Hand them over as floats, or use a method without gradients."
            )
        return self

    def drawn(self: F, rng: torch.Generator) -> F:
        """The same features with a random fill drawn once: one stand-in for all inputs, whenever it is asked for."""
        return self

    @abstractmethod
    def encode(self, inputs: Any) -> Batch:
        """Inputs as tensors for the networks, with the raw inputs beside them."""

    def trim(self, batch: Batch) -> Batch:
        """The batch without positions that none of its inputs has."""
        return batch

    def lacking(self, rows: int, least: int) -> int:
        """How many inputs made of others are worth having beside so many; `least`: how many a method wants at least."""
        return max(least - rows, 0)

    def enlarged(self, batch: Batch, more: int, rng: torch.Generator) -> Batch:
        """The batch and so many more inputs made of parts of its own, which say more about the model where inputs are few; the
        batch as it is where such inputs would be unlike any."""
        return batch

    def part(self, batch: Batch, rows: slice) -> Batch:
        """Some rows of a trimmed batch for the networks, which answer about each as they would among the others."""
        return batch.pick(torch.arange(len(batch))[rows])

    def spans(self, batch: Batch) -> np.ndarray | None:
        """Where each feature stands in its input, (B, d, 2), if features have such places."""
        return None

    def sources(self, batch: Batch) -> tuple[str, ...] | None:
        """The inputs themselves, if features are places in a text."""
        return None

    def regions(self, batch: Batch) -> np.ndarray | None:
        """Which feature every pixel belongs to, (B, h, w), or (1, h, w) if that is the same for all, where inputs are images."""
        return None

    def pictures(self, inputs: Any) -> np.ndarray | None:
        """Inputs in the black box's form as images to look at, (B, h, w) or (B, h, w, 3) of 0 to 255, where they are images."""
        return None

    def unexplained(self, batch: Batch) -> np.ndarray | None:
        """How many features at the end of each input are too many to be explained, (B,), if there can be such."""
        return None

    def noise(self, size: tuple[int, int, int], rng: torch.Generator) -> Float[Tensor, "B M d"]:
        """For random masks, numbers between 0 and 1; neighbours whose number is the same are kept or taken away together."""
        return torch.rand(size, generator=rng)

    @abstractmethod
    def dim(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Any:
        """The inputs with feature i kept by the share z_i, in the form the black box takes."""

    def placed(self, batch: Batch) -> Any | None:
        """The inputs as they are and the place of each feature, for a model that can be looked into; None if there are none."""
        return None

    @abstractmethod
    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B ..."]:
        """The gate of each feature at every position of `x` that belongs to it."""

    def gathered(self, batch: Batch, cells: Float[Tensor, "B ..."]) -> Float[Tensor, "B d"]:
        """The sum over each feature of a number for every cell of the inputs, which are in the form the black box takes."""
        with torch.enable_grad():
            z = torch.zeros(batch.present.shape, device=batch.present.device, requires_grad=True)
            spread = self.spread(batch, z)
        return torch.autograd.grad(spread, z, cells.to(spread))[0]

    @abstractmethod
    def values(self, batch: Batch) -> np.ndarray:
        """What each feature of each input is, for people to read: (B, d)."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Settings and learned facts as JSON values."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Learned numbers as tensors."""

    @classmethod
    @abstractmethod
    def restore(cls: type[F], config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> F:
        """The object that `config` and `tensors` were taken from."""
