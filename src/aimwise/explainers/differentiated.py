"""What all methods share that use the black box's gradients: which classes, how much at once, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadBlackBox, BadSetting, extra, unknown
from aimwise.explainers.base import Explainer
from aimwise.masked import Masked

CLASSES = ("all", "predicted")
TRIED = 4
CLOSE = 0.02

Forward = Callable[[Tensor, Tensor], Tensor]
Attribute = Callable[[Forward, Int[Tensor, " b"], int], Tensor]


@dataclass(eq=False, repr=False)
class Differentiated(Explainer):
    """A method that uses the black box's gradients: for torch modules, and for features that can be kept by a share.

    classes: "all", or "predicted" for the weights of the predicted class alone, which spares the gradients of the others.
    """

    rows_at_once: ClassVar[int] = 64

    classes: str = "all"

    @property
    def every_class(self) -> bool:
        return self.classes == "all"

    @property
    def asks(self) -> bool:
        return True

    @property
    def gradients(self) -> bool:
        return True

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if self.classes not in CLASSES:
            raise unknown("classes", self.classes, CLASSES)
        box.softened()

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        refuse_without_gradient(box.softened(), data, probs)

    def _wanted(self, probs: Float[Tensor, "B C"]) -> Int[Tensor, "B K"]:
        """The classes that each row is weighed for."""
        return torch.arange(probs.shape[1], device=probs.device).expand_as(probs) if self.every_class else predicted(probs)

    def _placed(self, found: Float[Tensor, "B d K"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        """Weights for the wanted classes among those for all."""
        if self.every_class:
            return found
        empty = found.new_zeros(*found.shape[:2], probs.shape[1])
        return empty.scatter(2, predicted(probs)[:, None].expand(-1, found.shape[1], -1), found)

    def _by_gate(
        self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"], attribute: Attribute, *, draws: int, points: int
    ) -> Float[Tensor, "B d C"]:
        """What captum finds for the function from z to scores, averaged over the draws of a random fill.

        attribute: is given that function, row numbers, and how many inputs may be asked about at once. points: how many z it
        asks about for each row.
        """
        box, wanted = box.softened(), self._wanted(probs)
        boxes = list(fixed_fills(box, draws, self.seed_))

        def averaged(rows: Int[Tensor, " b"], limit: int) -> Float[Tensor, "b d K"]:
            total = torch.zeros(len(rows), batch.present.shape[1], wanted.shape[1], device=probs.device)
            for one in boxes:
                total += attribute(partial(wanted_scores, one, batch, wanted), rows, limit).detach() / len(boxes)
            return total

        found = by_portions(averaged, torch.arange(len(batch), device=probs.device), box, batch, points)
        return self._placed(found, probs)


def predicted(probs: Float[Tensor, "B C"]) -> Int[Tensor, "B 1"]:
    """The most probable class of every row."""
    return probs.argmax(1, keepdim=True)


def wanted_scores(box: Masked, batch: Batch, wanted: Tensor, z: Float[Tensor, "n d 1"], rows: Tensor) -> Float[Tensor, "n K"]:
    """The scores of each row's wanted classes with its features kept by z."""
    scores = box.scores(batch.pick(rows), z.squeeze(2), torch.Generator())  # the fill is fixed: nothing is drawn
    return scores.gather(1, wanted[rows])


def gradients_of_all(
    forward_fn: Forward,
    inputs: tuple[Tensor, ...],
    target_ind: None = None,
    additional_forward_args: tuple[Tensor, ...] = (),
) -> tuple[Tensor]:
    """The gradient of every score by z (n, d, 1), as (n, d, K), for captum, whose own function passes forward K times."""
    with torch.enable_grad():
        totals = forward_fn(*inputs, *additional_forward_args).sum(0).unbind()  # K of them
    last = len(totals) - 1
    parts = [torch.autograd.grad(total, inputs[0], retain_graph=k < last)[0] for k, total in enumerate(totals)]
    return (torch.cat(parts, 2),)


def fixed_fills(box: Masked, draws: int, seed: int) -> Iterator[Masked]:
    """The box with its fill; where that is random, with each of so many draws of it, which are the same for all inputs."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(draws if box.features.random else 1):
        yield box.through(box.features.drawn(rng))


def traced_rows(box: Masked, batch: Batch) -> int:
    """How many inputs are asked about at once when all that a model computes must be kept for its gradients."""
    return max(1, min(box.rows_per_call, box.blackbox.traced_per_call // max(batch.present.shape[1], box.features.cells)))


def by_portions(
    work: Callable[[Int[Tensor, " b"], int], Tensor], rows: Int[Tensor, " B"], box: Masked, batch: Batch, points: int
) -> Tensor:
    """What `work` finds for rows, given as many at once as there is memory for at so many points each, and that limit.

    Where a GPU has less memory than that, the black box is given half as much from then on.
    """
    limit = traced_rows(box, batch)
    found = []
    for some in torch.split(rows, max(1, limit // points)):
        try:
            found.append(work(some, limit))
            continue
        except torch.cuda.OutOfMemoryError:
            if limit == 1:
                raise
        box.blackbox.traced_per_call = max(1, box.blackbox.traced_per_call // 2)  # what the failed call held is free by now
        rest = rows[sum(map(len, found)) :]
        return torch.cat([*found, by_portions(work, rest, box, batch, points)])
    return torch.cat(found)


def normal_noise(seed: int, samples: Iterable[int], size: tuple[int, ...]) -> Float[Tensor, "S ..."]:
    """Standard normal numbers for each sample number; those of a longer input begin with those of a shorter one."""
    made = [np.random.default_rng([seed % 2**64, s]).standard_normal(size, dtype=np.float32) for s in samples]
    return torch.from_numpy(np.stack(made))


def refuse_without_gradient(box: Masked, data: Batch, probs: Tensor) -> None:
    """Refuse a module that cuts the gradient, or whose scores with gradients are not those without."""
    some = box.features.trim(data.cut(0, TRIED))
    z = torch.ones_like(some.present, dtype=torch.float32).requires_grad_()
    name = type(box.blackbox).__name__
    with torch.enable_grad():
        scores = box.scores(some, z, torch.Generator())
        slope = torch.autograd.grad(scores.sum(), z, allow_unused=True)[0] if scores.requires_grad else None
    if slope is None:
        raise BadBlackBox(
            f"No gradient flows from the scores of this {name} back to its inputs: the module detaches them, or works without "
            "gradients. Hand over the part of it that has gradients, or use a method without them."
        )
    scores = scores.detach()
    said = scores.softmax(1) if box.blackbox.output.endswith("logits") else scores
    far = float((said - probs[: len(said)]).abs().max())
    if not far < CLOSE:
        raise BadBlackBox(
            f"This {name} gives probabilities that differ by {far:.2g} when its inputs come with gradients. Whole numbers come "
            "as floats of the same size then: make the module treat both alike, or hand over floats."
        )


def check_settings(method: Explainer, least: Mapping[str, int]) -> None:
    """Refuse counts that are too small, and find out whether captum is there, before any work."""
    extra("captum", "rivals")
    for name, few in least.items():
        value = getattr(method, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < few:
            raise BadSetting(f"{name}={value!r}, wanted a whole number of at least {few}.")
