"""Counts and times of the service, in the text form that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


@dataclass(eq=False)
class Counter:
    """Numbers that only grow, one for every set of labels."""

    name: str
    help: str
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str], amount: float = 1) -> None:
        """Count so many more."""
        key = tuple(labels.items())
        self.values[key] = self.values.get(key, 0) + amount

    def lines(self) -> Iterator[str]:
        yield from head(self.name, self.help, "counter")
        yield from (f"{self.name}{said(labels)} {value:.15g}" for labels, value in self.values.items())


@dataclass(eq=False)
class Histogram:
    """How often a number fell below each bound, for every set of labels."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str], value: float) -> None:
        """Count one more."""
        key = tuple(labels.items())
        self.counts.setdefault(key, [0] * (len(self.bounds) + 1))[bisect_left(self.bounds, value)] += 1
        self.sums[key] = self.sums.get(key, 0.0) + value

    def lines(self) -> Iterator[str]:
        yield from head(self.name, self.help, "histogram")
        for labels, counts in self.counts.items():
            total = 0
            for bound, count in zip((*(f"{b:g}" for b in self.bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{said((*labels, ('le', bound)))} {total}"
            yield f"{self.name}_sum{said(labels)} {self.sums[labels]:.9g}"
            yield f"{self.name}_count{said(labels)} {total}"


@dataclass(eq=False)
class Gauge:
    """A number that is looked up when it is asked for, for every set of labels."""

    name: str
    help: str
    kind: str
    read: Callable[[], Mapping[Labels, float]]

    def lines(self) -> Iterator[str]:
        yield from head(self.name, self.help, self.kind)
        yield from (f"{self.name}{said(labels)} {value:.15g}" for labels, value in self.read().items())


def head(name: str, help: str, kind: str) -> Iterator[str]:
    """What stands above the numbers of one name."""
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def said(labels: Labels) -> str:
    """Labels as the text form has them."""
    if not labels:
        return ""
    signs = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{name}="{value.translate(signs)}"' for name, value in labels) + "}"


class Metrics:
    """All numbers of one service."""

    def __init__(self, queued: Callable[[], Mapping[Labels, float]], queries: Callable[[], Mapping[Labels, float]]) -> None:
        self.requests = Counter("aimwise_requests_total", "Requests that were answered, by path and status.")
        self.seconds = Histogram("aimwise_request_seconds", "Seconds from a request to its answer, by path.", SECONDS)
        self.batches = Histogram("aimwise_batch_items", "Items that were worked on together, by explainer.", SIZES)
        self.failures = Counter(
            "aimwise_failures_total", "Items that could not be explained or asked about, by explainer and kind."
        )
        self.all = (
            self.requests,
            self.seconds,
            self.batches,
            Gauge("aimwise_queue_items", "Items that wait, by explainer.", "gauge", queued),
            Gauge("aimwise_blackbox_queries_total", "Inputs the black box was asked about, by explainer.", "counter", queries),
            self.failures,
        )

    def text(self) -> str:
        """All numbers, ready to be read."""
        return "".join(f"{line}\n" for one in self.all for line in one.lines())
