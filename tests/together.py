"""Fits that several processes run together; as a program, one of these processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimwise import AIM, METHODS, Segments
from aimwise.errors import AimwiseError, Collapsed

TESTS = Path(__file__).parent
RANK = int(os.environ.get("RANK", "0"))
SLOPES = np.array([2.0, -1.5, 0.0, 0.0, 1.0])
WORDS = {"good": 2.0, "fine": 1.0, "bad": -2.0, "awful": -1.5, "film": 0.0, "plot": 0.0, "the": 0.0, "of": 0.0}


def two(scores: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-np.asarray(scores)))
    return np.stack([1 - p, p], 1)


def rows(x: Any) -> np.ndarray:
    return two(np.asarray(x, float) @ SLOPES)


def texts(x: list[str]) -> np.ndarray:
    return two(np.array([sum(WORDS[w] for w in text.split()) for text in x]))


def images(x: Any) -> np.ndarray:
    return two(20 * (np.asarray(x)[:, :6].mean((1, 2)) - 0.5))


def bands(image: np.ndarray) -> np.ndarray:
    """Two to seven bands, so that images have different numbers of segments."""
    count = 2 + int(image.flat[0] * 6)
    return np.minimum(np.arange(144).reshape(12, 12) * count // 144, count - 1)


class Failing:
    """A box of the last process raises or is interrupted when it is asked for the n-th time; it counts what it answers."""

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how, self.calls, self.answered = at, how, 0, 0

    def __call__(self, x: Any) -> np.ndarray:
        self.calls += 1
        last = int(os.environ.get("WORLD_SIZE", "1")) == RANK + 1
        if self.calls == self.at and last:
            if self.how == "raise":
                raise ValueError("tired")
            os.kill(os.getpid(), signal.SIGINT)
        self.answered += len(x)
        return rows(x)


class Slow:
    """Takes its time where the environment says so."""

    def __call__(self, x: Any) -> np.ndarray:
        time.sleep(float(os.environ.get("PAUSE", "0")))
        return rows(x)


def inputs() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sentences = [" ".join(rng.choice(list(WORDS), rng.integers(2, 9))) for _ in range(90)]
    return {"table": rng.normal(size=(121, 5)), "text": sentences, "image": rng.random((40, 12, 12)).astype("float32")}


SHORT = {"epochs": 1, "batch_size": 25, "least_rows": 0}  # 105 rows of the table: a last step of fewer
CURVES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "aim, table": ("table", AIM(epochs=2, batch_size=26, least_rows=0), {}),  # 105 = 4 * 26 + 1: one row for two processes
    "aim, text": ("text", AIM(epochs=2, batch_size=5, least_rows=0), {}),  # three rows for one and two for the other
    "aim, asked once": ("table", AIM(epochs=2, least_rows=0, most_queries=500), {}),
    "aim, segments": ("image", AIM(**SHORT), {"features": Segments(by=bands)}),
    "paper, table": ("table", replace(AIM.paper(epochs=2), least_rows=512), {}),
    "paper, text": ("text", replace(AIM.paper(epochs=1), least_rows=256), {}),
    "released, table": ("table", replace(AIM.released(epochs=1), least_rows=256), {}),
    "vibi": ("text", METHODS["vibi"](**SHORT, k=2), {}),
    "realx": ("table", METHODS["realx"](**SHORT), {}),
    "fastshap": ("table", METHODS["fastshap"](**SHORT), {}),
}
BOXES = {"table": rows, "text": texts, "image": images}
ENDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "raises": (Failing(3, "raise"), AIM(**SHORT), {}),
    "raises once": (Failing(3, "raise"), AIM(**SHORT), {"retries": 1}),
    "interrupted": (Failing(12, "interrupt"), replace(AIM.paper(epochs=3), least_rows=512), {}),
    "interrupted early": (Failing(3, "interrupt"), replace(AIM.paper(epochs=3), least_rows=512), {}),
    "out of queries": (rows, replace(AIM.paper(epochs=3), least_rows=512), {"max_queries": 1500}),
    "collapsed": (rows, AIM(**SHORT, lr=1e12), {}),
}


def learned(made: Any) -> list[Any]:
    """What a fit found: its history, its weights, and how many questions it took."""
    sums = {name: t.double().flatten()[:2000].tolist() for name, t in made.nets_.state_dict().items()}
    return [made.history_, sums, made.__dict__.get("queries_"), made.best_epoch_, made.stopped_]


def run(wanted: str, engine: Any, folder: str | None = None) -> list[Any]:
    """One of the fits above."""
    torch.set_num_threads(1)
    if wanted in CURVES:
        kind, made, more = CURVES[wanted]
        with suppress(Collapsed):  # a curve is too short to learn much
            made.fit(BOXES[kind], inputs()[kind], seed=3, engine=engine, **more)
        return learned(made)
    if wanted in ("kept", "undisturbed"):
        made = AIM(epochs=6, least_rows=0, batch_size=25, patience=None)
        folder = folder if wanted == "kept" else None
        return learned(made.fit(Slow(), inputs()["table"], seed=3, engine=engine, folder=folder))
    box, made, more = ENDS[wanted]
    try:
        found = learned(made.fit(box, inputs()["table"], seed=3, engine=engine, **more))
        return [*found, getattr(box, "answered", 0)]
    except (AimwiseError, KeyboardInterrupt) as e:
        return [type(e).__name__, str(e)]


def fabric() -> Any:
    from lightning_fabric import Fabric

    return Fabric(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp")


def started(out: Path, *names: str, count: int = 2, pause: float = 0.0) -> list[subprocess.Popen[str]]:
    """Processes as torchrun starts them, which run these fits and write what they found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out.mkdir(exist_ok=True)
    about = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PAUSE": pause}
    about |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": 0, "OMP_NUM_THREADS": 1}
    return [
        subprocess.Popen(
            [sys.executable, str(TESTS / "together.py"), str(out), *names],
            env=os.environ | {k: str(v) for k, v in (about | {"RANK": rank, "LOCAL_RANK": rank}).items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What they said, once all have ended well."""
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(said)
    return said


if __name__ == "__main__":
    engine = fabric()
    place = Path(sys.argv[1])
    for name in sys.argv[2:]:
        found = run(name, engine, str(place / "kept"))
        (place / f"{name}.{RANK}.json").write_text(json.dumps(found))
