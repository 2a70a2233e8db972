"""The one question of this library: what does the black box say about x when feature i is kept by a share z_i?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.blackbox import BlackBox
from aimwise.blackbox.base import Move, no_gradients
from aimwise.errors import AimwiseError, BadBlackBox, OutOfQueries
from aimwise.features.base import Features
from aimwise.processes import ALONE, Processes
from aimwise.progress import bar

CALLS = 50  # at least, in which as many inputs are asked about as are allowed, where a call may fail
MOST_CELLS = 1 << 26  # numbers that inputs handed over at once may have together


@dataclass
class Meter:
    """How many inputs the black box was asked about, how many it may be asked about, and how long it took."""

    queries: int = 0
    most: int | None = None
    since: int = 0  # the queries before those that the limit is about
    seconds: float = 0.0

    @property
    def left(self) -> int | None:
        """How many more inputs it may be asked about; None if there is no limit."""
        return None if self.most is None else self.most - self.queries

    def take(self, n: int) -> None:
        """Count n more, or refuse."""
        self.allow(n)
        self.queries += n

    def allow(self, n: int) -> None:
        """Refuse if n more are too many."""
        if self.most is not None and self.queries + n > self.most:
            raise OutOfQueries(
                f"The black box was asked about {self.queries - self.since} inputs, {n} more would pass "
                f"max_queries={self.most - self.since}. "
                "Raise max_queries, or ask for less (fewer epochs, masks or rows)."
            )

    @contextmanager
    def limit(self, more: int | None) -> Iterator[None]:
        """Inside, only so many more inputs may be asked about."""
        before = self.most, self.since
        if more is not None:
            self.most, self.since = self.queries + more, self.queries
        try:
            yield
        finally:
            self.most, self.since = before


@dataclass(frozen=True)
class Masked:
    """A black box seen through its features: (batch, z) -> probabilities."""

    blackbox: BlackBox
    features: Features
    retries: int = 0
    draws: int = 1
    meter: Meter = field(default_factory=Meter)
    processes: Processes = ALONE
    """Who asks together: each about its share of the inputs, and all get all answers."""

    def __post_init__(self) -> None:
        fill, able = self.features.inside, self.blackbox.inside
        if fill is not None and fill not in able:
            name = type(self.blackbox).__name__
            raise BadBlackBox(
                f"fill={fill!r} happens inside the model, and {name} {'can do ' + ', '.join(sorted(able)) if able else 'cannot'} "
                "there. Choose another fill, or hand over the network itself: aimwise.TextBox(module, tokenizer) for texts, "
                "aimwise.TorchBox(module) for token ids."
            )

    @property
    def rows_per_call(self) -> int:
        """How many inputs the black box is asked about at once."""
        most = min(self.blackbox.rows_per_call, MOST_CELLS // self.features.cells)
        if self.retries and self.meter.most is not None:  # a call that fails costs little of what is allowed
            most = min(most, (self.meter.most - self.meter.since) // CALLS)
        return max(1, most)

    def __call__(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Float[Tensor, "B C"]:
        """Probabilities with feature i kept by z_i; a random fill is drawn `draws` times and the answers averaged."""
        return self.each(batch, z[:, None], rng)[:, 0]

    def each(self, batch: Batch, z: Float[Tensor, "B M d"], rng: torch.Generator) -> Float[Tensor, "B M C"]:
        """Probabilities for M masks of every row."""
        rows, masks, d = z.shape
        of = torch.arange(rows).repeat_interleave(masks)
        answers = self._averaged(batch, of, (z * batch.present[:, None]).reshape(rows * masks, d), rng)
        return answers.reshape(rows, masks, answers.shape[1])

    def some(self, batch: Batch, of: Int[Tensor, " n"], z: Float[Tensor, "n d"], rng: torch.Generator) -> Float[Tensor, "n C"]:
        """Probabilities for n masks, each of the row whose number stands in `of`: rows may have different numbers of masks."""
        return self._averaged(batch, of, z * batch.present[of.to(z.device)], rng)

    def answers(self, inputs: Any) -> Float[Tensor, "n C"]:
        """Probabilities of inputs that a method changed by itself, in the black box's own form, asked about at once."""
        said: Tensor = self._ask(inputs, len(inputs))
        return said

    def whole(self, batch: Batch) -> Float[Tensor, "B C"]:
        """Probabilities of the inputs as they are."""
        rng = torch.Generator().manual_seed(0)
        return self._dimmed(batch, torch.arange(len(batch)), torch.ones_like(batch.present, dtype=torch.float32), rng)

    def looked(self, batch: Batch) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B d h"]] | None:
        """Probabilities of the inputs as they are, and what the black box computes at each of their features; None if it shows
        nothing."""
        placed = self.features.placed(batch) if self.blackbox.shows else None
        found = None if placed is None else self._ask(placed, len(batch), self.blackbox.looked)
        if found is None:
            return None
        place, (probs, seen) = batch.present.device, found
        return probs.to(place), seen[:, : batch.present.shape[1]].to(place)

    def scores(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Float[Tensor, "B C"]:
        """A score for every class with feature i kept by z_i, through which gradients flow back to z."""
        self.meter.take(len(batch))
        started = time.perf_counter()
        try:
            return self.blackbox.scores(self.features.dim(batch, z * batch.present, rng)).to(z.device)
        finally:
            self.meter.seconds += time.perf_counter() - started

    def near(self, batch: Batch, move: Move) -> Float[Tensor, "B C"]:
        """Probabilities of inputs moved where the model computes with them, through which gradients flow: see `BlackBox.near`."""
        self.meter.take(len(batch))
        started = time.perf_counter()
        try:
            whole = torch.ones_like(batch.present, dtype=torch.float32).requires_grad_()  # whole numbers come as floats then
            with torch.enable_grad():
                inputs = self.features.dim(batch, whole, torch.Generator())
            return self.blackbox.near(inputs, move).to(batch.present.device)
        finally:
            self.meter.seconds += time.perf_counter() - started

    def softened(self) -> Masked:
        """The same box with a fill under which gradients flow, or an error if it has none."""
        if not self.blackbox.gradients:
            raise no_gradients(self.blackbox)
        return self.through(self.features.softened())

    def averaged(self, draws: int) -> Masked:
        """The same box and meter, with random fills averaged over more draws."""
        return replace(self, draws=draws)

    def through(self, features: Features) -> Masked:
        """The same box and meter seen through other features, or the same features with another fill."""
        return replace(self, features=features)

    def classes(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where the model has no names."""
        count = self.blackbox.n_classes
        if count is None:
            raise BadBlackBox("The black box has not answered yet, so its classes are not known. Ask it first.")
        return self.blackbox.class_names or tuple(f"class {c}" for c in range(count))

    def _averaged(self, batch: Batch, of: Tensor, z: Tensor, rng: torch.Generator) -> Tensor:
        """Probabilities for each mask in z, of the row whose number stands in `of`, averaged over the draws of a random fill."""
        draws, answers = self.draws if self.features.random else 1, []
        at_once = max(1, self.rows_per_call // max(len(z), 1))
        for n in (min(at_once, draws - start) for start in range(0, draws, at_once)):
            said = self._dimmed(batch, of.repeat(n), z.repeat(n, 1), rng)  # several draws in one call
            answers.append(said.reshape(n, len(z), said.shape[1]))
        return torch.cat(answers).mean(0)

    def _dimmed(self, batch: Batch, of: Tensor, z: Tensor, rng: torch.Generator) -> Tensor:
        """Probabilities for each mask in z, of the row whose number stands in `of`."""
        parts: list[Tensor] = []
        start = 0
        with bar(len(z), "ask", hidden=not self.processes.leads) as shown:
            while start < len(z) or not parts:
                stop = start + self.rows_per_call
                parts.append(self._shared(batch, of[start:stop], z[start:stop], rng))
                shown.update(len(parts[-1]))
                start = stop
        return torch.cat(parts).to(z.device)

    def _shared(self, batch: Batch, of: Tensor, z: Tensor, rng: torch.Generator) -> Tensor:
        """Probabilities for each mask in z, each process asking about some of them; what one cannot answer is raised in all."""
        share = self.processes.share(len(z))
        if share.count == 1:
            answer: Tensor = self._ask(self.features.dim(batch.pick(of), z, rng), len(z))
            return answer
        self.meter.allow(len(z))
        before, said, error = self.meter.queries, None, None
        if self.features.random:  # drawn for all, so that each input is what one process would have asked about
            inputs = some(self.features.dim(batch.pick(of), z, rng), share.own)
        else:
            inputs = self.features.dim(batch.pick(of[share.own]), z[share.own], rng)
        try:
            said = self._ask(inputs, len(inputs)) if len(inputs) else None
        except AimwiseError as e:
            error = e
        self.processes.refuse(error)
        told = self.processes.told([self.meter.queries - before, 0 if said is None else said.shape[1]])
        self.meter.queries = before + sum(taken for taken, _ in told)
        classes = max(found for _, found in told)
        self.blackbox._check_classes(classes)
        return self.processes.gathered(torch.zeros(0, classes) if said is None else said, share)

    def _ask(self, inputs: Any, n: int, ask: Callable[[Any], Any] | None = None) -> Any:
        """What the black box answers, its probabilities if nothing else is asked for; where it raises it may be asked again."""
        for attempt in range(self.retries + 1):
            self.meter.take(n)
            started = time.perf_counter()
            try:
                return (ask or self.blackbox.probs)(inputs)
            except AimwiseError:
                raise
            except Exception as e:
                if attempt == self.retries:
                    tries = f" in {attempt + 1} tries" if attempt else ""
                    raise BadBlackBox(
                        f"The black box raised {type(e).__name__} on {n} inputs{tries}: {e}. Check that it takes "
                        f"{described(inputs)}; if it fails only now and then, pass retries=3."
                    ) from e
                time.sleep(min(0.1 * 2**attempt, 5.0))
            finally:
                self.meter.seconds += time.perf_counter() - started
        raise AssertionError("unreachable: the last attempt returns or raises")


def some(inputs: Any, rows: slice) -> Any:
    """Some of the inputs, in the form they have."""
    return getattr(inputs, "iloc", inputs)[rows]


def described(inputs: Any) -> str:
    """What was handed to the black box, in a few words."""
    kind, shape, dtype = type(inputs).__name__, getattr(inputs, "shape", (len(inputs),)), getattr(inputs, "dtype", None)
    return f"a {kind} of shape {tuple(shape)}" + (f" and dtype {dtype}" if dtype is not None else "")
