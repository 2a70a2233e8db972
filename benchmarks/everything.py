"""All that is measured with a GPU, in one command: what is missing of it, the cheapest tables first.

    python -m benchmarks.everything [--jobs 16] [--minutes 25] [--results results] [--only metrics recipes paper] [--renew]

Trains the networks that are not in the cache, all at once, then runs the cells of `benchmarks.metrics --rows 2000`,
`benchmarks.recipes --judge` on texts and images and `aimwise reproduce all` that are missing, so that no table waits for
another's last cell. A cell's record names the command that makes it alone. After --minutes no cell is begun any more, and a
command that is killed loses the cells it is at; the same command goes on. --renew is for a default recipe that has changed: its
cells that another commit made are run again. Processes share a GPU better behind `nvidia-cuda-mps-control -d`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import joblib
from rich.console import Console

from aimwise.explainers import AIM
from aimwise.study.cells import Facts, settings_of
from aimwise.study.paper.boxes import TEXTS, mistaught, weights
from aimwise.study.paper.methods import FULL
from aimwise.study.paper.registry import TABLES
from aimwise.study.paper.reproduce import Reproduction
from aimwise.study.run import Wanted, refuse_failures, run_together
from aimwise.study.store import OneFile
from benchmarks import metrics, recipes
from benchmarks.texts import note_readers

DEFAULT = settings_of(AIM())
IMAGES = ("mnist3-patches", "fashion3-patches", "mnist-patches", "mnist3-pixels", "fashion3-pixels")
ROWS = 2000
JUDGED_SEEDS = 3


def train(name: str, shuffled: bool) -> None:
    """Put a data set's network into the cache, or the one that was trained on shuffled labels."""
    if shuffled:
        mistaught(name, "full")
    else:
        weights(name, "full")


def of_metrics(results: Path) -> list[Wanted]:
    store = OneFile(results / metrics.OUT.name)
    note_readers(store, TEXTS)
    study = metrics.study(store, f"python -m benchmarks.metrics --rows {ROWS}")
    return [(study, cell) for cell in metrics.cells(TEXTS, scale="full", rows=ROWS)]


def of_recipes(results: Path) -> list[Wanted]:
    store = OneFile(results / recipes.OUT.name)
    note_readers(store, TEXTS)
    study = recipes.study(store, "python -m benchmarks.recipes --judge")
    return [(study, cell) for cell in recipes.cells([*TEXTS, *IMAGES], seeds=JUDGED_SEEDS, judged=True)]


def of_paper(results: Path) -> list[Wanted]:
    work = Reproduction(results, FULL)
    study = work.study("aimwise reproduce all")
    return [(study, cell) for cell in work.cells(list(TABLES.values()), say=Console().out)]


PARTS: dict[str, Callable[[Path], list[Wanted]]] = {"metrics": of_metrics, "recipes": of_recipes, "paper": of_paper}


def wanted(parts: Sequence[str], results: Path, *, renew: bool) -> list[Wanted]:
    """The cells of these parts, one part after the other."""
    cells = [one for part in parts for one in PARTS[part](results)]
    return [(replace(study, renew=renew and of_default(cell)), cell) for study, cell in cells]


def of_default(cell: Facts) -> bool:
    """Whether a cell is of the library's own recipe."""
    return cell["method"] == "default" or cell.get("settings") == DEFAULT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--minutes", type=float, help="after so many no cell is begun any more")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--renew", action="store_true", help="the default recipe's cells of other commits again")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    console, started = Console(), time.time()
    networks = [(name, shuffled) for shuffled in (False, True) for name in TEXTS if not shuffled or "metrics" in options.only]
    joblib.Parallel(n_jobs=min(options.jobs, len(networks)))(joblib.delayed(train)(*one) for one in networks)
    console.out(f"networks: {time.time() - started:.0f} s")
    cells = wanted(options.only, options.results, renew=options.renew)
    console.out(f"{sum(not study.has(cell) for study, cell in cells)} of {len(cells)} cells are missing")
    left = None if options.minutes is None else max(options.minutes - (time.time() - started) / 60, 1 / 60)
    done = run_together(cells, jobs=options.jobs, say=console.out, minutes=left)
    console.out(f"{len(done)} cells, {time.time() - started:.0f} s")
    refuse_failures(done)


if __name__ == "__main__":
    main()
