"""Explaining row after row from a source of any length: what fails is set apart, what is done is kept."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aimwise.cli.work import Work, fingerprint
from aimwise.errors import BadFile, BadSetting
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.files import write_text
from aimwise.io.parts import Parts, is_folder
from aimwise.io.sources import Portion
from aimwise.io.written import key_types
from aimwise.matched import layout_of
from aimwise.progress import bar
from aimwise.scale.portion import Job, Order, Patience

Engine = Callable[[Order, Iterator[Job]], Generator[dict[str, Any], None, None]]
PARTS = 32  # batches of a part, where the result is a folder of parts


@dataclass(eq=False)
class Stream:
    """One run of explaining: where it reads, and where it writes."""

    options: argparse.Namespace
    work: Work
    explainer: Explainer
    parts: Parts
    part_rows: int
    patience: Patience = field(default_factory=Patience)
    continued: int = 0

    @classmethod
    def begun(cls, options: argparse.Namespace, work: Work, explainer: Explainer) -> Stream:
        """A new run, or one that goes on where it was cut off, whatever did the work then."""
        part_rows = options.batch_size
        if is_folder(options.out):
            part_rows = options.part_rows or PARTS * options.batch_size
        elif options.part_rows is not None:
            raise BadSetting(f"--part-rows is for a folder, and --out {options.out} is one file. Leave one of them out.")
        facts = fingerprint(options, work) | {
            "top": options.top,
            "wide": options.wide,
            "batch_size": options.batch_size,
            "part_rows": part_rows,
            "html": None if options.html is None else options.html_rows,
            "check": options.check,
            "try": list(options.tried or ()),
        }
        stream = cls(options, work, explainer, Parts(options.out, facts, restart=options.restart), part_rows)
        stream.continued = stream.parts.facts[-1]["stop"] if stream.parts.facts else 0
        return stream

    def order(self) -> Order:
        """What is made of every portion."""
        source, roles, options = self.work.source, self.work.roles, self.options
        keys = key_types(source.head() if roles.keys else None, roles.keys, untyped=source.untyped)
        layout = layout_of(self.explainer, keys, wide=options.wide, top=options.top)
        folder = self.parts.folder.absolute()
        return Order(roles, self.work.form, layout, folder, options.batch_size, options.check, options.tried or ())

    def run(self, engine: Engine) -> None:
        """Read, explain and write all rows that are not there yet."""
        source = self.work.source
        self.paged = sum(facts["paged"] for facts in self.parts.facts)
        with bar(source.total or 0, "explain") as shown, closing(engine(self.order(), self._jobs(shown))) as finished:
            for facts in finished:
                self.parts.add(facts)
                self.paged += facts["paged"]
                self._bear(facts)
                share = source.share() if source.total is None else None
                if share:
                    shown.total = round(facts["stop"] / share)
                shown.update(facts["stop"] - facts["start"])
        if not self.parts.facts:
            raise BadFile(f"{source.called} has no rows.")

    def _jobs(self, shown: Any) -> Iterator[Job]:
        """The portions that are not done yet."""
        known = len(self.parts.facts)
        for index, portion in enumerate(self.work.source.portions(self.work.roles.wanted, self.part_rows)):
            if index < known:
                self._known(index, portion)
                shown.update(portion.stop - portion.start)
            else:
                left = 0 if self.options.html is None else max(0, self.options.html_rows - self.paged)
                yield Job(index, portion, left)

    def _bear(self, facts: Mapping[str, Any]) -> None:
        """Stop when rows fail in sequence, portion after portion."""
        if facts["explained"]:
            self.patience.worked()
        if facts["streak"]:
            self.patience.failed(list(facts["failed"].values())[-1], facts["streak"])

    def _known(self, index: int, portion: Portion) -> None:
        """Refuse to go on when the rows that are done are not those of this source."""
        facts = self.parts.facts[index]
        if facts["digest"] != portion.digest() or facts["stop"] != portion.stop:
            raise BadFile(
                f"The rows {portion.start} to {portion.stop - 1} are not those that {self.parts.folder} was begun with. "
                "Pass the same data, or --restart to begin anew."
            )

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
