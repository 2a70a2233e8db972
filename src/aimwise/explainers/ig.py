"""Integrated gradients (Sundararajan et al. 2017) along the gate z, by captum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import unknown
from aimwise.explainers.differentiated import Differentiated, Forward, check_settings, gradients_of_all
from aimwise.masked import Masked

RULES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")


@dataclass(eq=False, repr=False)
class IntegratedGradients(Differentiated):
    """The gradient of a class's score by z, summed up on the straight way from the stand-ins (z = 0) to the input (z = 1).

    That is what integrated gradients over the inputs give, summed within each feature: the weights of a class add up to its
    score for the input, less that for the stand-ins. Of texts the embeddings are scaled, from zero.

    steps, rule: how many points of the way, and how they are chosen and weighed, by captum's name.
    draws: a random fill is drawn so many times and the weights averaged, which are then expected gradients (Erion et al. 2021).
    classes: as in `Differentiated`.
    """

    method: ClassVar[str] = "ig"

    steps: int = 50
    rule: str = "gausslegendre"
    draws: int = 8

    @property
    def sampled(self) -> bool:
        return False

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        check_settings(self, {"steps": 1 if self.rule == RULES[0] else 2, "draws": 1})

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        from captum.attr import IntegratedGradients as Captum

        def along_the_way(forward: Forward, rows: Int[Tensor, " b"], limit: int) -> Tensor:
            captum = Captum(forward)
            captum.gradient_func = gradients_of_all
            end = torch.ones(len(rows), batch.present.shape[1], 1, device=rows.device)  # z, (b, d, 1)
            found: Tensor = captum.attribute(
                end,
                additional_forward_args=(rows,),
                n_steps=self.steps,
                method=self.rule,
                internal_batch_size=max(limit, len(rows)),
            )
            return found  # (b, d, K)

        return self._by_gate(box, batch, probs, along_the_way, draws=self.draws, points=self.steps)
