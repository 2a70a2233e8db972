"""Metrics: functions from what the black box said to one number an input, each with a direction and a unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from aimwise.metrics.ablation import Ablation as Ablation
from aimwise.metrics.ablation import ablate as ablate
from aimwise.metrics.ablation import ablations as ablations
from aimwise.metrics.faithfulness import (
    comprehensiveness,
    divergence,
    faithfulness,
    flips,
    negative_log_odds,
    positive_log_odds,
    sufficiency,
)

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A function of an ablation to (B,), which way is better, and what its numbers are."""

    measure: Callable[[Ablation], Tensor]
    better: Better
    unit: str


METRICS: dict[str, Metric] = {
    "faithfulness": Metric(faithfulness, "higher", "share"),
    "sufficiency": Metric(sufficiency, "lower", "probability"),
    "comprehensiveness": Metric(comprehensiveness, "higher", "probability"),
    "flips": Metric(flips, "higher", "share"),
    "kl": Metric(divergence, "lower", "nats"),
    "positive_log_odds": Metric(positive_log_odds, "higher", "log-odds"),
    "negative_log_odds": Metric(negative_log_odds, "lower", "log-odds"),
}
