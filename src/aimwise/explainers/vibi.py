"""VIBI: a brief selection that yet tells the black box's answer: an information bottleneck (Bang et al., AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.errors import unknown
from aimwise.explainers.choices import Top
from aimwise.explainers.selecting import Selecting, refuse_below
from aimwise.explainers.surrogate import Surrogate
from aimwise.features.base import Features
from aimwise.nn import sampling
from aimwise.nn.losses import cross_entropy
from aimwise.nn.rivals import logits_net, predictor_net

TUNED = {
    "imdb": {"tau": 0.5, "beta": 0.5, "approximator": "lstm"},
    "hatexplain": {"tau": 0.5, "beta": 2.0, "approximator": "cnn"},
    "ag_news": {"tau": 0.7, "beta": 0.1, "approximator": "lstm"},
}
"""What the AIM paper found best for its three sets of texts."""


@dataclass(eq=False, repr=False)
class VIBI(Selecting):
    """Train a distribution over features, K draws from it, and an approximator that says from them what the black box says.

    The weights are the distribution's logits, about the predicted class alone. k: how many features are drawn. tau: the
    temperature of the relaxed draws. beta: how strongly the distribution is pulled towards the uniform one, the prior.
    approximator: for texts, "lstm" or "cnn". `TUNED` has the AIM paper's values for its texts.
    The other settings are those of `Selecting` and `Learned`.
    """

    method: ClassVar[str] = "vibi"

    k: int = 10
    tau: float = 0.5
    beta: float = 0.1
    approximator: str = "lstm"

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        predictor = predictor_net(kind, layout, len(self.classes_), self.predictor_width, text=self.approximator)
        selector = logits_net(kind, layout, self.selector_width, recurrent=True)
        return nn.ModuleDict({"selector": selector, "predictor": predictor})

    def _loss(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor, rng: sampling.Source) -> Tensor:
        logits = nets["selector"](batch.x)  # (B, d)
        z = sampling.gumbel_top(logits, batch.present, self.k, self.tau, rng)
        told = cross_entropy(probs, Surrogate(nets["predictor"], features).scores(batch, z))
        return told + self.beta * from_uniform(logits, batch.present).mean()

    def _choice(self) -> Top:
        return Top(self.k)

    def _check_settings(self) -> None:
        refuse_below(("k", self.k, 1), ("beta", self.beta, 0))
        refuse_below(("tau", self.tau, 0), above=True)
        if self.approximator not in ("lstm", "cnn"):
            raise unknown("approximator", self.approximator, ("lstm", "cnn"))


def from_uniform(logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The KL divergence of softmax(logits) over the present features from the uniform distribution over them."""
    log_p = sampling.only_present(logits, present).log_softmax(-1)
    gain: Tensor = (log_p.exp() * log_p * present).sum(1) + present.sum(1).clamp_min(1).log()
    return gain
