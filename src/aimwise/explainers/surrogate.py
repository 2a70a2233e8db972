"""A network trained first, on random parts of inputs, to say what the black box says of the whole; then it is frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.explainers.base import overlap
from aimwise.explainers.learned import Lesson
from aimwise.explainers.steps import plain_steps
from aimwise.features.base import Features
from aimwise.nn.losses import cross_entropy
from aimwise.nn.sampling import uniform_masks
from aimwise.training import Numbers, Run

Train = Callable[..., Run]

NAME = "predictor"
MASKS = 8  # of each held-out row


@dataclass(frozen=True)
class Surrogate:
    """The expected answer of the black box, given a part of an input: p(y | x_S)."""

    net: nn.Module
    features: Features

    def scores(self, batch: Batch, z: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        """Class scores of the kept part of every row."""
        out: Tensor = self.net(batch.x, self.features.spread(batch, z * batch.present))
        return out

    def each(self, batch: Batch, z: Float[Tensor, "B M d"], rng: torch.Generator) -> Float[Tensor, "B M C"]:
        """Probabilities for M masks of every row."""
        M = z.shape[1]
        gate = self.features.spread(batch, z * batch.present[:, None]).flatten(0, 1)  # (B * M, p)
        with torch.no_grad():
            scores: Tensor = self.net(batch.x.repeat_interleave(M, 0), gate)
        return scores.softmax(-1).reshape(len(batch), M, scores.shape[1])

    @classmethod
    def trained(
        cls,
        net: nn.Module,
        train: Train,
        held: Tensor,
        rows: Tensor,
        lesson: Lesson,
        *,
        size: int,
    ) -> Surrogate:
        """Train a network on masks of every size; judge it on those of held-out rows.

        train: the loop, as `Learned._train`. size: rows a step.
        """
        box, data, probs, rng = lesson.box, lesson.data, lesson.probs, lesson.rng
        features, nets = box.features, nn.ModuleDict({NAME: net})
        draw = partial(uniform_masks, noise=features.noise)
        batch, known = features.trim(data.pick(held)), probs[held.to(probs.device)]
        z = draw(batch.present, MASKS, rng)

        def losses(order: Tensor) -> Iterator[Tensor]:
            for step, p in plain_steps(box, data, probs, order, size=size, rng=rng):
                mask = step.own(draw(step.whole.present, 1, rng)[:, 0])[:, : step.batch.present.shape[1]]  # (B, d)
                yield step.share.weight * cross_entropy(p, cls(nets[NAME], features).scores(step.batch, mask))

        def score(nets: nn.ModuleDict) -> Numbers:
            said = cls(nets[NAME], features).each(batch, z, rng)
            return {"agreement": float(overlap(said, known[:, None]).mean())}

        train(nets, losses, score, rows, lesson.within(NAME))
        return cls(net.eval().requires_grad_(False), features)
