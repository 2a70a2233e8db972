"""REAL-X: features selected for a predictor that was trained before the selection, so that no selection can carry the label
(Jethani et al., AISTATS 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.explainers.choices import Gates, certainty, log_likelihood, share
from aimwise.explainers.learned import Lesson
from aimwise.explainers.selecting import Selecting, divergence, refuse_below
from aimwise.explainers.surrogate import Surrogate
from aimwise.features.base import Features
from aimwise.nn.build import family
from aimwise.nn.rivals import logits_net
from aimwise.nn.sampling import Source, rebar


@dataclass(eq=False, repr=False)
class REALX(Selecting):
    """Train a predictor on random parts of the inputs, freeze it, then train a selector of few features that suit it.

    The weights are the log-odds of a feature's selection, about the predicted class alone: what is above 0 is selected.
    lam: the price of selecting all features; a part of them costs in proportion. tau: the temperature of the relaxed samples
    that steady the selector's gradient (REBAR), which stays unbiased whatever tau is. The selector's log-odds are held as
    INVASE's are here, and the predictor sees masks of every size, where the paper has each feature kept by a fair coin.
    The other settings are those of `Selecting` and `Learned`.
    """

    method: ClassVar[str] = "realx"

    lam: float = 0.1
    tau: float = 0.5
    epochs: int = 30
    patience: int | None = None  # what all features have in common is learned first, and it can look like the end
    lr: float = 2e-3
    schedule: str = "cosine"
    average: float = 0.99

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        predictor = family(kind, "default").approximator(layout, len(self.classes_))
        return nn.ModuleDict({"selector": logits_net(kind, layout, self.selector_width), "predictor": predictor})

    def _prepare(self, nets: nn.ModuleDict, held: Tensor, rows: Tensor, lesson: Lesson) -> None:
        Surrogate.trained(nets["predictor"], self._train, held, rows, lesson, size=self.batch_size)

    def _loss(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor, rng: Source) -> Tensor:
        predictor = Surrogate(nets["predictor"].eval(), features)
        logits = nets["selector"](batch.x)  # (B, d)
        pi = logits.sigmoid()
        z, soft, again = (sample * batch.present for sample in rebar(pi, self.tau, rng))
        missed, easy, control = (divergence(probs, predictor.scores(batch, sample)) for sample in (z, soft, again))  # (B,)
        expected = steadied(missed, easy, control, log_likelihood(logits, z, batch.present))
        return (expected + self.lam * share(pi, batch.present) + certainty(logits, batch.present)).mean()

    def _choice(self) -> Gates:
        return Gates(self.lam)

    def _check_settings(self) -> None:
        refuse_below(("lam", self.lam, 0))
        refuse_below(("tau", self.tau, 0), above=True)


def steadied(
    sampled: Float[Tensor, " B"], easy: Float[Tensor, " B"], control: Float[Tensor, " B"], likelihood: Float[Tensor, " B"]
) -> Float[Tensor, " B"]:
    """What has REBAR's gradient of an expected loss, from the loss of the sample and of its two relaxations."""
    return (sampled - control).detach() * likelihood + easy - control
