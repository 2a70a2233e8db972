"""How a selector's logits become a choice of features: the K largest, or each feature by itself."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from aimwise.nn import sampling

SURE = 3.0  # log-odds of 20 to 1
HOLD = 0.1


@dataclass(frozen=True)
class Top:
    """The K features of the largest logits, which are those of a softmax over all features."""

    k: int

    def chosen(self, logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """1 for the features that are selected, 0 for the others."""
        return sampling.top(logits, present, self.k)

    def weights(self, logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """Weights by which features are ranked: logits, less their mean, which softmax does not see."""
        count = present.sum(1, keepdim=True).clamp_min(1)
        return logits - (logits * present).sum(1, keepdim=True) / count

    def price(self, selected: float) -> float:
        """What selecting such a share of the features costs: nothing, since their number is given."""
        return 0.0


@dataclass(frozen=True)
class Gates:
    """Each feature whose logit, the log-odds of its own selection, is above 0. lam: the price of selecting all."""

    lam: float

    def chosen(self, logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """1 for the features that are selected, 0 for the others."""
        return (logits > 0).to(logits.dtype) * present

    def weights(self, logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """Weights by which features are ranked; what is above 0 is selected."""
        return logits

    def price(self, selected: float) -> float:
        """What selecting such a share of the features costs."""
        return self.lam * selected


Choice = Top | Gates


def log_likelihood(logits: Float[Tensor, "B d"], z: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The log-probability of a selection when each feature is selected by itself."""
    each = nn.functional.logsigmoid(logits) * z + nn.functional.logsigmoid(-logits) * (1 - z)
    return (each * present).sum(1)


def share(pi: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """The expected share of the features that is selected."""
    return (pi * present).sum(1) / present.sum(1).clamp_min(1)


def certainty(logits: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> Float[Tensor, " B"]:
    """A price on selections that are surer than 20 to 1 either way: from those a sample never departs, and nothing is learned."""
    beyond = (logits.abs() - SURE).clamp_min(0).square() * present
    return HOLD * beyond.sum(1) / present.sum(1).clamp_min(1)
