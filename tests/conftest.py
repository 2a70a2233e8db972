"""Toy black boxes with known answers, and small tables."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs behind it deaf to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"


def logistic(scores: np.ndarray) -> np.ndarray:
    positive = 1 / (1 + np.exp(-scores))
    return np.stack([1 - positive, positive], axis=1)


class Linear:
    """A function box that knows its coefficients and counts its calls."""

    def __init__(self, coefficients: np.ndarray) -> None:
        self.coefficients = np.asarray(coefficients, dtype=float)
        self.rows: list[int] = []

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        self.rows.append(len(inputs))
        return logistic(np.asarray(inputs, dtype=float) @ self.coefficients)


@pytest.fixture
def linear() -> Linear:
    return Linear([2.0, -1.5, 0.0, 0.0, 1.0])


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(240, 5))


@pytest.fixture
def frame() -> pd.DataFrame:
    """Every kind of column, each with a missing value where its type allows one."""
    rng = np.random.default_rng(1)
    n = 60
    days = pd.to_timedelta(rng.integers(0, 999, n), unit="D")
    made = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "single": rng.normal(size=n).astype("float32"),
            "whole": rng.integers(0, 9, n),
            "flag": rng.random(n) > 0.5,
            "nullable": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "maybe": pd.array(rng.random(n) > 0.5, dtype="boolean"),
            "text": rng.choice(["a", "b", "c"], n),
            "mixed": pd.Series(rng.choice(["x", "y"], n), dtype=object),
            "level": pd.Categorical(rng.choice(["p", "q"], n)),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"], ordered=True),
            "day": pd.Timestamp("2020-01-01") + days,
            "moment": pd.Timestamp("2020-01-01", tz="Europe/Berlin") + days,
            "span": pd.to_timedelta(rng.integers(0, 99, n), unit="s"),
        }
    )
    for row, column in enumerate(("number", "single", "nullable", "maybe", "text", "mixed", "level", "grade", "day", "moment")):
        made.loc[row, column] = None
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: install it to test the page in a browser")
    with api.sync_playwright() as p:
        opened = p.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield opened
        opened.close()
