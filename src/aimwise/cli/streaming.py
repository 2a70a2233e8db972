"""Explaining row after row from a source of any length: what fails is set apart, what is done is kept."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.cli.work import Work, fingerprint
from aimwise.errors import BadBlackBox, BadFeatures, BadFile
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.files import write_text
from aimwise.io.inputs import Rows, read
from aimwise.io.parts import Parts
from aimwise.io.written import Layout, as_table, key_types, layout_of
from aimwise.progress import bar

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

    def failed(self, error: Exception) -> None:
        """One row failed."""
        self.streak += 1
        if self.streak >= (FAILURES if self.any_explained else FIRST_FAILURES):
            raise BadBlackBox(
                f"The model failed on {self.streak} rows in sequence, so it is not the rows. The last time: {error}"
            )


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


@dataclass(eq=False)
class Stream:
    """One run of explaining: where it reads, how it asks, and where it writes."""

    options: argparse.Namespace
    work: Work
    explainer: Explainer
    parts: Parts
    patience: Patience = field(default_factory=Patience)
    layout: Layout | None = None
    continued: int = 0

    @classmethod
    def begun(cls, options: argparse.Namespace, work: Work, explainer: Explainer) -> Stream:
        """A new run, or one that goes on where it was cut off."""
        facts = fingerprint(options, work) | {
            "top": options.top,
            "wide": options.wide,
            "batch_size": options.batch_size,
            "html": None if options.html is None else options.html_rows,
            "check": options.check,
            "try": list(options.tried or ()),
        }
        stream = cls(options, work, explainer, Parts(options.out, facts, restart=options.restart))
        stream.continued = stream.parts.facts[-1]["stop"] if stream.parts.facts else 0
        return stream

    def run(self) -> None:
        """Read, explain and write all rows that are not there yet."""
        source, paged = self.work.source, sum(facts["paged"] for facts in self.parts.facts)
        self.keys = key_types(source.head() if self.work.roles.keys else None, self.work.roles.keys, untyped=source.untyped)
        with bar(source.total or 0, "explain") as shown:
            for index, portion in enumerate(source.portions(self.work.roles.wanted, self.options.batch_size)):
                if index < len(self.parts.facts):
                    self._known(index, portion)
                else:
                    left = 0 if self.options.html is None else max(0, self.options.html_rows - paged)
                    paged += self._one(read(portion, source, self.work.roles, self.work.form), portion.digest(), left)
                share = source.share() if source.total is None else None
                if share:
                    shown.total = round(portion.stop / share)
                shown.update(portion.stop - portion.start)
        if not self.parts.facts:
            raise BadFile(f"{source.called} has no rows.")

    def _known(self, index: int, portion: Any) -> None:
        """Refuse to go on when the rows that are done are not those of this source."""
        facts = self.parts.facts[index]
        if facts["digest"] != portion.digest() or facts["stop"] != portion.stop:
            raise BadFile(
                f"The rows {portion.start} to {portion.stop - 1} are not those that {self.parts.folder} was begun with. "
                "Pass the same data, or --restart to begin anew."
            )

    def _one(self, rows: Rows, digest: str, left: int) -> int:
        """Explain and write one portion; returns how many of its rows the page shows."""
        failed: dict[int, str] = {}
        asked = {"check": self.options.check, "top": self.options.tried or 0} if left else {}
        before = self.explainer.box_.meter.queries
        found = list(explained(self.explainer, rows, asked, failed, self.patience))
        facts: dict[str, Any] = {"start": rows.start, "stop": rows.stop, "digest": digest, "paged": 0, "explained": 0}
        facts |= {"broken": rows.broken, "failed": failed, "queries": self.explainer.box_.meter.queries - before}
        table = page = None
        if found:
            made = found[0][1] if len(found) == 1 else Explanation.concat([one for _, one in found])
            numbers = np.concatenate([part.numbers for part, _ in found])
            keys = {name: [cell for part, _ in found for cell in part.keys[name]] for name in rows.keys}
            if self.layout is None:
                self.layout = layout_of(made, self.keys, wide=self.options.wide, top=self.options.top)
            table = as_table(made, self.layout, numbers, keys)
            facts["explained"] = len(made)
            if left:
                facts["paged"] = min(left, len(made))
                labels = None if rows.labels is None else [cell for part, _ in found for cell in part.labels or ()]
                shown = {"labels": labels and [str(v) for v in labels[:left]], "explanation": made[:left].to_json()}
                page = json.dumps(shown)
        self.parts.add(facts, table, page)
        return int(facts["paged"])

    def totals(self) -> dict[str, int]:
        """How many rows there were, were explained and failed, and how many questions were asked."""
        facts = self.parts.facts
        return {
            "rows": facts[-1]["stop"] if facts else 0,
            "explained": sum(one["explained"] for one in facts),
            "failed": sum(len(one["broken"]) + len(one["failed"]) for one in facts),
            "queries": sum(one["queries"] for one in facts),
        }

    def failures(self) -> Iterator[dict[str, Any]]:
        """Every row that is not explained, and why."""
        for facts in self.parts.facts:
            reasons = [(int(n), "read", why) for n, why in facts["broken"].items()]
            reasons += [(int(n), "explain", why) for n, why in facts["failed"].items()]
            yield from ({"row": n, "at": at, "reason": why} for n, at, why in sorted(reasons))

    def write_failures(self) -> Path | None:
        """A file beside the output that names the rows that failed; one that is there from before is removed."""
        path: Path = self.options.out.with_name(self.options.out.name + ".failed.jsonl")
        path.unlink(missing_ok=True)
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in self.failures()]
        if not lines:
            return None
        write_text(path, "".join(lines))
        return path

    def write_page(self) -> int:
        """The page of the first rows; returns how many it shows."""
        pages = [json.loads(text) for text in self.parts.pages()]
        made = Explanation.concat([Explanation.from_json(page["explanation"]) for page in pages])
        labels = [label for page in pages for label in page["labels"] or ()]
        truth = labels if len(labels) == len(made) and set(labels) <= set(made.classes) else None
        title = f"{Path(self.options.explainer).name}: {', '.join(self.options.data)}"
        made.to_html(self.options.html, title=title, truth=truth, most=self.options.html_rows)
        return len(made)
