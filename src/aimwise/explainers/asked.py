"""Answers about random masks, asked for once and learned from in every epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from aimwise.batch import Batch
from aimwise.errors import BadFile, OutOfQueries
from aimwise.explainers.learned import Lesson
from aimwise.files import load_tensors, save_tensors, write_whole
from aimwise.masked import Masked
from aimwise.training import ANSWERS_KEPT, Plan, same_answers

Draw = Callable[[Tensor, int, torch.Generator], Tensor]

FILE = "answers.safetensors"
FEWEST = 4  # masks of a row: rather fewer rows than fewer masks of each
MOST_CELLS = 1 << 28  # of all masks together
ROWS = 2048  # that are asked about together
SPARED = 0.1  # of the questions, for those that must be asked again
PORTIONS = 16  # in which rows are asked about where questions may have to be asked again


@dataclass
class Asked:
    """Masks of each of n rows and what the black box said of them."""

    rows: Int[Tensor, " n"]
    place: Int[Tensor, " N"]  # where a row's masks stand below
    masks: int  # of each row
    z: Tensor = field(default_factory=lambda: torch.zeros(0))  # (n, M, d)
    said: Tensor = field(default_factory=lambda: torch.zeros(0))  # (n, M, C)

    @classmethod
    def within_budget(
        cls,
        box: Masked,
        data: Batch,
        rows: Int[Tensor, " n"],
        masks: int,
        most: int | None,
        plan: Plan,
        rng: torch.Generator,
    ) -> Asked | None:
        """None if the black box may be asked about fresh masks in every epoch; else room for as many as it may be asked about.

        most: asking about more than so many masks is not worth the time, even if it is allowed.
        """
        allowed = box.meter.left
        if allowed is not None and box.retries:
            allowed -= int(allowed * SPARED)
        left = min((limit for limit in (allowed, most) if limit is not None), default=None)
        if left is None or left >= plan.epochs * plan.rows(len(rows)) * masks:
            return None
        if left < 1:
            raise OutOfQueries(f"{left} queries are left to learn from {len(rows)} rows. Raise max_queries.")
        some = rows[torch.randperm(len(rows), generator=rng)[: max(1, left // FEWEST)]] if left < FEWEST * len(rows) else rows
        each = min(left // len(some), max(FEWEST, MOST_CELLS // (len(some) * data.present.shape[1])))
        place = torch.full((len(data),), -1)
        place[some] = torch.arange(len(some))
        return cls(some, place, each)

    def ask(self, lesson: Lesson, draw: Draw) -> None:
        """Ask about masks of all rows, inputs of like size together; or read the answers that the same fit got before."""
        box, data, probs = lesson.box, lesson.data, lesson.probs
        file = None if lesson.folder is None else lesson.folder / FILE
        with box.processes.read(file) as kept:
            if kept is not None:
                self.z, self.said = self._read(kept, lesson)
                return
        rng = torch.Generator().manual_seed(
            lesson.seed + 1
        )  # the lesson's own goes on alike whether answers are asked for or read
        width, order = data.present.shape[1], by_size(data, self.rows)
        self.z = torch.zeros(len(self.rows), self.masks, width, dtype=torch.bool, device=data.present.device)
        self.said = torch.zeros(len(self.rows), self.masks, probs.shape[1], device=probs.device)
        portions = torch.split(order, max(1, len(order) // PORTIONS) if box.retries else ROWS)
        for i, index in enumerate(portions):
            block, at = box.features.trim(data.pick(index)), self.place[index]
            z = draw(block.present, self.masks, rng)  # (b, M, d')
            self.z[at] = pad(z.bool(), (0, width - z.shape[2]))
            try:
                self.said[at] = box.each(block, z, rng).to(self.said)
            except OutOfQueries:  # questions that were asked again have used them up
                if i == 0:
                    raise
                self._keep(torch.cat(portions[:i]))
                return
        if file is not None and box.processes.leads:
            packed = torch.from_numpy(np.packbits(self.z.cpu().numpy(), axis=-1))
            tensors = {"z": packed, "said": self.said, "answers": probs[:ANSWERS_KEPT]}
            write_whole(file, lambda path: save_tensors(path, tensors, {"aimwise": lesson.fingerprint}))

    def _keep(self, rows: Int[Tensor, " n"]) -> None:
        """Go on with these rows alone."""
        at = self.place[rows]
        self.z, self.said, self.rows = self.z[at.to(self.z.device)], self.said[at.to(self.said.device)], rows
        self.place = torch.full_like(self.place, -1)
        self.place[rows] = torch.arange(len(rows))

    def draw(self, rows: Int[Tensor, " A"], masks: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Some of the masks of these rows, and the answers to them."""
        if self.masks > 4 * masks:  # one mask twice is rare and does no harm
            chosen = torch.randint(self.masks, (len(rows), masks), generator=rng)  # (A, M)
        else:
            chosen = torch.rand(len(rows), self.masks, generator=rng).argsort(1)[:, :masks]
        at, chosen = self.place[rows].to(self.z.device)[:, None], chosen.to(self.z.device)
        return self.z[at, chosen].float(), self.said[at, chosen]

    def _read(self, file: Path, lesson: Lesson) -> tuple[Tensor, Tensor]:
        tensors, metadata = load_tensors(file)
        if metadata.get("aimwise") != lesson.fingerprint or set(tensors) != {"z", "said", "answers"}:
            raise BadFile(
                f"{file} belongs to a fit with other settings, data, features or seed. "
                "Choose another folder, or remove it to start afresh."
            )
        if not same_answers(tensors["answers"], lesson.probs[:ANSWERS_KEPT]):
            raise BadFile(f"{file} belongs to a fit of another model. Choose another folder, or remove it to start afresh.")
        present = lesson.data.present
        z = torch.from_numpy(np.unpackbits(tensors["z"].numpy(), axis=-1, count=present.shape[1]).astype(bool))
        return z.to(present.device), tensors["said"].to(lesson.probs.device)


def by_size(data: Batch, rows: Tensor) -> Tensor:
    """Row numbers from the input of the fewest features to that of the most."""
    return rows[data.present[rows.to(data.present.device)].sum(1).argsort(stable=True).cpu()]
