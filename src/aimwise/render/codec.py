"""Numbers as short text that stands in the page: a few signs each, which its script reads back."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

import numpy as np

SIGNS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
TABLE = np.frombuffer(SIGNS.encode("ascii"), dtype=np.uint8)
ROOM = 6_000_000  # signs that the weights of a page may have if each is to have two


def signs_for(count: int) -> int:
    """How many signs each of so many weights gets: two hold it to a 2047th of the largest of its row, one to a 31st."""
    return 2 if 2 * count <= ROOM else 1


def packed(rows: Sequence[np.ndarray], signs: int) -> dict[str, object]:
    """The weights of every row (n, C), as whole numbers of a unit of its own; the last number is for what is not a number."""
    half = 64**signs // 2 - 1
    sizes = [float(np.abs(row[np.isfinite(row)]).max(initial=0.0)) for row in rows]
    # The unit is written with few digits, and never too small for the largest weight.
    units = [float(f"{size / half * (1 + 1e-6):.7g}") for size in sizes]
    texts = []
    for row, unit in zip(rows, units, strict=True):
        steps = np.where(np.isfinite(row), np.rint(row / (unit or 1.0)), half + 1) + half
        codes = steps.astype(np.int64).reshape(-1, 1) >> (6 * np.arange(signs - 1, -1, -1))
        texts.append(TABLE[codes & 63].tobytes().decode("ascii"))
    return {"weights": texts, "units": units, "signs": signs}


def counted(numbers: Iterable[int]) -> str:
    """Whole numbers from 0 up, one behind the other: five bits in a sign, and one that says whether more follow."""
    out = []
    for number in numbers:
        while number > 31:
            out.append(SIGNS[32 + (number & 31)])
            number >>= 5
        out.append(SIGNS[number])
    return "".join(out)
