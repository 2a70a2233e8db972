"""How explaining grows with the number of rows, alone and on a Ray cluster of two nodes on this machine, and where the time goes.

    python -m benchmarks.scale [--rows 10000 100000 1000000] [--texts 200000] [--engines local ray] [--folder FOLDER]
                               [--out results/scale.json]

Rows of eight numbers and texts of 6 to 30 words are generated; the models are cheap (a weighted sum, a count of words), so that
the time is the library's own. Both engines write the same parts, and every line of them is compared. The time of a row comes from
the times at which parts were written, from the first to the last, so that starting processes is not in it; the memory is the
largest of any worker. Computing is what the processes used of a core, which others on the machine change less. What is done is
kept in the file, and the same command goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
from rich.console import Console

import aimwise
from aimwise.cli import main as command
from aimwise.files import read_json, write_json, write_whole
from aimwise.io.inputs import read
from aimwise.io.opened import opened
from aimwise.io.parts import write_part
from aimwise.io.roles import Given
from aimwise.io.written import as_table, key_types
from aimwise.matched import Said, layout_of, matched, saved
from aimwise.study.machine import made_by

MODELS = """
import numpy as np

WEIGHTS = np.linspace(-2, 2, 8)
WORDS = {f"w{i}": i % 3 for i in range(60)}


def softmax(scores):
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def table(frame):
    scores = frame.to_numpy(float) @ WEIGHTS
    return softmax(np.stack([-scores, scores], 1))


def text(texts):
    scores = np.zeros((len(texts), 3))
    for i, one in enumerate(texts):
        for word in one.split():
            if word in WORDS:
                scores[i, WORDS[word]] += 1
    return softmax(scores)
"""
COLUMNS = [f"x{i}" for i in range(8)]
FILE_ROWS = 100_000
PART_ROWS = 1024
WARM = 20  # parts


def rows(n: int, seed: int) -> pd.DataFrame:
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 8)), columns=COLUMNS)
    frame.insert(0, "id", np.arange(n) + seed * FILE_ROWS)
    return frame


def texts(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(400)])
    bodies = [" ".join(words[rng.integers(0, 400, k)]) for k in rng.integers(6, 31, n)]
    return pd.DataFrame({"id": np.arange(n) + seed * FILE_ROWS, "text": bodies})


def prepared(kind: str, n: int) -> str:
    """A folder with so many generated rows."""
    folder = Path(f"{kind}-{n}")
    folder.mkdir(exist_ok=True)
    for i, start in enumerate(range(0, n, FILE_ROWS)):
        path = folder / f"{i:04d}.parquet"
        if not path.is_file():
            made = (rows if kind == "table" else texts)(min(FILE_ROWS, n - start), i)
            write_whole(path, lambda p, made=made: made.to_parquet(p))
    return str(folder)


def fitted() -> None:
    """The explainers, once; how well they explain does not change the time."""
    import models

    if not Path("table.explainer").exists():
        aimwise.AIM(epochs=2).fit(models.table, rows(2000, 0)[COLUMNS], max_queries=50_000).save("table.explainer")
        aimwise.AIM(epochs=1).fit(models.text, texts(500, 0)["text"].tolist(), max_queries=20_000).save("text.explainer")


class Watch:
    """How many parts there were, how large the processes were and how long they had computed, seen by a thread as it goes."""

    def __init__(self, parts: Path, workers: bool) -> None:
        self.parts, self.workers = parts, workers
        self.seen: list[tuple[int, float, float]] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _look(self) -> None:
        found = [] if self.workers else [psutil.Process()]
        while not self.over.wait(0.1):
            done = max(0, len(list(self.parts.glob("0*.json")))) if self.parts.is_dir() else 0
            if done and not found:
                every = psutil.process_iter(["cmdline"])
                found = [one for one in every if (one.info["cmdline"] or [""])[0].startswith("ray::Worker")]
            if done:
                with contextlib.suppress(psutil.NoSuchProcess):
                    sizes = [one.memory_info().rss / 2**20 for one in found]
                    computed = sum(sum(one.cpu_times()[:2]) for one in found)
                    self.seen.append((done, max(sizes), computed))


def measured(kind: str, n: int, engine: str) -> dict[str, Any]:
    """One run of the command."""
    out = Path(f"why-{kind}-{n}-{engine}")
    for path in (out, Path(f"{out}.parts")):
        shutil.rmtree(path, ignore_errors=True)
    words = ["explain", f"{kind}.explainer", "--model", f"models:{kind}", "--data", prepared(kind, n), "--out", str(out)]
    words += ["--part-rows", str(PART_ROWS), "--engine", engine, "--quiet", "--key", "id"]
    words += ["--text-column", "text"] if kind == "text" else []
    words += ["--workers", "2"] if engine == "ray" else []
    started = time.perf_counter()
    with Watch(Path(f"{out}.parts"), engine == "ray") as watch:
        assert command(words) == 0
    seconds = time.perf_counter() - started
    written = sorted(path.stat().st_mtime for path in out.glob("part-*"))
    sizes = [size for _, size, _ in watch.seen]
    quarter = max(1, len(sizes) // 4)
    (first, _, before), (last, _, after) = (
        watch.seen[0],
        max(watch.seen, key=lambda seen: seen[0]),
    )  # in the end parts are removed
    a_row = (written[-1] - written[0]) / (n - PART_ROWS)
    return {
        "kind": kind,
        "rows": n,
        "engine": engine,
        "seconds": seconds,
        "rows_per_second": 1 / a_row,
        "microseconds_a_row": 1e6 * a_row,
        "computing_microseconds_a_row": 1e6 * (after - before) / max(1, last - first) / PART_ROWS,
        "memory_first_quarter_mb": max(sizes[:quarter]),
        "memory_last_quarter_mb": max(sizes[-quarter:]),
        "lines": sum(pq.ParquetFile(path).metadata.num_rows for path in out.glob("part-*")),
        "megabytes_written": sum(path.stat().st_size for path in out.glob("part-*")) / 2**20,
    }


def compared(kind: str, n: int) -> dict[str, Any]:
    """Both engines' parts, line by line."""
    one, other = (sorted(Path(f"why-{kind}-{n}-{engine}").glob("part-*")) for engine in ("local", "ray"))
    assert [path.name for path in one] == [path.name for path in other]
    same = all(pq.read_table(a).equals(pq.read_table(b)) for a, b in zip(one, other, strict=True))
    return {"kind": kind, "rows": n, "parts": len(one), "equal_in_every_line": same}


def growth(kind: str, n: int, engine: str) -> dict[str, float]:
    """Microseconds a row over the first 10,000 rows, the first 100,000 and all of one run, from when every worker is up."""
    written = sorted(path.stat().st_mtime for path in Path(f"why-{kind}-{n}-{engine}").glob("part-*"))[WARM:]
    found: dict[str, float] = {}
    for count in (10_000, 100_000, n) if len(written) > 1 else ():
        parts = min(count // PART_ROWS, len(written) - 1)
        found[str(count)] = 1e6 * (written[parts] - written[0]) / parts / PART_ROWS
    return found


def shares(kind: str, n: int = 50_000) -> dict[str, float]:
    """Microseconds a row of each step, in this process."""
    import models

    model, spent = getattr(models, kind), dict.fromkeys(("reading", "encoding", "model", "explainer", "lines", "writing"), 0.0)

    def asked(inputs: Any) -> Any:
        with timed("model"):
            return model(inputs)

    @contextlib.contextmanager
    def timed(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        spent[name] += time.perf_counter() - started

    found = saved(f"{kind}.explainer", aimwise.FunctionBox(asked))
    explainer = found.explainer
    source = opened([prepared(kind, n)])
    box = explainer.box_
    given = Given(keys=("id",), text="text" if kind == "text" else None)
    roles, form = matched(source, box.blackbox, given, Said(), fitted=found)
    layout = layout_of(explainer, key_types(source.head(), roles.keys, untyped=False), wide=False, top=None)
    portions = source.portions(roles.wanted, PART_ROWS)
    index, done = 0, 0
    while True:
        with timed("reading"):
            portion = next(portions, None)
        if portion is None:
            break
        tables = []
        for piece in portion.pieces(1024):
            with timed("reading"):
                some = read(piece, roles, form)
            with timed("encoding"):
                box.features.encode(some.inputs)
            with timed("explainer"):
                made = explainer.explain(some.inputs)
            with timed("lines"):
                tables.append(as_table(made, layout, some.numbers, some.keys))
        with timed("writing"):
            write_part(Path("shares.parts"), index, iter(tables))
        index, done = index + 1, done + len(portion.numbers)
    spent["explainer"] -= spent["encoding"] + spent["model"]  # it encodes and asks, too
    return {name: 1e6 * seconds / done for name, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--texts", type=int, nargs="+", default=[200_000])
    parser.add_argument("--engines", nargs="+", choices=["local", "ray"], default=["local", "ray"])
    parser.add_argument("--folder", type=Path, default=Path("scale-benchmark"))
    parser.add_argument("--out", type=Path, default=Path("results/scale.json"))
    options = parser.parse_args()
    out, console = options.out.absolute(), Console()
    found = read_json(out) if out.is_file() else {"machine": made_by("python -m benchmarks.scale"), "cells": {}}
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    sys.path.insert(0, str(Path.cwd()))
    Path("models.py").write_text(MODELS)
    fitted()

    def cell(name: str, make: Any) -> None:
        if name not in found["cells"]:
            found["cells"][name] = make()
            write_whole(out, lambda p: write_json(p, found))
        console.print(name, json.dumps(found["cells"][name]), highlight=False)

    cell("shares of a row's time: table", lambda: shares("table"))
    cell("shares of a row's time: text", lambda: shares("text"))
    sizes = [("table", n) for n in sorted(options.rows)] + [("text", n) for n in sorted(options.texts)]
    for kind, n in sizes:
        cell(f"{kind} {n} local", lambda kind=kind, n=n: measured(kind, n, "local"))
    wanted = [f"{kind} {n} {what}" for kind, n in sizes for what in ("ray", "compared")]
    if "ray" in options.engines and any(name not in found["cells"] for name in wanted):
        with two_nodes():
            for kind, n in sizes:
                cell(f"{kind} {n} ray", lambda kind=kind, n=n: measured(kind, n, "ray"))
                cell(f"{kind} {n} compared", lambda kind=kind, n=n: compared(kind, n))
    for kind, n in sizes:
        if n > 10 * WARM * PART_ROWS or kind == "text":
            for engine in options.engines:
                cell(f"{kind} {n} {engine} growth", lambda kind=kind, n=n, engine=engine: growth(kind, n, engine))


@contextlib.contextmanager
def two_nodes() -> Iterator[None]:
    """A cluster of two nodes with a core each."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        made.shutdown()


if __name__ == "__main__":
    main()
