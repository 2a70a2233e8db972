"""A tidy table of scores, with intervals, and the pictures and files made of it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.errors import extra, unknown
from aimwise.files import write_text

RESAMPLES = 1000
INSIDE = 0.95
COLUMNS = ("method", "metric", "k", "fill", "mean", "low", "high", "n", "better", "unit")


@dataclass(frozen=True)
class Score:
    """One method's value of one metric: its mean over the inputs and where that mean lies with 95 % confidence."""

    method: str
    metric: str
    k: int | None
    fill: str | None
    mean: float
    low: float
    high: float
    n: int
    better: str
    unit: str
    values: Tensor = field(repr=False)


class Bootstrap:
    """Intervals for means over the same inputs, all from the same resamples."""

    def __init__(self, n: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) if n else np.zeros((RESAMPLES, 0))
        self.counts = torch.from_numpy(counts.astype(np.float32))  # (R, n)

    def interval(self, values: Float[Tensor, " n"]) -> tuple[float, float]:
        """Between which values 95 % of the resampled means lie; inputs without a value (NaN) are left out."""
        known = values.isfinite()
        if not bool(known.any()):
            return math.nan, math.nan
        counts = self.counts[:, : len(values)]
        means = (counts @ values.nan_to_num().float()) / (counts @ known.float()).clamp_min(1)
        low, high = torch.quantile(means, torch.tensor([(1 - INSIDE) / 2, (1 + INSIDE) / 2])).tolist()
        return low, high


@dataclass(frozen=True, eq=False)
class Scores:
    """Every method's value of every metric; `to_frame` gives the tidy table, `plot` the curves against K."""

    rows: tuple[Score, ...]
    note: str = ""

    def find(
        self, metric: str | None = None, *, method: str | None = None, k: int | None = None, fill: str | None = None
    ) -> list[Score]:
        """The scores of which all that is given is true."""
        given = {"metric": metric, "method": method, "k": k, "fill": fill}
        return [row for row in self.rows if all(v is None or getattr(row, name) == v for name, v in given.items())]

    def mean(self, metric: str, *, method: str, k: int | None = None, fill: str | None = None) -> float:
        """One mean; the first fill's if none is said."""
        found = self.find(metric, method=method, k=k, fill=fill)
        if not found:
            raise unknown("score", f"{metric} of {method} at k={k}, fill={fill}", self.metrics)
        return found[0].mean

    @property
    def methods(self) -> list[str]:
        """The methods, in order."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def metrics(self) -> list[str]:
        """The metrics, in order."""
        return list(dict.fromkeys(row.metric for row in self.rows))

    def to_frame(self) -> Any:
        """A pandas table: method, metric, k, fill, mean, low, high, n, better, unit."""
        pd = extra("pandas", "table")
        frame = pd.DataFrame([{name: getattr(row, name) for name in COLUMNS} for row in self.rows], columns=list(COLUMNS))
        return frame.astype({"k": "Int64"})

    def to_json(self, path: str | Path | None = None) -> str:
        """The table as JSON text, also written to a file if a path is given."""
        rows = [{name: plain(getattr(row, name)) for name in COLUMNS} for row in self.rows]
        text = json.dumps({"note": self.note, "scores": rows}, indent=1, allow_nan=False)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def fills(self, metric: str) -> list[str | None]:
        """The fills under which a metric was measured at several K, in order."""
        found = [row for row in self.find(metric) if row.k is not None]
        if not found:
            several = [m for m in self.metrics if any(r.k is not None for r in self.find(m))]
            raise unknown("metric with several K", metric, several)
        return list(dict.fromkeys(row.fill for row in found))

    def plot(self, metric: str, path: str | Path | None = None) -> Any:
        """A matplotlib figure of one metric against K: a line for each method with its interval, a panel for each fill."""
        extra("matplotlib", "plot")
        from matplotlib.figure import Figure

        from aimwise.render.lines import curves

        fills, row = self.fills(metric), self.find(metric)[0]
        figure = Figure(figsize=(1 + 4.2 * len(fills), 3.6), layout="constrained")
        panels = figure.subplots(1, len(fills), sharey=True, squeeze=False)[0]
        for n, (panel, fill) in enumerate(zip(panels, fills, strict=True)):
            unit = "" if n else f"{metric} ({row.unit}), {row.better} is better"
            curves(lines_of(self, metric, fill), panel, title="" if fill is None else f"fill: {fill}", unit=unit)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=max(100, 52 + 17 * len(self.methods)), force_terminal=False, color_system=None)
        with console.capture() as caught:
            console.print(self.__rich__())
        return caught.get().rstrip()

    def __rich__(self) -> Any:
        from rich.table import Table

        made = Table(caption=self.note or None)
        for head in ("metric", "k", "fill", *self.methods):
            made.add_column(head, justify="left" if head in ("metric", "fill") else "right")
        for key in dict.fromkeys((row.metric, row.k, row.fill) for row in self.rows):
            here = {row.method: row for row in self.rows if (row.metric, row.k, row.fill) == key}
            best = leader(list(here.values()))
            cells = [shown(here.get(method), best) for method in self.methods]
            arrow = "↑" if next(iter(here.values())).better == "higher" else "↓"
            made.add_row(f"{key[0]} {arrow}", "" if key[1] is None else str(key[1]), key[2] or "", *cells)
        return made

    def _repr_html_(self) -> str:
        from aimwise.render.board import board

        lines = []
        for key in dict.fromkeys((row.metric, row.k, row.fill) for row in self.rows):
            here = {row.method: row for row in self.rows if (row.metric, row.k, row.fill) == key}
            first, best = next(iter(here.values())), leader(list(here.values()))
            cells = [
                None if row is None else (row.mean, row.low, row.high, row.mean == best) for row in map(here.get, self.methods)
            ]
            lines.append(((key[0], first.better, first.unit), "" if key[1] is None else str(key[1]), key[2] or "", cells))
        return board(self.methods, lines, self.note)


def lines_of(scores: Scores, metric: str, fill: str | None) -> list[Any]:
    """The line of each method for a plot of one metric under one fill."""
    from aimwise.render.lines import Line

    out = []
    for method in scores.methods:
        rows = [row for row in scores.find(metric, method=method) if row.k is not None and row.fill == fill]
        rows.sort(key=lambda row: row.k or 0)
        if rows:
            columns = ([getattr(row, name) for row in rows] for name in ("k", "mean", "low", "high"))
            out.append(Line(method, *map(tuple, columns)))
    return out


def shown(row: Score | None, best: float) -> str:
    """A mean with half the width of its interval, marked if none is better."""
    if row is None:
        return ""
    if not math.isfinite(row.mean):
        return "-"
    spread = (row.high - row.low) / 2
    star = "*" if row.mean == best else " "
    return f"{row.mean:.3f}" + (f" ±{spread:.3f}" if math.isfinite(spread) else "") + star


def leader(rows: Sequence[Score]) -> float:
    """The best mean."""
    means = [row.mean for row in rows if math.isfinite(row.mean)]
    if not means:
        return math.nan
    return max(means) if rows[0].better == "higher" else min(means)


def plain(value: Any) -> Any:
    """A number as JSON knows it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
