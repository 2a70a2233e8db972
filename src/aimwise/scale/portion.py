"""What is done with one portion of rows, here or in another process: it is explained and written, and its facts are told."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadBlackBox, BadFeatures
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.io.inputs import Form, Rows, read
from aimwise.io.parts import write_page, write_part
from aimwise.io.roles import Roles
from aimwise.io.sources import Portion
from aimwise.io.written import Layout, as_table

FIRST_FAILURES = 20  # rows in sequence before any was explained: then it is not the rows
FAILURES = 200  # rows in sequence later on


@dataclass
class Patience:
    """How many rows have failed in sequence; too many are not the rows' fault."""

    streak: int = 0
    any_explained: bool = False

    def worked(self) -> None:
        """Some rows were explained."""
        self.streak, self.any_explained = 0, True

    def failed(self, why: object, rows: int = 1) -> None:
        """So many rows failed."""
        self.streak += rows
        if self.streak >= (FAILURES if self.any_explained else FIRST_FAILURES):
            raise BadBlackBox(f"The model failed on {self.streak} rows in sequence, so it is not the rows. The last time: {why}")


@dataclass(frozen=True, eq=False)
class Order:
    """What is made of every portion. folder: where parts are written. rows: how many are explained at once.

    check, tried: what the model is asked beside, of rows for the page.
    """

    roles: Roles
    form: Form
    layout: Layout
    folder: Path
    rows: int
    check: int = 0
    tried: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """The portion of a number, and how many of its first rows go on the page."""

    index: int
    portion: Portion
    paged: int = 0


def explained(
    explainer: Explainer, rows: Rows, asked: dict[str, Any], failed: dict[int, str], patience: Patience
) -> Iterator[tuple[Rows, Explanation]]:
    """The rows with their explanations; where some fail, halves and halves of halves, till only the failing ones are left."""
    if not len(rows):
        return
    try:
        made = explainer.explain(rows.inputs, **asked)
    except (BadBlackBox, BadFeatures) as e:
        if len(rows) == 1:
            failed[int(rows.numbers[0])] = " ".join(str(e).split())
            patience.failed(e)
            return
        half = len(rows) // 2
        for part in (np.arange(half), np.arange(half, len(rows))):
            yield from explained(explainer, rows.take(part), asked, failed, patience)
        return
    patience.worked()
    yield rows, made


def together(found: list[tuple[Rows, Explanation]], rows: Rows) -> tuple[Rows, Explanation]:
    """What was explained in pieces as one."""
    if len(found) == 1:
        return found[0]
    numbers = np.concatenate([part.numbers for part, _ in found])
    return rows.take(np.searchsorted(rows.numbers, numbers)), Explanation.concat([made for _, made in found])


def finished(explainer: Explainer, order: Order, job: Job) -> dict[str, Any]:
    """Explain a portion and write its part; returns the part's facts, which are not written yet."""
    portion, patience = job.portion, Patience(any_explained=job.index > 0)
    before = explainer.box_.meter.queries
    failed: dict[int, str] = {}
    broken: dict[int, str] = {}
    pages: list[Explanation] = []
    labels: list[str] = []
    counts = {"explained": 0, "paged": 0}

    def tables() -> Iterator[Any]:
        for piece in portion.pieces(order.rows):
            left = job.paged - counts["paged"]
            rows = read(piece, order.roles, order.form)
            broken.update(rows.broken)
            asked = {"check": order.check, "top": order.tried or 0} if left else {}
            found = list(explained(explainer, rows, asked, failed, patience))
            if not found:
                continue
            rows, made = together(found, rows)
            counts["explained"] += len(made)
            if left:
                counts["paged"] += min(left, len(made))
                pages.append(made[:left])
                labels.extend(str(label) for label in (rows.labels or ())[:left])
            yield as_table(made, order.layout, rows.numbers, rows.keys)

    lines = write_part(order.folder, job.index, tables())
    if pages:
        shown = {"labels": labels, "explanation": Explanation.concat(pages).to_json()}
        write_page(order.folder, job.index, json.dumps(shown))
    return {
        "start": portion.start,
        "stop": portion.stop,
        "digest": portion.digest(),
        **counts,
        "lines": lines,
        "broken": broken,
        "failed": failed,
        "streak": patience.streak,
        "queries": explainer.box_.meter.queries - before,
    }


def here(explainer: Explainer, order: Order, jobs: Iterator[Job]) -> Generator[dict[str, Any], None, None]:
    """The facts of every portion, done one after the other in this process."""
    for job in jobs:
        yield finished(explainer, order, job)
