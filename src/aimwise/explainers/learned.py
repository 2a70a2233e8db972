"""What all methods that train networks share: how long and how fast, checkpoints, and what a file must hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.explainers.base import Explainer
from aimwise.explanation import Training
from aimwise.masked import Masked
from aimwise.training import ANSWERS_KEPT, Numbers, Plan, Run, train


@dataclass(frozen=True, eq=False)
class Lesson:
    """What is learned from: the black box, inputs and its answers to them; by which randomness, and where checkpoints lie."""

    box: Masked
    data: Batch
    probs: Float[Tensor, "N C"]
    seed: int
    rng: torch.Generator
    folder: Path | None
    fingerprint: str
    """What a fit must be to go on with what lies in the folder."""

    def within(self, name: str) -> Lesson:
        """The same with checkpoints in a folder of that name inside."""
        return replace(self, folder=self.folder and self.folder / name)


@dataclass(eq=False, repr=False)
class Learned(Explainer):
    """A method that trains networks once and then answers in one pass.

    epochs, patience: at most so many, and no more after so many without a better one. average: the weights used are a running
    mean with this memory. least_rows, most_rows: an epoch goes over a small data set repeatedly, over a sample of a large one.
    """

    epochs: int = 20
    patience: int | None = 6
    batch_size: int = 64
    least_rows: int = 2048
    most_rows: int | None = 8192
    lr: float = 2e-3
    schedule: str = "cosine"
    weight_decay: float = 1e-4
    average: float = 0.99

    @abstractmethod
    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        """The networks for one kind of features, with new weights."""

    def _plan(self) -> Plan:
        return Plan(
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            schedule=self.schedule,
            weight_decay=self.weight_decay,
            average=self.average,
            patience=self.patience,
            least_rows=self.least_rows,
            most_rows=self.most_rows,
        )

    def _lesson(
        self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, rng: torch.Generator, folder: Path | None
    ) -> Lesson:
        fingerprint = self._fingerprint(box, data, seed) if folder else ""
        return Lesson(box, data, probs, seed, rng, folder, fingerprint)

    def _train(
        self,
        nets: nn.ModuleDict,
        losses: Callable[[Tensor], Iterator[Tensor]],
        score: Callable[[nn.ModuleDict], Numbers],
        rows: Tensor,
        lesson: Lesson,
    ) -> Run:
        """Train networks in the one loop, keep those of the best epoch, and go on from a checkpoint if there is one."""
        run = train(
            nets,
            losses,
            score,
            rows,
            self._plan(),
            lesson.rng,
            folder=lesson.folder,
            fingerprint=lesson.fingerprint,
            answers=lesson.probs[:ANSWERS_KEPT],
            processes=lesson.box.processes,
        )
        self.nets_, self.history_, self.best_epoch_, self.stopped_ = nets, run.history, run.best, run.stopped
        return run

    def _training(self) -> Training | None:
        return Training(tuple(self.history_), self.best_epoch_, self.stopped_)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts = {"history": self.history_, "best_epoch": self.best_epoch_, "stopped": self.stopped_}
        return facts, self.nets_.state_dict()

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.history_, self.best_epoch_, self.stopped_ = facts["history"], facts["best_epoch"], facts["stopped"]
        kind, layout = box.features.kind, box.features.layout
        with torch.device("meta"):  # sizes are compared before memory is taken
            nets = self._networks(kind, layout)
        nets.load_state_dict(dict(tensors), assign=True)
        self.nets_ = nets.to(self.base_.device).eval()
