"""Portions of rows explained by the workers of a Ray cluster; a worker that is lost costs the portion it had in hand."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from aimwise.errors import BadBlackBox, BadSetting, extra
from aimwise.scale.loading import Loading
from aimwise.scale.portion import Job, Order, finished

IN_HAND = 2  # portions that a worker has: one that it works on, one that waits
AHEAD = 2  # portions for each worker that are read and not done, beside those in hand
LOSSES = 3  # workers that one portion may cost
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class Worker:
    """What runs on the cluster: an explainer and its model, loaded when they are first needed."""

    def __init__(self, loading: Loading, order: Order) -> None:
        self.loading, self.order = loading, order

    def ready(self) -> None:
        """Load the explainer and its model."""
        self.explainer = self.loading.load().explainer

    def explain(self, job: Job) -> dict[str, Any]:
        """Explain a portion and write its part."""
        return finished(self.explainer, self.order, job)


@dataclass(eq=False)
class Hand:
    """A worker as this side sees it: whether it is up, and the numbers of the portions that it has."""

    actor: Any
    up: bool = False
    has: deque[int] = field(default_factory=deque)
    losses: int = 0


@dataclass(frozen=True, eq=False)
class Workers:
    """An engine of so many workers, by default one for each core of the cluster.

    The cluster is the one that Ray is connected to, that $RAY_ADDRESS names or that runs here; without one, a cluster of this
    machine is started, and stopped in the end. gpus: the share of a GPU that every worker has. note: is told what happens.
    """

    loading: Loading
    count: int | None = None
    gpus: float = 0.0
    note: Callable[[str], None] = lambda text: None

    def __call__(self, order: Order, jobs: Iterator[Job]) -> Generator[dict[str, Any], None, None]:
        """The facts of every portion, in the order of the portions."""
        ray = extra("ray", "scale")
        begun = connected(ray)
        hands: list[Hand] = []
        try:
            hands = self._hired(ray, order)
            yield from Run(ray, hands, self.note).facts(jobs)
        finally:
            for hand in hands:
                ray.kill(hand.actor)
            if begun:
                ray.shutdown()

    def _hired(self, ray: Any, order: Order) -> list[Hand]:
        """The workers, which come up one after the other."""
        there = ray.cluster_resources()
        cores, gpus = int(there.get("CPU", 0)), float(there.get("GPU", 0))
        count = self.count or max(1, int(min(cores, gpus / self.gpus) if self.gpus else cores))
        if self.gpus * count > gpus or count > cores:
            raise BadSetting(
                f"Got {count} workers with a core and {self.gpus:g} of a GPU each, and the cluster has {cores} cores and "
                f"{gpus:g} GPUs. Ask for fewer: --workers."
            )
        unused = f", {gpus:g} GPUs unused (--worker-gpus)" if gpus and not self.gpus else ""
        nodes = len(ray.nodes())
        self.note(f"ray: {count} worker{'s' * (count != 1)} on {nodes} machine{'s' * (nodes != 1)}{unused}")
        cls = ray.remote(num_cpus=1, num_gpus=self.gpus, max_restarts=-1, max_task_retries=0)(Worker)
        return [Hand(cls.remote(self.loading, order)) for _ in range(count)]


def connected(ray: Any) -> bool:
    """Be connected to a cluster; returns whether that was begun here."""
    if ray.is_initialized():
        return False
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    return True


class Run:
    """Jobs that are handed to workers, and facts that come back in any order and are passed on in theirs."""

    def __init__(self, ray: Any, hands: list[Hand], note: Callable[[str], None]) -> None:
        self.ray, self.hands, self.note = ray, hands, note
        self.calls: dict[Any, tuple[Hand, int | None]] = {}
        self.jobs: dict[int, tuple[Any, Job]] = {}
        """By number: those that are read and not passed on, with the place of each in Ray's store."""
        self.waiting: deque[int] = deque()
        self.done: dict[int, dict[str, Any]] = {}
        self.losses: dict[int, int] = {}

    def facts(self, jobs: Iterator[Job]) -> Generator[dict[str, Any], None, None]:
        """The facts of all jobs, in the order of the jobs."""
        for hand in self.hands:
            self._wake(hand)
        more = True
        while more or self.jobs:
            while more and len(self.jobs) < (IN_HAND + AHEAD) * len(self.hands) and not self._paged():
                job = next(jobs, None)
                more = job is not None
                if job is not None:
                    self.jobs[job.index] = (self.ray.put(job), job)
                    self.waiting.append(job.index)
                    self._assign()
            if self.jobs:
                self._assign()
                self._wait()
            while self.jobs and (first := next(iter(self.jobs))) in self.done:
                del self.jobs[first]
                yield self.done.pop(first)

    def _paged(self) -> bool:
        """Whether a job is under way that the page shows: how much room is left there is known when it is done."""
        return any(job.paged for _, job in self.jobs.values())

    def _wake(self, hand: Hand) -> None:
        """Let a worker load what it needs."""
        self.calls[hand.actor.ready.remote()] = (hand, None)

    def _assign(self) -> None:
        """Give jobs to the workers that have the fewest."""
        while self.waiting:
            free = [hand for hand in self.hands if hand.up and len(hand.has) < IN_HAND]
            if not free:
                return
            hand, index = min(free, key=lambda h: len(h.has)), self.waiting.popleft()
            self.calls[hand.actor.explain.remote(self.jobs[index][0])] = (hand, index)
            hand.has.append(index)

    def _wait(self) -> None:
        """Take what comes next: a worker that is up, facts, or the news that a worker is lost."""
        for ref in self.ray.wait(list(self.calls), num_returns=1)[0]:
            hand, index = self.calls.pop(ref)
            try:
                found = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as e:
                raise e.cause from e
            except self.ray.exceptions.RayActorError as e:
                self._lost(hand, index, e)
                continue
            hand.losses = 0
            if index is None:
                hand.up = True
            else:
                hand.has.remove(index)
                self.done[index] = found

    def _lost(self, hand: Hand, index: int | None, error: Exception) -> None:
        """A worker is lost: what it had is done again by another, or by itself when Ray has started it anew."""
        if index is None:
            hand.losses += 1
            if hand.losses > LOSSES:
                raise BadBlackBox(
                    f"A worker ended {hand.losses} times while it loaded the model, without an error of Python's "
                    f"({' '.join(str(error).split())[:300]})."
                )
        else:
            if hand.up:  # the portions that it had beside are not to blame
                self._count(hand.has[0])
            hand.has.remove(index)
            self.waiting = deque(sorted([index, *self.waiting]))
        if hand.up or index is None:
            hand.up = False
            self._wake(hand)

    def _count(self, index: int) -> None:
        """Note the loss of the worker that had a portion in hand; too many are the portion's fault."""
        portion = self.jobs[index][1].portion
        rows = f"the rows {portion.start} to {portion.stop - 1}"
        self.losses[index] = self.losses.get(index, 0) + 1
        if self.losses[index] >= LOSSES:
            raise BadBlackBox(
                f"{LOSSES} workers ended while they explained {rows}, without an error of Python's. Does the model run out of "
                "memory there? Ask for a smaller --batch-size or --model-batch, or find the row with --engine local."
            )
        self.note(f"a worker is lost; {rows} are done again")
