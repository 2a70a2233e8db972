"""INVASE: as few features as still tell the black box's answer, a number of its own for every input (Yoon et al., ICLR 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.explainers.choices import Gates, certainty, log_likelihood, share
from aimwise.explainers.selecting import Selecting, divergence, refuse_below
from aimwise.explainers.surrogate import Surrogate
from aimwise.features.base import Features
from aimwise.nn.rivals import predictor_net
from aimwise.nn.sampling import Source, hard


@dataclass(eq=False, repr=False)
class INVASE(Selecting):
    """Train an actor that selects features, a critic that predicts from those, and a baseline that predicts from all.

    The actor learns from how much worse the critic is than the baseline, by the policy gradient. The weights are the log-odds
    of a feature's selection, about the predicted class alone: what is above 0 is selected.
    lam: the price of selecting all features; a part of them costs in proportion, as in the authors' code. Where that code keeps
    the actor's weights small, here its log-odds are held (`certainty`), which is not in the paper.
    The other settings are those of `Selecting` and `Learned`.
    """

    method: ClassVar[str] = "invase"

    lam: float = 0.1
    epochs: int = 60
    patience: int | None = None

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        nets = super()._networks(kind, layout)
        nets["baseline"] = predictor_net(kind, layout, len(self.classes_), self.predictor_width, text="cnn")
        return nets

    def _loss(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor, rng: Source) -> Tensor:
        logits = nets["selector"](batch.x)  # (B, d)
        pi = logits.sigmoid()
        z = hard(pi, 1.0, rng) * batch.present
        critic = divergence(probs, Surrogate(nets["predictor"], features).scores(batch, z))  # (B,)
        whole = batch.present.to(pi.dtype)
        baseline = divergence(probs, Surrogate(nets["baseline"], features).scores(batch, whole))
        worse = (critic - baseline).detach()
        actor = worse * log_likelihood(logits, z, batch.present) + self.lam * share(pi, batch.present)
        actor = actor + certainty(logits, batch.present)
        return (critic + baseline + actor).mean()

    def _choice(self) -> Gates:
        return Gates(self.lam)

    def _check_settings(self) -> None:
        refuse_below(("lam", self.lam, 0))
