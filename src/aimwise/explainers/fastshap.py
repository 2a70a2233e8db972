"""FastSHAP: Shapley values from one pass of a network that was trained once (Jethani et al., ICLR 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.errors import BadSetting, Collapsed, unknown
from aimwise.explainers.asked import Asked
from aimwise.explainers.base import overlap
from aimwise.explainers.judge import MASKS, UNRELATED, Judge, held_out
from aimwise.explainers.learned import Learned, Lesson
from aimwise.explainers.steps import Ask, asked_steps
from aimwise.explainers.surrogate import Surrogate
from aimwise.masked import Masked
from aimwise.nn.build import family
from aimwise.nn.losses import additive
from aimwise.nn.sampling import shapley_masks
from aimwise.training import Numbers

SMALLEST = 1e-6
LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda probs: probs,
    "logit": lambda probs: probs.clamp_min(SMALLEST).log() - probs.clamp_min(SMALLEST).log().mean(-1, keepdim=True),
}
"""In what a feature's contribution is counted."""


@dataclass(eq=False, repr=False)
class FastSHAP(Learned):
    """Train a network whose weights fit v(S) - v(nothing) on sets S from the Shapley kernel: its answers are Shapley values.

    The weights of an input add up to v(all) - v(nothing) exactly, for every class.
    link: v in probabilities ("identity"), or in log-probabilities less their mean over the classes ("logit").
    surrogate: v(S) by the masked black box itself (False), or by a network trained first to say from S alone what the black
    box says of the whole (True), which asks the black box about whole inputs only.
    masks_per_row: how many sets are drawn for a row at each step, in complementary pairs.
    most_queries: a fit that would ask about more sets asks about so many once, and learns from them again and again.
    The other settings are those of `Learned`.
    """

    method: ClassVar[str] = "fastshap"

    link: str = "identity"
    surrogate: bool = False
    masks_per_row: int = 16
    most_queries: int | None = 1 << 19

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        self._check_settings()
        rng = torch.Generator().manual_seed(seed)
        lesson = self._lesson(box, data, probs, seed, rng, folder)
        nets = self._networks(box.features.kind, box.features.layout).to(probs.device)
        asked: Asked | None = None
        ask: Ask = box.each
        if self.surrogate:
            judge, rows, ask = self._in_place_of_the_box(lesson)
        else:
            judge, rows = Judge.hold_out(box, data, probs, rng, draw=shapley_masks)
            asked = Asked.within_budget(box, data, rows, self.masks_per_row, self.most_queries, self._plan(), rng)
            if asked is not None:
                asked.ask(lesson, shapley_masks)
                rows = asked.rows
        value = LINKS[self.link]

        def steps(order: Tensor) -> Iterator[Tensor]:
            asked_for = asked_steps(
                box,
                data,
                probs,
                order,
                size=self.batch_size,
                masks=self.masks_per_row,
                asked=asked,
                draw=shapley_masks,
                ask=ask,
                rng=rng,
            )
            for step, known, z, said, _ in asked_for:
                batch = step.batch
                phi = self._shared_out(nets["explainer"](batch.x, known), batch.present, known)  # (B, d, C)
                gain = additive(phi, z, value(self.base_.softmax(-1)))  # (B, M, C)
                yield step.share.weight * (value(said) - gain).square().sum(-1).mean()

        def score(nets: nn.ModuleDict) -> Numbers:
            with torch.no_grad():
                phi = self._shared_out(nets["explainer"](judge.batch.x, judge.probs), judge.batch.present, judge.probs)
            gain = additive(phi, judge.z, value(self.base_.softmax(-1)))  # (B, M, C)
            said = gain.softmax(-1) if self.link == "logit" else gain
            numbers = {"agreement": float(overlap(said, judge.said).mean()), "tracking": judge.tracking(phi)}
            return numbers | {"queries": float(box.meter.queries)}

        run = self._train(nets, steps, score, rows, lesson)
        best = run.history[run.best]
        if not judge.still() and best["tracking"] < UNRELATED:
            raise Collapsed(
                f"The weights do not follow the black box: correlation {best['tracking']:.2f} on held-out masks. "
                "Train on more rows or for more epochs, or try another fill."
            )

    def _in_place_of_the_box(self, lesson: Lesson) -> tuple[Judge, Tensor, Ask]:
        """A judge by a trained surrogate, the rows to learn from, and its answers to masks; it also says where weights start."""
        box, data, probs, rng = lesson.box, lesson.data, lesson.probs, lesson.rng
        held, rows = held_out(len(data), rng)
        net = family(box.features.kind, "default").approximator(box.features.layout, len(self.classes_)).to(probs.device)
        made = Surrogate.trained(net, self._train, held, rows, lesson, size=self.batch_size)
        batch = box.features.trim(data.pick(held))
        z = shapley_masks(batch.present, MASKS, rng)
        nothing = made.each(batch.cut(0, 1), torch.zeros_like(z[:1, :1]), rng)[0, 0]  # (C,)
        self.base_ = nothing.clamp_min(SMALLEST).log()
        return Judge(batch, probs[held.to(probs.device)], z, made.each(batch, z, rng)), rows, made.each

    def _shared_out(
        self, phi: Float[Tensor, "B d C"], present: Bool[Tensor, "B d"], probs: Float[Tensor, "B C"]
    ) -> Float[Tensor, "B d C"]:
        """Weights that add up to v(all) - v(nothing): what is missing is shared out equally over the features there are."""
        value = LINKS[self.link]
        phi = phi * present[..., None]
        missing = value(probs) - value(self.base_.softmax(-1)) - phi.sum(1)  # (B, C)
        return phi + (missing / present.sum(1, keepdim=True).clamp_min(1))[:, None] * present[..., None]

    @torch.no_grad()
    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        return self._shared_out(self.nets_["explainer"](batch.x, probs), batch.present, probs)

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        return nn.ModuleDict({"explainer": family(kind, "default").explainer(layout, len(self.classes_))})

    def _check_settings(self) -> None:
        if self.link not in LINKS:
            raise unknown("link", self.link, LINKS)
        if self.masks_per_row < 1:
            raise BadSetting(f"masks_per_row={self.masks_per_row}, wanted at least 1.")
