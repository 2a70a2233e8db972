"""Functional information (Gat et al. 2022): how strongly a class's probability changes among inputs near the one explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadFile, BadSetting
from aimwise.explainers.differentiated import Differentiated, by_portions, normal_noise, predicted, traced_rows
from aimwise.masked import Masked

LEARNED_FROM = 2048  # inputs
SMALLEST = 1e-20


@dataclass(eq=False, repr=False)
class FunctionalInformation(Differentiated):
    """The mean of g' S g / f over points around the input, where f is a class's probability and g its gradient.

    Points are drawn from a normal distribution whose covariance S is that of the inputs predicted to be of the same class,
    scaled. Of texts the embeddings are moved, each with the full covariance of the class's embeddings, and the sum over a word's
    is its weight; of tables and images each number by itself, and the sum over a feature's is its weight. No weight is below 0:
    it tells how much a feature matters to a class, not which way. All inputs get the same noise.

    samples: how many points. scale: by what the covariance is multiplied. classes: as in `Differentiated`.
    """

    method: ClassVar[str] = "fi"

    samples: int = 100
    scale: float = 0.15

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < 1 or not self.scale > 0:
            raise BadSetting(f"Got samples={self.samples}, scale={self.scale}; wanted samples of at least 1, scale above 0.")

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        super()._fit(box, data, probs, seed, folder)
        box = box.softened()
        rows = torch.linspace(0, len(data) - 1, min(len(data), LEARNED_FROM), device=probs.device).long()
        spread = Spread(probs.shape[1])
        for part in torch.split(rows, traced_rows(box, data)):
            batch, own = box.features.trim(data.pick(part)), predicted(probs[part])[:, 0]

            def look(at: Tensor, values: Tensor, owner: Tensor | None, batch: Batch = batch, own: Tensor = own) -> Tensor:
                known = None if owner is None else belongs(batch, at, owner).cpu()
                spread.add(values.detach().cpu(), own[at.to(own.device)].cpu(), known)
                return values

            box.near(batch, look)
        self.factor_ = spread.factors(self.scale).float().to(probs.device)

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        box, wanted, own = box.softened(), self._wanted(probs), predicted(probs)[:, 0]
        found = torch.zeros(*batch.present.shape, wanted.shape[1], device=probs.device)  # (B, d, K)
        samples = torch.arange(self.samples)
        for c in torch.unique(own).tolist():

            def averaged(rows: Int[Tensor, " b"], limit: int, c: int = c) -> Float[Tensor, "b d K"]:
                total = torch.zeros(len(rows), *found.shape[1:], device=probs.device)
                for some in torch.split(samples, max(1, limit // len(rows))):
                    many = rows.repeat_interleave(len(some))
                    told = self._told(box, batch.pick(many), wanted[many], self.factor_[c], some)  # (b * s, d, K)
                    total += told.reshape(len(rows), len(some), *told.shape[1:]).sum(1) / self.samples
                return total

            rows = (own == c).nonzero()[:, 0]
            found[rows] = by_portions(averaged, rows, box, batch, self.samples)
        return self._placed(found, probs)

    def _told(self, box: Masked, batch: Batch, wanted: Tensor, factor: Tensor, some: Tensor) -> Tensor:
        """g' S g / f within each feature at one point near each row; the rows stand in groups, one for each sample."""
        seen: list[tuple[Tensor, Tensor, Tensor | None]] = []

        def move(at: Tensor, values: Tensor, owner: Tensor | None) -> Tensor:
            noise = normal_noise(self.seed_, some.tolist(), tuple(values.shape[1:])).to(factor)[
                (at % len(some)).to(factor.device)
            ]
            noise = noise * factor if owner is None else noise @ factor.T * belongs(batch, at, owner).to(factor)[..., None]
            leaf = (values.detach() + noise.to(values)).requires_grad_()
            seen.append((at, leaf, owner))
            return leaf

        with torch.enable_grad():
            chosen = box.near(batch, move).gather(1, wanted)  # (n, K)
            totals = chosen.sum(0).unbind()
        out = torch.zeros(*batch.present.shape, wanted.shape[1], device=wanted.device)  # (n, d, K)
        for k, total in enumerate(totals):
            slopes = torch.autograd.grad(total, [leaf for _, leaf, _ in seen], retain_graph=k + 1 < len(totals))
            for (at, _, owner), g in zip(seen, slopes, strict=True):
                at = at.to(wanted.device)
                g = g.to(factor)
                if owner is None:
                    told = box.features.gathered(batch, (g * factor) ** 2)
                else:
                    each = ((g @ factor) ** 2).sum(-1) * belongs(batch, at, owner)  # (b, L)
                    told = torch.zeros(len(at), out.shape[1], device=out.device)
                    told = told.scatter_add(1, owner.to(out.device).clamp(0, out.shape[1] - 1), each)
                out[at, :, k] += told / chosen[at, k, None].detach().clamp_min(SMALLEST)
        return out

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"factor": self.factor_}

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        factor = tensors["factor"]
        if len(factor) != len(self.classes_):
            raise BadFile(f"{len(self.classes_)} classes but a factor of shape {tuple(factor.shape)}.")
        self.factor_ = factor.to(self.base_.device)


def belongs(batch: Batch, at: Int[Tensor, " b"], owner: Int[Tensor, "b L"]) -> Bool[Tensor, "b L"]:
    """Which embeddings belong to a feature that is there."""
    present = batch.present[at.to(batch.present.device)]
    owner = owner.to(present.device)
    inside = (owner >= 0) & (owner < present.shape[1])
    return inside & present.gather(1, owner.clamp(0, present.shape[1] - 1))


class Spread:
    """How the numbers that a model computes with vary among the inputs of each class, learned part by part."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.count = torch.zeros(classes, dtype=torch.float64)
        self.total: Tensor | None = None
        self.square: Tensor | None = None

    def add(self, values: Tensor, own: Int[Tensor, " b"], known: Tensor | None) -> None:
        """Take in numbers of rows and their classes; of embeddings (b, L, e) only those that are `known` (b, L) to count."""
        full = known is not None
        if known is not None:
            values, own = values[known], own[:, None].expand(known.shape)[known]  # (t, e), (t,)
        size = values.shape[1:]
        if self.total is None or self.square is None:
            self.total = torch.zeros(self.classes, *size, dtype=torch.float64)
            self.square = torch.zeros(self.classes, *size, *(size if full else ()), dtype=torch.float64)
        for c in torch.unique(own).tolist():
            v = values[own == c].double()
            self.count[c] += len(v)
            self.total[c] += v.sum(0)
            self.square[c] += v.T @ v if full else (v * v).sum(0)

    def factors(self, scale: float) -> Tensor:
        """For each class a root of its scaled covariance: (C, e, e) of embeddings, or a standard deviation for every number.

        A class of fewer than two gets that of all together.
        """
        assert self.total is not None
        assert self.square is not None
        full = self.square.ndim > self.total.ndim
        found = []
        for c in range(self.classes):
            among = torch.tensor([c]) if self.count[c] > 1 else torch.arange(self.classes)
            n = self.count[among].sum().clamp_min(1)
            mean, square = self.total[among].sum(0) / n, self.square[among].sum(0) / n
            if full:
                variance, axes = torch.linalg.eigh(scale * (square - torch.outer(mean, mean)))
                found.append(axes * variance.clamp_min(0).sqrt())
            else:
                found.append((scale * (square - mean**2)).clamp_min(0).sqrt())
        return torch.stack(found)
