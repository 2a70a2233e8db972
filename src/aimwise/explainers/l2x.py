"""L2X: the K features that tell most about the black box's answer (Chen et al., ICML 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.explainers.choices import Top
from aimwise.explainers.selecting import Selecting, refuse_below
from aimwise.explainers.surrogate import Surrogate
from aimwise.features.base import Features
from aimwise.nn import sampling
from aimwise.nn.losses import cross_entropy
from aimwise.nn.rivals import logits_net, predictor_net

TUNED_TAU = {"imdb": 0.7, "hatexplain": 0.1, "ag_news": 0.2}
"""The temperatures that the AIM paper found best for its three sets of texts."""


@dataclass(eq=False, repr=False)
class L2X(Selecting):
    """Train a selector of K features and a predictor together, so that the predictor says what the black box says.

    The weights are the selector's logits, about the predicted class alone. k: how many features are selected.
    tau: the temperature of the K relaxed draws (`TUNED_TAU` has the AIM paper's for its texts).
    The other settings are those of `Selecting` and `Learned`.
    """

    method: ClassVar[str] = "l2x"

    k: int = 10
    tau: float = 0.2

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        predictor = predictor_net(kind, layout, len(self.classes_), self.predictor_width, text="mean")
        return nn.ModuleDict({"selector": logits_net(kind, layout, self.selector_width), "predictor": predictor})

    def _loss(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor, rng: sampling.Source) -> Tensor:
        z = sampling.gumbel_top(nets["selector"](batch.x), batch.present, self.k, self.tau, rng)  # (B, d)
        return cross_entropy(probs, Surrogate(nets["predictor"], features).scores(batch, z))

    def _choice(self) -> Top:
        return Top(self.k)

    def _check_settings(self) -> None:
        refuse_below(("k", self.k, 1))
        refuse_below(("tau", self.tau, 0), above=True)
