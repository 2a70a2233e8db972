"""What L2X, VIBI, INVASE and REAL-X share: a selector of features, and a predictor of the black box's answer from those alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.errors import BadSetting, Collapsed
from aimwise.explainers.choices import Choice
from aimwise.explainers.judge import FLAT, SILENT, STILL, held_out
from aimwise.explainers.learned import Learned, Lesson
from aimwise.explainers.steps import plain_steps
from aimwise.explainers.surrogate import Surrogate
from aimwise.features.base import Features
from aimwise.masked import Masked
from aimwise.nn.losses import hardened
from aimwise.nn.rivals import logits_net, predictor_net
from aimwise.nn.sampling import Source
from aimwise.training import Numbers, Run

MANY = 16  # features, of which some can always be spared


@dataclass(eq=False, repr=False)
class Selecting(Learned):
    """A method that learns which features are enough to tell the black box's answer; it explains the predicted class alone.

    selector_width, predictor_width: how wide the dense layers of the networks for tables are.
    """

    batch_size: int = 256
    lr: float = 1e-3  # a selector that learns faster than its predictor tells the answer by which features it selects
    schedule: str = "constant"
    average: float = 0.0
    selector_width: int = 100
    predictor_width: int = 200

    @property
    def every_class(self) -> bool:
        return False

    @abstractmethod
    def _loss(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor, rng: Source) -> Tensor:
        """What one step lowers: a mean over its rows."""

    @abstractmethod
    def _choice(self) -> Choice:
        """How the selector's logits become a choice of features."""

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that make no sense."""

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        predictor = predictor_net(kind, layout, len(self.classes_), self.predictor_width, text="cnn")
        return nn.ModuleDict({"selector": logits_net(kind, layout, self.selector_width), "predictor": predictor})

    def _prepare(self, nets: nn.ModuleDict, held: Tensor, rows: Tensor, lesson: Lesson) -> None:
        """Train what must be trained before the selector."""

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        self._check_settings()
        rng = torch.Generator().manual_seed(seed)
        features = box.features
        nets = self._networks(features.kind, features.layout).to(probs.device)
        held, rows = held_out(len(data), rng)
        lesson = self._lesson(box, data, probs, seed, rng, folder)
        self._prepare(nets, held, rows, lesson)
        batch, known = features.trim(data.pick(held)), probs[held.to(probs.device)]

        def steps(order: Tensor) -> Iterator[Tensor]:
            for step, p in plain_steps(box, data, probs, order, size=self.batch_size, rng=rng):
                yield step.share.weight * self._loss(nets, features, step.batch, p, step.drawing(rng))

        def score(nets: nn.ModuleDict) -> Numbers:
            return self._score(nets, features, batch, known)

        self.still_ = bool(probs.std(0).max() < STILL)  # then there is nothing to select
        run = self._train(nets, steps, score, rows, lesson)
        if not self.still_:
            self._refuse_collapse(run)

    @torch.no_grad()
    def _score(self, nets: nn.ModuleDict, features: Features, batch: Batch, probs: Tensor) -> Numbers:
        """How near the predictor comes to the black box with the selected features alone; 1 means the same probabilities."""
        choice, logits = self._choice(), nets["selector"](batch.x)  # (B, d)
        z = choice.chosen(logits, batch.present)
        scores = Surrogate(nets["predictor"], features).scores(batch, z)
        missed = float(divergence(probs, scores).mean())
        weights, count = choice.weights(logits, batch.present), batch.present.sum(1)
        share = float((z.sum(1) / count.clamp_min(1)).mean())
        return {
            "agreement": float(torch.tensor(-missed - choice.price(share)).exp()),
            "missed": missed,
            "selected": share,
            "chosen": float(z.sum(1).mean()),
            "features": float(count.float().mean()),
            "variation": variation(weights, batch.present),
        }

    def _refuse_collapse(self, run: Run) -> None:
        """Raise if the best epoch's selector selects nothing, everything, or ranks nothing."""
        best, name = run.history[run.best], type(self).__name__
        if best["variation"] < FLAT:
            raise Collapsed(
                f"{name} gave all features the same weight (they differ by {best['variation']:.2g}), so nothing is ranked. "
                "Train for more epochs, or raise lr or tau."
            )
        if best["chosen"] < SILENT:
            raise Collapsed(
                f"{name} selects nothing ({best['chosen']:.2f} features of an input), although the black box's answers vary. "
                "Lower lam, or train for more epochs."
            )
        if best["selected"] > 1 - SILENT and best["features"] > MANY and self._choice().price(1.0) > 0:
            raise Collapsed(
                f"{name} selects everything ({100 * best['selected']:.0f} % of {best['features']:.0f} features). "
                "Raise lam, or train for more epochs."
            )

    @torch.no_grad()
    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        weights = self._choice().weights(self.nets_["selector"](batch.x), batch.present) * (not self.still_)  # (B, d)
        return weights[..., None] * hardened(probs)[:, None]

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._learned()
        return facts | {"still": self.still_}, tensors

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super()._restore(box, facts, tensors)
        self.still_ = bool(facts["still"])


def variation(weights: Float[Tensor, "B d"], present: Bool[Tensor, "B d"]) -> float:
    """The largest deviation of the weights of an input's features; 1 where no input has two."""
    count = present.sum(1)  # (B,)
    mean = (weights * present).sum(1) / count.clamp_min(1)
    squares = ((weights - mean[:, None]) * present).square().sum(1) / (count - 1).clamp_min(1)
    several = squares[count > 1].sqrt()
    return float(several.max()) if len(several) else 1.0


def divergence(probs: Float[Tensor, "B C"], scores: Float[Tensor, "B C"]) -> Float[Tensor, " B"]:
    """KL(probs || softmax(scores)) of every row."""
    return (torch.xlogy(probs, probs) - probs * scores.log_softmax(-1)).sum(-1)


def refuse_below(*settings: tuple[str, int | float, int | float], above: bool = False) -> None:
    """Refuse settings, each given by its name, value and least value; `above` means that the least itself will not do either."""
    for name, value, least in settings:
        if not (value > least or (value == least and not above)):
            raise BadSetting(f"{name}={value!r}, wanted {'more than' if above else 'at least'} {least:g}.")
