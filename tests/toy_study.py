"""A study of small sums, whose runs are counted beside the results; it can be run as a program and killed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from aimwise.study.run import Study
from aimwise.study.store import Folder, OneFile, Store

CELLS = [{"data": data, "seed": seed, "pause": 0.05} for data in ("a", "b", "c") for seed in range(8)]


def cell(facts: dict[str, object]) -> dict[str, object]:
    """A sum that follows from the facts; that it was begun and ended is written down."""
    noted(f"begun {facts['data']} {facts['seed']}")
    time.sleep(float(str(facts["pause"])))
    noted(f"ended {facts['data']} {facts['seed']}")
    return {"sum": len(str(facts["data"])) + int(str(facts["seed"]))}


def broken(facts: dict[str, object]) -> dict[str, object]:
    if facts["seed"] == 1:
        raise ValueError("no such luck")
    return {"sum": 0}


def noted(line: str) -> None:
    handle = os.open(os.environ["TOY_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (line + "\n").encode())  # one write: lines of several processes do not mix
    os.close(handle)


def study(path: Path, work: str = "cell") -> Study:
    store: Store = OneFile(path) if path.suffix == ".json" else Folder(path)
    return Study(store, f"toy_study:{work}", "a test")


def table(store: Store) -> str:
    """The table that the study is for."""
    found = sorted((r["data"], r["seed"], r["sum"]) for r in store.records())
    return "\n".join(" ".join(map(str, row)) for row in found)


if __name__ == "__main__":
    made = study(Path(sys.argv[1]))
    made.run(CELLS, jobs=int(sys.argv[2]), engine=sys.argv[3])
    sys.stdout.write(table(made.store))
