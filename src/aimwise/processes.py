"""Several processes that fit one explainer together: who learns from which rows, and how they stay alike."""

from __future__ import annotations

import re
import signal
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from aimwise.device import resolve_device
from aimwise.errors import AimwiseError, BadSetting, LostProcess

KINDS = {kind.__name__: kind for kind in AimwiseError.__subclasses__()}
TIMEOUT = timedelta(minutes=30)  # for which a process waits for the others


@dataclass(frozen=True)
class Share:
    """Which of n rows are one process's own: every count-th, so that long and short inputs are shared out evenly.

    Of a step with fewer rows than processes some learn the last row along; it counts for nothing there.
    """

    rank: int
    count: int
    total: int

    @property
    def idle(self) -> bool:
        """Whether there are not enough rows for this process."""
        return self.rank >= self.total

    @property
    def rows(self) -> slice:
        """The rows it learns from."""
        return slice(self.total - 1, None) if self.idle else slice(self.rank, None, self.count)

    @property
    def own(self) -> slice:
        """The rows it answers for: none where there are not enough."""
        return slice(self.rank, None, self.count)

    @property
    def size(self) -> int:
        """How many rows it learns from."""
        return len(range(self.total)[self.rows])

    @property
    def weight(self) -> float:
        """What its mean over its rows counts for in the mean over all."""
        return 0.0 if self.idle else self.size / self.total

    @property
    def counts(self) -> float:
        """What its sum over its rows counts for in the sum over all."""
        return 0.0 if self.idle else 1.0


@dataclass(frozen=True)
class Draws:
    """Random numbers for a share, drawn for all rows of the step: they are the same however the rows are shared out."""

    rng: torch.Generator
    share: Share
    width: int
    """How many features the widest row of the step has."""

    def uniform(self, shape: Sequence[int], rows: int) -> Tensor:
        """Numbers between 0 and 1 for this share's rows, which stand along the dimension `rows`; features stand last."""
        wide = [*shape[:-1], self.width]
        wide[rows] = self.share.total
        drawn = torch.rand(wide, generator=self.rng)[..., : shape[-1]]
        return drawn[(slice(None),) * rows + (self.share.rows,)]


class Processes(ABC):
    """The processes of a fit, seen from one of them; each of them calls the same methods in the same order."""

    rank: int
    count: int

    @property
    def leads(self) -> bool:
        """Whether it is the one that writes files and shows progress."""
        return self.rank == 0

    def share(self, n: int) -> Share:
        """Its part of n rows."""
        return Share(self.rank, self.count, n)

    @abstractmethod
    def step(self, n: int) -> Share:
        """Its part of the n rows of the step that comes now."""

    @abstractmethod
    def place(self, device: str) -> torch.device:
        """Where it works."""

    @abstractmethod
    def gathered(self, rows: Tensor, share: Share) -> Tensor:
        """The rows that each of them has of its own, all together and in order."""

    @abstractmethod
    def told(self, numbers: Sequence[int]) -> list[list[int]]:
        """What each of them says, a few whole numbers."""

    @abstractmethod
    def refuse(self, error: AimwiseError | None) -> None:
        """Raise in all of them what went wrong in one."""

    @abstractmethod
    def summed(self, loss: Tensor, nets: nn.Module) -> Tensor:
        """The loss of a step and its gradients, from each one's part of them."""

    @abstractmethod
    def alike(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """The numbers that the first of them found."""

    @abstractmethod
    def same(self, tensors: Iterable[Tensor]) -> None:
        """Give all of them the tensors of the first."""

    @abstractmethod
    def read(self, path: Path | None) -> AbstractContextManager[Path | None]:
        """A file of the first, or a copy of it; None if there is no such file."""

    @abstractmethod
    def learning(self, nets: nn.Module) -> AbstractContextManager[None]:
        """Inside, dropout is drawn for all rows of a step and each of them takes its part."""


class Alone(Processes):
    """One process, which does everything."""

    rank, count = 0, 1

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device

    def step(self, n: int) -> Share:
        return self.share(n)

    def place(self, device: str) -> torch.device:
        return agreed(device, self.device)

    def gathered(self, rows: Tensor, share: Share) -> Tensor:
        return rows

    def told(self, numbers: Sequence[int]) -> list[list[int]]:
        return [list(numbers)]

    def refuse(self, error: AimwiseError | None) -> None:
        if error is not None:
            raise error

    def summed(self, loss: Tensor, nets: nn.Module) -> Tensor:
        return loss.detach()

    def alike(self, numbers: Mapping[str, float]) -> dict[str, float]:
        return dict(numbers)

    def same(self, tensors: Iterable[Tensor]) -> None:
        pass

    def read(self, path: Path | None) -> AbstractContextManager[Path | None]:
        return nullcontext(path if path is not None and path.exists() else None)

    def learning(self, nets: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()


ALONE = Alone()


class Together(Processes):
    """One of several processes, joined by a group of torch.distributed."""

    def __init__(self, group: Any, device: torch.device) -> None:
        self.group, self.device = group, device
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.stop = False
        self.now = self.share(0)

    def place(self, device: str) -> torch.device:
        return agreed(device, self.device)

    def step(self, n: int) -> Share:
        self.now = self.share(n)
        return self.now

    def gathered(self, rows: Tensor, share: Share) -> Tensor:
        out = torch.zeros(share.total, *rows.shape[1:], dtype=rows.dtype, device=self.device)
        out[share.own] = rows.to(self.device)
        return self._sum(out).to(rows.device)

    def told(self, numbers: Sequence[int]) -> list[list[int]]:
        table = torch.zeros(self.count, len(numbers) + 1, dtype=torch.int64, device=self.device)
        table[self.rank] = torch.tensor([*numbers, self.stop])
        found: list[list[int]] = self._sum(table).tolist()
        if any(row[-1] for row in found):
            raise KeyboardInterrupt
        return [row[:-1] for row in found]

    def refuse(self, error: AimwiseError | None) -> None:
        text = "" if error is None else f"{type(error).__name__} {error}"
        lengths = [row[0] for row in self.told([len(text.encode())])]
        for rank, length in enumerate(lengths):
            if length:
                said = self._sent(text.encode() if rank == self.rank else bytes(length), rank).decode()
                kind, _, why = said.partition(" ")
                raise KINDS.get(kind, AimwiseError)(why) from error

    def summed(self, loss: Tensor, nets: nn.Module) -> Tensor:
        slopes = [p.grad for p in nets.parameters() if p.grad is not None]
        head = torch.stack([loss.detach().float(), loss.new_tensor(float(self.stop)).detach()])
        flat = self._sum(torch.cat([head, *(g.flatten() for g in slopes)]))
        if flat[1] > 0:
            raise KeyboardInterrupt
        for g, new in zip(slopes, torch.split(flat[2:], [g.numel() for g in slopes]), strict=True):
            g.copy_(new.view_as(g))
        return flat[0]

    def alike(self, numbers: Mapping[str, float]) -> dict[str, float]:
        values = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        self.same([values])
        return dict(zip(numbers, values.tolist(), strict=True))

    def same(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            with lost(self.count):
                dist.broadcast(tensor, 0, group=self.group)

    @contextmanager
    def read(self, path: Path | None) -> Iterator[Path | None]:
        there = self.leads and path is not None and path.exists()
        (size, *_), *_ = self.told([path.stat().st_size if there and path is not None else 0])
        if size == 0 or path is None:
            yield None
        elif self.leads:
            self._sent(path.read_bytes(), 0)
            yield path
        else:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / path.name
                copy.write_bytes(self._sent(bytes(size), 0))
                yield copy

    @contextmanager
    def learning(self, nets: nn.Module) -> Iterator[None]:
        inside = [(parent, name, net) for parent in nets.modules() for name, net in parent.named_children()]
        plain = [(parent, name, net) for parent, name, net in inside if isinstance(net, nn.Dropout)]
        for parent, name, net in plain:
            setattr(parent, name, SharedDropout(net.p, self))
        try:
            yield
        finally:
            for parent, name, net in plain:
                setattr(parent, name, net)

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """Note Ctrl-C, so that all of them stop at the same step; the second time, stop at once."""
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True

    def _sum(self, tensor: Tensor) -> Tensor:
        with lost(self.count):
            dist.all_reduce(tensor, group=self.group)
            return tensor

    def _sent(self, data: bytes, rank: int) -> bytes:
        """The bytes that one of them has; the others give as many of any kind."""
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self.device)
        with lost(self.count):
            dist.broadcast(tensor, rank, group=self.group)
        return tensor.cpu().numpy().tobytes()


class SharedDropout(nn.Module):
    """Dropout drawn for all rows of a step, of which a process takes its own."""

    def __init__(self, p: float, processes: Together) -> None:
        super().__init__()
        self.p, self.processes = p, processes

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        share = self.processes.now
        each = len(x) // share.size  # several masks of a row stand together
        order = sorted(range(x.ndim), key=x.stride, reverse=True)  # numbers are drawn in the order in which they lie in memory
        size = (share.total * each, *x.shape[1:])
        whole = x.new_ones([size[i] for i in order]).permute([order.index(i) for i in range(x.ndim)])
        kept = nn.functional.dropout(whole, self.p)
        return x * kept.reshape(share.total, each, *x.shape[1:])[share.rows].flatten(0, 1)


def agreed(device: str, engine: torch.device | None) -> torch.device:
    """The device of the engine, if there is one and no other was wanted."""
    if engine is None:
        return resolve_device(device)
    if device != "auto" and resolve_device(device).type != engine.type:
        raise BadSetting(f"device={device!r}, but the engine works on {engine}. Leave device out, or make them alike.")
    return engine


@contextmanager
def lost(count: int) -> Iterator[None]:
    """What torch raises when a process is gone, in words."""
    try:
        yield
    except RuntimeError as e:
        why = re.sub(r"^\[\S*\] ", "", str(e)).partition(". ")[0].partition("\n")[0]  # without the place in torch's source
        raise LostProcess(
            f"One of the {count} processes that fit together is gone, or did not answer for {TIMEOUT.seconds // 60} minutes "
            f"({why}). Start all of them again: a fit with a folder goes on from its last checkpoint."
        ) from e


@contextmanager
def joined(engine: Any) -> Iterator[Processes]:
    """The processes of a Fabric, as long as they fit; without one, this process alone."""
    if engine is None:
        yield ALONE
        return
    if not any(c.__name__ == "Fabric" and c.__module__.split(".")[0].startswith("lightning") for c in type(engine).__mro__):
        raise BadSetting(
            f"engine={engine!r}, wanted a lightning_fabric.Fabric, such as Fabric(accelerator='cpu', devices=2, strategy='ddp'), "
            "or None. Install it with: pip install 'aimwise[scale]'"
        )
    if not dist.is_initialized():
        engine.launch()
    if not dist.is_initialized() or dist.get_world_size() == 1:
        yield Alone(engine.device)
        return
    with lost(dist.get_world_size()):
        group = dist.new_group(timeout=TIMEOUT)  # of its own: whoever fails leaves it, and nobody waits for him
    made = Together(group, engine.device)
    signals = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        if signals:
            signal.signal(signal.SIGINT, made.interrupted)
        yield made
    finally:
        if signals:
            signal.signal(signal.SIGINT, before)
        dist.destroy_process_group(group)
