"""Every answer as a line of a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from aimwise.human.survey import NEUTRAL, Survey

COLUMNS = (
    "participant", "number", "position", "section", "method", "item", "row", "truth", "prediction", "choice", "right", "neutral",
    "seconds", "changes", "saved",
)  # fmt: skip


def as_csv(survey: Survey, answers: Sequence[Mapping[str, Any]]) -> str:
    """The answers as CSV text: positions and sections count from 0 in the order in which the participant saw them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for a in answers:
        item, choice = survey.items[a["item"]], a["choice"]
        neutral = choice == NEUTRAL
        saved = a["saved"].isoformat(timespec="seconds")
        writer.writerow(
            (
                a["code"],
                a["number"],
                a["position"],
                a["section"],
                a["method"],
                a["item"],
                item.row,
                survey.choices[item.truth],
                survey.choices[item.prediction],
                survey.neutral if neutral else survey.choices[choice],
                "" if neutral else int(choice == item.truth),
                int(neutral),
                f"{a['seconds']:.3f}",
                a["changes"],
                saved,
            )
        )
    return out.getvalue()
