"""The figures that the paper prints, each with its place; transcribed from the paper's source into printed.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Printed:
    """One printed figure: its table here and in the paper, data set, row, metric, mean, and deviation where there is one."""

    table: str
    place: str
    data: str
    row: str
    metric: str
    mean: float
    deviation: float | None


@cache
def printed() -> dict[tuple[str, str, str, str], Printed]:
    """All printed figures by table, data set, row and metric."""
    text = files("aimwise.study.paper").joinpath("printed.json").read_text(encoding="utf-8")
    found = [Printed(**one) for one in json.loads(text)]
    return {(one.table, one.data, one.row, one.metric): one for one in found}
