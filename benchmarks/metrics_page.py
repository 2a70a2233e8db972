"""The tables of docs/measured/metrics.md, from what `benchmarks.metrics` found.

    python -m benchmarks.metrics_page [--results results/metrics.json results/metrics_earlier.json]
                                      [--page docs/measured/metrics.md]

Each table stands between two comments of the page and is written anew there. A cell that the first file does not have is taken
from the later ones, whose black box is another training of the same network, and marked with †.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

from aimwise.files import write_text
from aimwise.study.cells import Facts
from aimwise.study.paper.boxes import CLEAN
from aimwise.study.store import OneFile

FILES = [Path("results/metrics.json"), Path("results/metrics_earlier.json")]
COLUMNS = {
    "default": "`AIM()`",
    "paper": "`AIM.paper()`",
    "released": "`AIM.released()`",
    "ig": "integrated gradients",
    "occlusion": "occlusion",
    "lexicon": "one global list",
    "random": "random",
}
SETS = ("imdb", "ag_news", "hatexplain")
REFUSED, MISSING = "refused", "–"
PEOPLE = ("union", "majority")


class Line(NamedTuple):
    """A row of the first table: what it is called, the metric, K and fill, what it is multiplied by, and its digits."""

    said: str
    metric: str
    k: int | None = None
    fill: str | None = None
    times: int = 1
    digits: int = 2


def removal(said: str, metric: str, k: int, fill: str, times: int = 1, digits: int = 2) -> Line:
    """A row about words that are taken away."""
    return Line(f"{said} K={k}, {fill.replace('_', ' ')}{', %' if times == 100 else ''}", metric, k, fill, times, digits)


LINES = (
    *(removal("faithfulness", "faithfulness", k, "in_place", 100, 1) for k in (1, 3, 5, 10)),
    *(removal("faithfulness", "faithfulness", k, "packed", 100, 1) for k in (1, 10)),
    Line("class-specific K=10, in place, %", "class_faithfulness", 10, None, 100, 1),
    *(removal("sufficiency", "sufficiency", k, "in_place") for k in (5, 10)),
    *(removal("comprehensiveness", "comprehensiveness", k, f) for k, f in ((5, "in_place"), (10, "in_place"), (10, "packed"))),
    *(removal("+Δ log-odds", "positive_log_odds", k, f) for k, f in ((1, "in_place"), (10, "in_place"), (10, "packed"))),
    *(removal("−Δ log-odds", "negative_log_odds", k, f) for k, f in ((1, "in_place"), (10, "in_place"), (10, "packed"))),
    removal("KL of the kept", "kl", 10, "in_place"),
    Line("area of sufficiency, in place", "aopc_sufficiency", None, "in_place"),
    Line("area of comprehensiveness, in place", "aopc_comprehensiveness", None, "in_place"),
    Line("insertion", "insertion"),
    Line("deletion", "deletion"),
    *(Line(f"EVAL-X K={k}, %", "eval_x", k, None, 100, 1) for k in (1, 10)),
    Line("encoding K=10, %", "encoding", 10, None, 100, 1),
    Line("stop words and punctuation K=10, %", "purity", 10, None, 100, 1),
    Line("the same, each once, %", "purity_distinct", 10, None, 100, 1),
    Line("brevity K=10", "brevity", 10),
    Line("brevity K=10, as released", "brevity_released", 10),
    Line("words shared with neighbours (IoU) K=10, %", "iou", 10, None, 100, 1),
    Line("words shared by two classes K=10, %", "pairwise_iou", 10, None, 100, 1),
)
CHECKS = (
    ("overlap of two random orders (chance)", "chance", None),
    ("overlap with the network of random weights (chance is right)", "random_model", "random_model"),
    ("rank correlation with it (0 is right)", "random_model_ranks", "random_model"),
    ("overlap with a network trained on shuffled labels (chance is right)", "random_labels", "random_labels"),
    ("overlap of two training seeds (1 is right)", "seeds", "seeds"),
    ("overlap of two classes (low is right)", "classes", None),
    ("twice the same explanation", "same", None),
)


class Found(NamedTuple):
    """What is known of one method on one data set, and whether it is of an earlier training of the network."""

    record: Facts
    earlier: bool = False

    def score(self, line: Line) -> Facts:
        """What stands in the record for a row of the first table; nothing if it is not there."""
        wanted = (line.metric, line.k, line.fill)
        return next((s for s in self.record.get("scores", ()) if (s["metric"], s["k"], s["fill"]) == wanted), {})

    def shown(self, value: float | None, digits: int, best: float | None = None) -> str:
        """A figure as it stands in a table."""
        if value is None:
            return REFUSED if "collapsed" in self.record else MISSING
        text = f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # and never −0
        text = f"**{text}**" if best is not None and round(value, digits) == round(best, digits) else text
        return text + "†" * self.earlier


Cells = dict[tuple[str, str], Found]


def known(files: list[Path]) -> Cells:
    """What the files say of every method on every data set, an earlier file before a later one."""
    cells: Cells = {}
    for n, file in enumerate(files):
        for record in OneFile(file).records():
            at = record["data"], record["method"]
            if cells.get(at, Found({}, n > 0)).earlier == (n > 0):  # the parts of one file belong together
                before = cells[at].record if at in cells else {}
                cells[at] = Found({**before, **record}, n > 0)
    return {(d, m): cells.get((d, m), Found({})) for d in SETS for m in COLUMNS}


def of_metrics(cells: Cells) -> list[str]:
    """All metrics, a column for each method, the three data sets in each field."""
    rows = [headed(COLUMNS)]
    for line in LINES:
        scores = {at: found.score(line) for at, found in cells.items()}
        sign = -1 if any(score.get("better") == "lower" for score in scores.values()) else 1
        values = {at: line.times * score["mean"] if score else None for at, score in scores.items()}
        best = {d: best_of([values[d, m] for m in COLUMNS if m != "random" and not cells[d, m].earlier], sign) for d in SETS}
        texts = [
            " / ".join(cells[d, m].shown(values[d, m], line.digits, None if cells[d, m].earlier else best[d]) for d in SETS)
            for m in COLUMNS
        ]
        rows.append(row(line.said + ("" if sign > 0 else " (lower)"), texts))
    for said, fact in (("normalised AOPC, 20 texts", "naopc"), ("seconds for the texts, while others ran", "explain_seconds")):
        texts = [" / ".join(cells[d, m].shown(cells[d, m].record.get(fact), 2) for d in SETS) for m in COLUMNS]
        rows.append(row(said, texts))
    return rows


def best_of(values: list[float | None], sign: int) -> float | None:
    """The best of those that are known."""
    return max((value for value in values if value is not None), key=lambda value: sign * value, default=None)


def of_checks(cells: Cells) -> list[str]:
    """The sanity checks of every method."""
    rows = [headed(COLUMNS)]
    for said, name, check in CHECKS:
        rows.append(row(said, [" / ".join(checked(cells[d, m], name, check) for d in SETS) for m in COLUMNS]))
    return rows


def checked(found: Found, name: str, check: str | None) -> str:
    """What one check found, or that its fit was refused."""
    sanity = found.record.get("sanity", {})
    if check in sanity.get("collapsed", ()):
        return REFUSED
    value = sanity.get(name)
    return ("yes" if value else "no") if isinstance(value, bool) else found.shown(value, 2)


def of_gaps(cells: Cells) -> list[str]:
    """What one pass leaves to refine."""
    rows = [headed({d: CLEAN[d] for d in SETS}, "agreement with the model on fresh masks, one pass / refined")]
    for m in ("default", "paper", "released"):
        pairs = {d: [cells[d, m].record.get(f"gap {name}") for name in ("one pass", "refined")] for d in SETS}
        told = [" / ".join(dict.fromkeys(cells[d, m].shown(value, 3) for value in pairs[d])) for d in SETS]  # refused: once
        rows.append(row(COLUMNS[m], told))
    return rows


def of_marks(cells: Cells) -> list[str]:
    """Agreement with people's marks on HateXplain, with all annotators' together and with the majority's."""
    methods = {m: said for m, said in COLUMNS.items() if m != "released"}
    rows = [headed(methods)]
    for said, name in (("token F1", "token_f1"), ("IoU F1", "iou_f1"), ("AUPRC", "auprc")):
        values = {(m, by): cells["hatexplain", m].record.get(f"{name} {by}") for m in methods for by in PEOPLE}
        best = {by: best_of([values[m, by] for m in methods], 1) for by in PEOPLE}
        texts = [" / ".join(cells["hatexplain", m].shown(values[m, by], 3, best[by]) for by in PEOPLE) for m in methods]
        rows.append(row(said, texts))
    return rows


def headed(columns: dict[str, str], first: str = "") -> str:
    """The head of a table and the line below it."""
    return row(first, list(columns.values())) + "\n" + "|---" * (1 + len(columns)) + "|"


def row(said: str, texts: list[str]) -> str:
    """A line of a table."""
    return f"| {said} | " + " | ".join(texts) + " |"


PARTS = {"metrics": of_metrics, "checks": of_checks, "gaps": of_gaps, "marks": of_marks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", default=FILES)
    parser.add_argument("--page", type=Path, default=Path("docs/measured/metrics.md"))
    options = parser.parse_args()
    cells, text = known(options.results), options.page.read_text()
    for name, made in PARTS.items():
        lines = "\n".join(made(cells))
        pattern = rf"(<!-- {name} -->\n\n).*?(\n\n<!-- end -->)"
        text, done = re.subn(pattern, lambda m, lines=lines: m[1] + lines + m[2], text, flags=re.DOTALL)  # type: ignore[misc]
        if done != 1:
            raise SystemExit(
                f"{options.page} has {done} places for the table {name!r}, wanted one: <!-- {name} --> and <!-- end -->."
            )
    write_text(options.page, text)


if __name__ == "__main__":
    main()
