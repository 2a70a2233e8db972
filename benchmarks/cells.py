"""Tables made of cells: every cell is stored when it is done, and the same command goes on with those that are missing."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from aimwise.files import write_text

Cell = dict[str, Any]


class Cells:
    """A file of finished cells, and what made them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = json.loads(path.read_text()) if path.exists() else {}
        self.done: list[Cell] = found.pop("cells", [])
        self.facts: Cell = found | {"command": command(), "torch": torch.__version__}

    def run(self, work: Callable[..., Cell], wanted: Iterable[Cell], *, jobs: int = 1) -> None:
        """Call `work(**cell)` for the cells that are missing, some at a time, and keep what it says of each.

        A cell that fails is told and left out; the others go on, and the first failure is raised in the end.
        """
        missing = [cell for cell in wanted if not self.find(**cell)]
        failed: list[Exception] = []
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(work, **cell): cell for cell in missing}
            for ready in as_completed(waiting):
                cell = waiting[ready]
                try:
                    self.done.append({**cell, "device": device(), **ready.result()})
                except Exception as e:
                    failed.append(e)
                    Console().print(f"{tuple(cell.values())} failed: {type(e).__name__}: {e}", markup=False, highlight=False)
                else:
                    self.save()
                    Console().print(line(self.done[-1], list(cell)), markup=False, highlight=False)
        if failed:
            raise failed[0]

    def find(self, **facts: Any) -> list[Cell]:
        """The finished cells of which these facts are true."""
        return [cell for cell in self.done if all(cell.get(name) == value for name, value in facts.items())]

    def save(self) -> None:
        write_text(self.path, json.dumps({**self.facts, "cells": self.done}, indent=1) + "\n")


def line(cell: Cell, key: Sequence[str]) -> str:
    """A finished cell in a line."""
    figures = {name: round(value, 2) for name, value in cell.items() if isinstance(value, float)}
    return f"{' '.join(str(cell[name]) for name in key)}: {cell.get('collapsed') or figures}"


def mean(cells: Sequence[Cell], name: str) -> str:
    """The mean of a figure over the cells that have it."""
    values = [cell[name] for cell in cells if name in cell]
    return f"{sum(values) / len(values):.2f}" if values else ""


def command() -> str:
    """How the program that runs was called, without the place of its results."""
    words = iter(sys.argv[1:])
    shown = []
    for word in words:
        if word == "--out":
            next(words)
        else:
            shown.append(word)
    return " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *shown])


def device() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {os.environ.get('OMP_NUM_THREADS', 'all')} thread(s), no GPU"
