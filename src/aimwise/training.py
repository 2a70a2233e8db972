"""One training loop for all amortized methods: best epoch by held-out agreement, checkpoint, resume."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from aimwise.errors import BadFile, BadSetting, Collapsed, OutOfQueries, unknown
from aimwise.files import load_tensors, save_tensors, write_whole
from aimwise.processes import ALONE, Processes
from aimwise.progress import bar

CHECKPOINT = "training.safetensors"
SAME_ANSWERS = 1e-3  # a model asked again may differ by rounding
ANSWERS_KEPT = 256  # of the black box, to know it again when a fit goes on
WHY = {"interrupted": "interrupted", "queries": "out of queries"}
log = logging.getLogger("aimwise")
Numbers = dict[str, float]

SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": lambda step, total: 1.0,
    "cosine": lambda step, total: 0.5 * (1 + math.cos(math.pi * min(step / total, 1.0))),
    "released": lambda step, total: 0.99 ** (step // 10),
}


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train."""

    epochs: int
    batch_size: int
    lr: float
    schedule: str = "constant"
    weight_decay: float = 0.0
    average: float = 0.0  # the weights that are judged and kept are a running mean with this memory
    patience: int | None = None
    least_rows: int = 0  # an epoch of a small data set goes over it until so many rows were seen
    most_rows: int | None = None  # an epoch of a large data set ends after so many, another sample each time

    def check(self) -> None:
        """Refuse what cannot be trained with."""
        for name in ("epochs", "batch_size", "lr", "most_rows"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise BadSetting(f"{name}={value}, wanted more than 0.")
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)

    def rows(self, n: int) -> int:
        """How many rows an epoch over n of them sees."""
        most = n if self.most_rows is None else min(n, self.most_rows)
        return max(most, self.least_rows)


@dataclass
class Run:
    """What training leaves behind: one line of numbers an epoch, which epoch was best, and why it stopped."""

    history: list[Numbers] = field(default_factory=list)
    best: int = -1
    stopped: str = "epochs"


@dataclass
class _State:
    nets: nn.Module
    judged: nn.Module
    optimizer: torch.optim.Optimizer
    rng: torch.Generator
    run: Run
    best: dict[str, Tensor]
    answers: Tensor

    def save(self, path: Path, fingerprint: str) -> None:
        tensors = {f"net.{k}": v for k, v in self.nets.state_dict().items()}
        if self.judged is not self.nets:
            tensors |= {f"judged.{k}": v for k, v in self.judged.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        tensors |= {"rng.own": self.rng.get_state(), "rng.torch": torch.get_rng_state(), "answers": self.answers}
        if torch.cuda.is_available():
            tensors["rng.cuda"] = torch.cuda.get_rng_state()
        for i, slot in self.optimizer.state_dict()["state"].items():
            tensors |= {f"opt.{i}.{k}": v for k, v in slot.items()}
        facts = {"fingerprint": fingerprint, "history": self.run.history, "best": self.run.best, "stopped": self.run.stopped}
        write_whole(path, lambda p: save_tensors(p, tensors, {"aimwise": json.dumps(facts)}))

    def load(self, path: Path, fingerprint: str) -> None:
        tensors, metadata = load_tensors(path)
        try:
            facts = json.loads(metadata["aimwise"])
            found = facts["fingerprint"]
        except (KeyError, json.JSONDecodeError) as e:
            raise BadFile(f"{path} is not a checkpoint of aimwise. Choose another folder.") from e
        if found != fingerprint:
            raise BadFile(
                f"{path} belongs to a fit with other settings, data, features or seed. "
                "Choose another folder, or remove it to start afresh."
            )
        if not same_answers(tensors["answers"], self.answers):
            raise BadFile(f"{path} belongs to a fit of another model. Choose another folder, or remove it to start afresh.")
        self.nets.load_state_dict(taken(tensors, "net."))
        self.judged.load_state_dict(taken(tensors, "judged." if self.judged is not self.nets else "net."))
        self.best = taken(tensors, "best.")
        state = self.optimizer.state_dict()
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in taken(tensors, "opt.").items():
            i, key = name.split(".", 1)
            slots.setdefault(int(i), {})[key] = value
        self.optimizer.load_state_dict({**state, "state": slots})
        self.rng.set_state(tensors["rng.own"])
        torch.set_rng_state(tensors["rng.torch"])
        if "rng.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["rng.cuda"])
        self.run.history, self.run.best, self.run.stopped = facts["history"], facts["best"], facts["stopped"]


def same_answers(before: Tensor, now: Tensor) -> bool:
    """Whether a black box answers as it did before."""
    return before.shape == now.shape and torch.allclose(before, now.cpu(), atol=SAME_ANSWERS)


def taken(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def train(
    nets: nn.Module,
    losses: Callable[[Tensor], Iterator[Tensor]],
    score: Callable[[Any], Numbers],
    rows: Tensor,
    plan: Plan,
    rng: torch.Generator,
    *,
    folder: Path | None = None,
    fingerprint: str = "",
    answers: Tensor | None = None,
    called: str = "agreement",
    processes: Processes = ALONE,
) -> Run:
    """Step down each loss that `losses(an epoch's row numbers)` yields; keep the epoch of the highest agreement in `score`.

    called: what people call that agreement. processes: those that fit together; each yields losses of its own rows, as parts of
    the sum that is stepped down.
    """
    plan.check()
    weights = list(nets.parameters())
    fused = all(w.is_cuda for w in weights)  # one kernel for all of them
    optimizer = torch.optim.AdamW(weights, lr=plan.lr, weight_decay=plan.weight_decay, fused=fused)
    judged = copy.deepcopy(nets) if plan.average else nets
    state = _State(nets, judged, optimizer, rng, Run(), {}, torch.zeros(0) if answers is None else answers)
    run, file = state.run, (folder / CHECKPOINT if folder else None)
    with processes.read(file) as kept:
        if kept is not None:
            state.load(kept, fingerprint)
    processes.same(nets.state_dict().values())
    steps = math.ceil(plan.rows(len(rows)) / plan.batch_size)
    total = steps * plan.epochs
    start, hidden = len(run.history) * steps, not processes.leads
    with bar(total, "fit", unit="step", start=start, hidden=hidden) as shown, processes.learning(nets):
        try:
            while not finished(run, plan):
                step = len(run.history) * steps
                order = epoch_order(rows, plan.rows(len(rows)), rng)
                nets.train()
                sums: Tensor | float = 0.0
                for i, part in enumerate(losses(order)):  # part: (), of the loss: all of it, where one process fits
                    for group in optimizer.param_groups:
                        group["lr"] = plan.lr * SCHEDULES[plan.schedule](step + i, total)
                    optimizer.zero_grad()
                    torch.autograd.backward(part)
                    value = processes.summed(part, nets)  # (), and so are the gradients
                    optimizer.step()
                    follow(judged, nets, plan.average, step + i)
                    sums = sums + value  # stays on its device, so that the next step need not wait for it
                    shown.update(1)
                numbers = processes.alike({"loss": float(sums) / steps, **score(judged.eval())})
                close_epoch(state, numbers, shown, called)
                if file is not None and processes.leads:
                    state.save(file, fingerprint)
        except (KeyboardInterrupt, OutOfQueries) as e:
            if run.best < 0:
                raise
            run.stopped = "interrupted" if isinstance(e, KeyboardInterrupt) else "queries"
            if processes.leads:
                log.warning(
                    "fit %s in epoch %d; epoch %d, the best so far, is kept", WHY[run.stopped], len(run.history), run.best
                )
    nets.load_state_dict(state.best)
    processes.same(nets.state_dict().values())
    nets.eval()
    return run


def close_epoch(state: _State, numbers: Numbers, shown: Any, called: str) -> None:
    """Write an epoch's numbers down and keep its weights if they are the best yet."""
    run = state.run
    run.history.append({"epoch": len(run.history), **numbers})
    if not math.isfinite(numbers["loss"]):
        raise Collapsed(
            f"The loss became {numbers['loss']} in epoch {len(run.history) - 1}. "
            "Lower lr, or look for extreme values in the inputs."
        )
    if run.best < 0 or numbers["agreement"] > run.history[run.best]["agreement"]:
        run.best = len(run.history) - 1
        state.best = {k: v.detach().clone() for k, v in state.judged.state_dict().items()}
    shown.set_postfix({called: f"{numbers['agreement']:.3f}"}, refresh=False)


@torch.no_grad()
def follow(judged: nn.Module, nets: nn.Module, memory: float, step: int) -> None:
    """Move the judged weights towards the trained ones; the memory is shorter in the first steps."""
    if judged is not nets:
        mean = get_ema_multi_avg_fn(min(memory, (1 + step) / (10 + step)))  # type: ignore[no-untyped-call]
        mean(list(judged.parameters()), list(nets.parameters()), step)


def finished(run: Run, plan: Plan) -> bool:
    """Whether all epochs are done, or too many have passed since the best."""
    done = len(run.history)
    if plan.patience is not None and run.best >= 0 and done - 1 - run.best >= plan.patience:
        run.stopped = "patience"
        return True
    return done >= plan.epochs


def epoch_order(rows: Tensor, wanted: int, rng: torch.Generator) -> Tensor:
    """As many rows as wanted, shuffled: some of them, or all of them again and again."""
    rounds = math.ceil(wanted / len(rows))
    return torch.cat([rows[torch.randperm(len(rows), generator=rng)] for _ in range(rounds)])[:wanted]
