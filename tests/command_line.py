"""A folder as a user of the command line has it: a package with models, data beside it, and the command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

MODELS = '''
import os
import re
import signal

import numpy as np

WORDS = {"goal": 0, "match": 0, "team": 0, "vote": 1, "senate": 1, "law": 1, "chip": 2, "phone": 2, "code": 2}
COEFFICIENTS = np.array([2.0, -1.0, 0.5, 0.0])
calls = 0


def softmax(scores):
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class News:
    classes_ = np.array(["sports", "politics", "tech"])

    def predict_proba(self, texts):
        scores = np.zeros((len(texts), 3))
        for i, text in enumerate(texts):
            for word in re.findall("[a-z]+", text.lower()):
                if word in WORDS:
                    scores[i, WORDS[word]] += 2
        return softmax(scores)


clf = News()


def numbers(frame):
    """Two classes from four columns; the process may be made to end in the middle of it."""
    global calls
    calls += 1
    if calls == int(os.environ.get("END_AT", "0")):
        os.kill(os.getpid(), getattr(signal, os.environ["END_BY"]))
    scores = frame[["a", "b", "c", "d"]].to_numpy(float) @ COEFFICIENTS
    return softmax(np.stack([-scores / 2, scores / 2], 1))


def picky(frame):
    """The same, but rows with a = 99 are too much for it."""
    if (frame["a"] == 99).any():
        raise ValueError("99 is too much")
    return numbers(frame)


def broken(frame):
    raise RuntimeError("no weights loaded")


def make():
    return clf


class Inner:
    clf = clf
'''
FILLER = [*"etaoinshrdlu", "the", "of", "and", "with"]
TOPICS = [["goal", "match", "team"], ["vote", "senate", "law"], ["chip", "phone", "code"]]
CLASSES = ["sports", "politics", "tech"]


def texts(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 3, n)
    bodies = []
    for c in topic:
        words = list(rng.choice(FILLER, rng.integers(6, 14)))
        for _ in range(2):
            words[rng.integers(len(words))] = TOPICS[c][rng.integers(3)]
        bodies.append(" ".join(words))
    return pd.DataFrame({"article_id": np.arange(n) + 1000, "body": bodies, "label": np.array(CLASSES)[topic]})


def numbers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)).round(4), columns=list("abcd"))
    frame.insert(0, "id", [f"k{i}" for i in range(n)])
    return frame


def filled(folder: Path) -> Path:
    """The folder with a package of models and a few files of data."""
    (folder / "mypkg").mkdir()
    (folder / "mypkg" / "__init__.py").touch()
    (folder / "mypkg" / "models.py").write_text(MODELS)
    for name, n, seed in (("train", 120, 0), ("new", 40, 1), ("test", 20, 2)):
        texts(n, seed).to_parquet(folder / f"{name}.parquet")
    numbers(400, 3).to_csv(folder / "numbers.csv", index=False)
    return folder


def aimwise(*words: str, cwd: Path, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    env = os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, "-m", "aimwise", *words], capture_output=True, text=True, cwd=cwd, env=env, input=stdin, check=False
    )


@contextmanager
def inside(folder: Path) -> Iterator[Path]:
    """The folder as the current one, with its own package `mypkg`, and nothing of it left afterwards."""
    before, path = Path.cwd(), list(sys.path)
    forget()  # that of another test
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        os.chdir(before)
        sys.path[:] = path
        forget()


def forget() -> None:
    """Let `mypkg` be imported anew."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mypkg"]:
        del sys.modules[name]


def fitted() -> None:
    """An explainer of numbers, risk, and one of texts, news, saved in the current folder; one is inside it."""
    import mypkg.models

    import aimwise as library

    library.AIM(epochs=1).fit(mypkg.models.numbers, numbers(400, 3)[list("abcd")], max_queries=3000).save("risk")
    library.METHODS["occlusion"]().fit(mypkg.models.clf, texts(60, 0)["body"].tolist()).save("news")
