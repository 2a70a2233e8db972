"""A slow black box asked by many workers of a Ray cluster at once, each of which loaded it once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.blackbox import BlackBox, as_blackbox
from aimwise.blackbox.base import as_matrix, check_rows
from aimwise.blackbox.named import Asking, by_name
from aimwise.errors import BadBlackBox, BadSetting, extra
from aimwise.masked import some
from aimwise.progress import bar
from aimwise.scale.answers import Answers, keys_of
from aimwise.scale.ray import connected

LOSSES = 3  # workers that one block of inputs may cost


class Worker:
    """What runs on the cluster: the model, and its answers to blocks of inputs."""

    def __init__(self, model: Any, asking: Asking, folder: str) -> None:
        self.model, self.asking, self.folder = model, asking, folder

    @cached_property
    def box(self) -> BlackBox:
        """The model, loaded when it is first needed: what goes wrong then is told to whoever asked."""
        if not isinstance(self.model, str):
            return as_blackbox(self.model, class_names=self.asking.class_names)
        place = Path(self.folder)
        return by_name(self.model, asking=self.asking, folder=place if place.is_dir() else Path.cwd())

    def about(self) -> dict[str, Any]:
        """What is to be known of the model before it is asked."""
        box = self.box
        return {
            "class_names": box.class_names,
            "output": box.output,
            "inside": box.inside,
            "word_fill": box.word_fill,
            "rows_per_call": box.rows_per_call,
            "called": box.called,
        }

    def ask(self, inputs: Any, output: str) -> tuple[np.ndarray, str, tuple[str, ...] | None]:
        """The model's answers, what its outputs are, and the classes' names, as far as they are known by now."""
        if self.box.output == "auto":
            self.box.output = output
        answers: np.ndarray = as_matrix(self.box._answer(inputs), len(inputs)).detach().cpu().numpy()
        return answers, self.box.output, self.box.class_names


class Pool(BlackBox):
    """A model that workers on a Ray cluster answer for, block by block; wherever a model is wanted, a pool of it will do.

    AIM().fit(Pool("mypkg.models:clf", workers=8, folder="answers"), inputs) asks eight at a time and keeps every answer: a fit
    that was killed asks nothing twice but the blocks that were in hand. A worker that dies is started again and its block asked
    about again. The cluster is the one that Ray is connected to or that $RAY_ADDRESS names, else one of this machine.
    """

    def __init__(
        self,
        model: Any,
        *,
        workers: int = 2,
        folder: str | Path | None = None,
        rows: int = 64,
        cpus: float = 1.0,
        gpus: float = 0.0,
        asking: Asking | None = None,
    ) -> None:
        """model: its name as the command line takes it, such as "mypkg.models:clf" or "hf:FOLDER"; or the model itself.

        workers: how many of them. folder: where answers are kept; it belongs to one model, so take another one when the model has
        changed. rows: how many inputs a worker is given at once. cpus, gpus: what a worker takes of its machine.
        asking: how a model that was named is asked.
        """
        for name, value in (("workers", workers), ("rows", rows)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadSetting(f"{name}={value!r}, wanted a whole number of at least 1.")
        self.ray: Any = extra("ray", "scale")
        self.rows, self.asked = rows, 0
        self.kept = None if folder is None else Answers(Path(folder), model if isinstance(model, str) else type(model).__name__)
        connected(self.ray)
        there = self.ray.cluster_resources()
        if workers * cpus > there.get("CPU", 0) or workers * gpus > there.get("GPU", 0):
            raise BadSetting(
                f"Got workers={workers}, cpus={cpus:g}, gpus={gpus:g}, and the cluster has {there.get('CPU', 0):g} cores and "
                f"{there.get('GPU', 0):g} GPUs. Ask for fewer."
            )
        sent = model if isinstance(model, str) else self.ray.put(model)
        cls = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=-1, max_task_retries=0)(Worker)
        self.workers = [cls.remote(sent, asking or Asking(), str(Path.cwd())) for _ in range(workers)]
        with ExitStack() as if_it_fails:
            if_it_fails.callback(self.close)
            about = self._got(self.workers[0].about.remote())
            if_it_fails.pop_all()
        self.class_names, self.output = about["class_names"], about["output"]
        self.inside, self.word_fill, self.named = about["inside"], about["word_fill"], about["called"]
        self.rows_per_call = max(about["rows_per_call"], workers * rows)

    @property
    def called(self) -> str:
        return str(self.named)

    def close(self) -> None:
        """Let the workers go; the cluster stays."""
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []

    def _answer(self, inputs: Any) -> Float[Tensor, "B C"]:
        if self.kept is None or len(inputs) == 0:
            blocks = [slice(start, start + self.rows) for start in range(0, len(inputs), self.rows)] or [slice(0, 0)]
            found = dict(self._spread([some(inputs, block) for block in blocks]))
            return torch.cat([found[n] for n in range(len(blocks))])
        keys = keys_of(inputs)
        first = {key: n for n, key in reversed(list(enumerate(keys))) if key not in self.kept.rows}
        new = sorted(first.values())
        picked = [new[start : start + self.rows] for start in range(0, len(new), self.rows)]
        for n, answers in self._spread([rows_of(inputs, rows) for rows in picked]):
            check_rows(answers)
            self.kept.add([keys[row] for row in picked[n]], answers)
        return torch.from_numpy(np.stack([self.kept.rows[key] for key in keys]))

    def _spread(self, blocks: list[Any]) -> Iterator[tuple[int, Tensor]]:
        """The number of each block and the answers to it, as they come."""
        waiting, losses = deque(range(len(blocks))), dict.fromkeys(range(len(blocks)), 0)
        free = deque(self.workers)
        going: dict[Any, tuple[Any, int]] = {}
        error: Exception | None = None
        with bar(sum(map(len, blocks)), "ask") as shown:
            while going or (waiting and error is None):
                while waiting and free and error is None and not (self.output == "auto" and going):  # the first tells the others
                    worker, n = free.popleft(), waiting.popleft()
                    going[worker.ask.remote(blocks[n], self.output)] = worker, n
                (ref,), _ = self.ray.wait(list(going), num_returns=1)
                worker, n = going.pop(ref)
                free.append(worker)
                try:
                    answers, self.output, names = self._got(ref)
                except self.ray.exceptions.RayActorError as e:
                    losses[n] += 1
                    waiting.appendleft(n)
                    if losses[n] == LOSSES:
                        error = lost(len(blocks[n]), e)
                except Exception as e:  # whatever the model raises; answers that are on their way are still kept
                    error = error or e
                else:
                    self.class_names = self.class_names or names
                    self.asked += len(answers)
                    shown.update(len(answers))
                    yield n, torch.from_numpy(answers.copy())
        if error is not None:
            raise error

    def _got(self, ref: Any) -> Any:
        """What a worker returned; what the model raised there is raised here as it was."""
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as e:
            raise e.cause from e


def lost(rows: int, error: Exception) -> BadBlackBox:
    """The error for a block that ends every worker."""
    return BadBlackBox(
        f"{LOSSES} workers ended while they were asked about the same {rows} inputs, without an error of Python's "
        f"({' '.join(str(error).split())[:300]}). Does the model run out of memory there? Lower rows."
    )


def rows_of(inputs: Any, rows: Sequence[int]) -> Any:
    """The inputs of these numbers, in the form they have."""
    if len(rows) == rows[-1] - rows[0] + 1:
        return some(inputs, slice(rows[0], rows[-1] + 1))
    return [inputs[row] for row in rows] if isinstance(inputs, list) else getattr(inputs, "iloc", inputs)[np.array(rows)]
