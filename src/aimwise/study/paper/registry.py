"""All tables by the name that the command takes."""

from __future__ import annotations

from aimwise.errors import unknown
from aimwise.study.paper import (
    ablation,
    examples,
    multiclass,
    pixels,
    superpixels,
    tabular,
    text_main,
    topk,
    tuning_aim,
    tuning_fi,
    tuning_l2x,
    tuning_lime,
    tuning_vibi,
)
from aimwise.study.paper.base import Table

MODULES = (
    text_main,
    topk,
    multiclass,
    ablation,
    pixels,
    superpixels,
    tabular,
    tuning_aim,
    tuning_l2x,
    tuning_lime,
    tuning_vibi,
    tuning_fi,
    examples,
)
TABLES: dict[str, Table] = {module.TABLE.name: module.TABLE for module in MODULES}


def table(name: str) -> Table:
    """The table of that name."""
    if name not in TABLES:
        raise unknown("table", name, [*TABLES, "all"])
    return TABLES[name]
