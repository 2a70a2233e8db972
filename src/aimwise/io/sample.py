"""A sample of rows from a source of any length: every row has the same chance, and a seed gives the same rows again."""

from __future__ import annotations

from typing import Any

import numpy as np

from aimwise.errors import BadFile, extra
from aimwise.io.inputs import Form, Rows, read
from aimwise.io.roles import Roles
from aimwise.io.sources import Portion, Source

READ_AT_ONCE = 4096


def sampled(source: Source, roles: Roles, most: int, seed: int, shown: Any) -> tuple[Portion, int]:
    """The rows that drew the smallest of random numbers, at most so many, in their order; and how many rows there are in all."""
    pd = extra("pandas", "table")
    rng = np.random.default_rng(seed)
    frames: list[Any] = []
    numbers, drawn = np.zeros(0, dtype=np.int64), np.zeros(0)
    broken: dict[int, str] = {}
    total, limit = 0, np.inf
    for portion in source.portions(roles.wanted, READ_AT_ONCE):
        draw = rng.random(portion.stop - portion.start)[portion.numbers - portion.start]
        taken = draw < limit
        frames.append(portion.frame[taken])
        numbers, drawn = np.concatenate([numbers, portion.numbers[taken]]), np.concatenate([drawn, draw[taken]])
        broken |= portion.broken
        total = portion.stop
        shown.update(portion.stop - portion.start)
        if len(numbers) > 2 * most:
            frames, numbers, drawn = smallest(frames, numbers, drawn, most)
            limit = drawn.max()
    if not len(numbers):
        raise BadFile(f"{source.called} has no rows that can be read{first_of(broken)}.")
    frames, numbers, _ = smallest(frames, numbers, drawn, most)
    frame = pd.concat(frames, ignore_index=True)
    return Portion(0, total, numbers, frame, broken, source.untyped, source.place()), total


def smallest(frames: list[Any], numbers: np.ndarray, drawn: np.ndarray, most: int) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """The rows with the smallest draws, in the order they came in."""
    pd = extra("pandas", "table")
    at = np.sort(np.argsort(drawn, kind="stable")[:most])
    return [pd.concat(frames, ignore_index=True).iloc[at]], numbers[at], drawn[at]


def sample_rows(source: Source, roles: Roles, form: Form, *, most: int, seed: int, shown: Any) -> tuple[Rows, int]:
    """A sample as inputs; see `sampled`."""
    portion, total = sampled(source, roles, most, seed, shown)
    rows = read(portion, roles, form)
    if not len(rows):
        raise BadFile(f"{source.called} has no rows that can be used{first_of(rows.broken)}.")
    return rows, total


def first_of(broken: dict[int, str]) -> str:
    """The first reason, to be put behind an error."""
    return f" (row {min(broken)}: {broken[min(broken)]})" if broken else ""
