"""The gradient at the input itself, and averaged over points around it (SmoothGrad, Smilkov et al. 2017), by captum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadSetting
from aimwise.explainers.differentiated import Differentiated, Forward, check_settings, gradients_of_all, normal_noise
from aimwise.masked import Masked


@dataclass(eq=False, repr=False)
class GradientXInput(Differentiated):
    """The gradient of a class's score by z at the input: the gradient by the input times its way from the stand-ins, summed.

    With the fill "zero", and for texts always, that is gradient times input. One question an input, for all classes.

    draws: over how many draws a random fill is averaged. classes: as in `Differentiated`.
    """

    method: ClassVar[str] = "gradient_x_input"
    rows_at_once: ClassVar[int] = 1024

    draws: int = 8

    @property
    def sampled(self) -> bool:
        return False

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        check_settings(self, {"draws": 1})

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        from captum.attr import InputXGradient

        def at_the_input(forward: Forward, rows: Int[Tensor, " b"], limit: int) -> Tensor:
            captum = InputXGradient(forward)
            captum.gradient_func = gradients_of_all
            z = torch.ones(len(rows), batch.present.shape[1], 1, device=rows.device, requires_grad=True)
            found: Tensor = captum.attribute(z, additional_forward_args=(rows,))
            return found  # (b, d, K)

        return self._by_gate(box, batch, probs, at_the_input, draws=self.draws, points=1)


@dataclass(eq=False, repr=False)
class SmoothGrad(Differentiated):
    """The gradient of a class's score by z, averaged over points around the input.

    Noise in z moves every feature of the input on the line through it and its stand-in, to and fro. All inputs get the same.

    samples: how many points. noise: their standard deviation, as a share of the way between stand-in and input.
    draws: over how many draws a random fill is averaged. classes: as in `Differentiated`.
    """

    method: ClassVar[str] = "smoothgrad"

    samples: int = 25
    noise: float = 0.15
    draws: int = 8

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        check_settings(self, {"samples": 1, "draws": 1})
        if not self.noise >= 0:
            raise BadSetting(f"noise={self.noise!r}, wanted a share of at least 0.")

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        from captum.attr import Saliency

        points = 1 + self.noise * normal_noise(self.seed_, range(self.samples), (batch.present.shape[1],)).to(
            probs.device
        )  # (S, d)

        def around_the_input(forward: Forward, rows: Int[Tensor, " b"], limit: int) -> Tensor:
            captum = Saliency(forward)
            captum.gradient_func = gradients_of_all
            total = torch.zeros((), device=rows.device)
            for some in torch.split(points, max(1, limit // len(rows))):
                z = some[None].expand(len(rows), -1, -1).flatten(0, 1)[..., None]  # (b * s, d, 1)
                many = rows.repeat_interleave(len(some))
                found = captum.attribute(z.clone().requires_grad_(), abs=False, additional_forward_args=(many,))
                total = total + found.detach().reshape(len(rows), len(some), *found.shape[1:]).sum(1)
            return total / len(points)  # (b, d, K)

        return self._by_gate(box, batch, probs, around_the_input, draws=self.draws, points=self.samples)
