"""The tables of docs/measured/metrics.md, from what `benchmarks.metrics` found.

    python -m benchmarks.metrics_page [--results results/metrics.json results/metrics_earlier.json]
                                      [--page docs/measured/metrics.md]

Each table stands between two comments of the page and is written anew there. A cell that the first file does not have is taken
from the later ones, whose black box is another training of the same network, and marked with †.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aimwise.files import write_text
from aimwise.metrics import METRICS
from aimwise.scores.evaluate import CURVES, EXTRAS
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
Read = Callable[[Facts], float | None]
CHECKS = (
    ("overlap of two random orders (chance)", "chance", None),
    ("overlap with the network of random weights (chance is right)", "random_model", "random_model"),
    ("rank correlation with it (0 is right)", "random_model_ranks", "random_model"),
    ("overlap with a network trained on shuffled labels (chance is right)", "random_labels", "random_labels"),
    ("overlap of two training seeds (1 is right)", "seeds", "seeds"),
    ("overlap of two classes (low is right)", "classes", None),
)
MARKS = tuple(f"{name} {by}" for name in ("token_f1", "iou_f1", "auprc") for by in ("union", "majority"))


class Found(NamedTuple):
    """The record of one method on one data set, and whether it is of an earlier training of the network."""

    record: Facts
    earlier: bool


def known(files: list[Path]) -> dict[tuple[str, str], Found]:
    """What the files say of every method on every data set, an earlier file before a later one."""
    found: dict[tuple[str, str], Found] = {}
    for n, file in enumerate(files):
        for record in OneFile(file).records():
            found.setdefault((record["data"], record["method"]), Found(record, n > 0))
    return found


def better(metric: str) -> str:
    """Which way is better."""
    if metric in CURVES:
        return CURVES[metric][1]
    return METRICS[metric].better if metric in METRICS else EXTRAS[metric].better


def figure(found: Found | None, line: Line) -> float | None:
    """One figure of a record, in the row's unit."""
    for score in [] if found is None else found.record.get("scores", ()):
        if (score["metric"], score["k"], score["fill"]) == (line.metric, line.k, line.fill):
            return float(line.times * score["mean"])
    return None


def shown(found: Found | None, value: float | None, digits: int, best: float | None = None) -> str:
    """A figure as it stands in a table."""
    if value is None:
        return REFUSED if found is not None and "collapsed" in found.record else MISSING
    text = f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # and never −0
    text = f"**{text}**" if best is not None and round(value, digits) == round(best, digits) else text
    return text + ("†" if found is not None and found.earlier else "")


def of_metrics(cells: dict[tuple[str, str], Found]) -> list[str]:
    """All metrics, a column for each method, the three data sets in each cell."""
    rows = [headed(COLUMNS)]
    for line in LINES:
        sign = 1 if better(line.metric) == "higher" else -1
        values = {(d, m): figure(cells.get((d, m)), line) for d in SETS for m in COLUMNS}
        best: dict[str, float | None] = {}
        for d in SETS:
            same = [v for m in COLUMNS if (v := values[d, m]) is not None and m != "random" and not is_earlier(cells, d, m)]
            best[d] = max(same, key=lambda v: sign * v, default=None)
        texts = [
            " / ".join(
                shown(cells.get((d, m)), values[d, m], line.digits, None if is_earlier(cells, d, m) else best[d]) for d in SETS
            )
            for m in COLUMNS
        ]
        rows.append(row(line.said + ("" if sign > 0 else " (lower)"), texts))
    taken = [
        " / ".join(shown(f := cells.get((d, m)), None if f is None else f.record.get("explain_seconds"), 2) for d in SETS)
        for m in COLUMNS
    ]
    normalised = [
        " / ".join(shown(f := cells.get((d, m)), None if f is None else f.record.get("naopc"), 2) for d in SETS) for m in COLUMNS
    ]
    return [*rows, row("normalised AOPC, 20 texts", normalised), row("seconds for the texts, while others ran", taken)]


def is_earlier(cells: dict[tuple[str, str], Found], data: str, method: str) -> bool:
    """Whether a cell is of another training of the network."""
    found = cells.get((data, method))
    return found is not None and found.earlier


def of_checks(cells: dict[tuple[str, str], Found]) -> list[str]:
    """The sanity checks of every method."""
    rows = [headed(COLUMNS)]
    for said, name, check in CHECKS:
        texts = []
        for m in COLUMNS:
            parts = []
            for d in SETS:
                found = cells.get((d, m))
                checked = {} if found is None else found.record.get("sanity", {})
                refused = check in checked.get("collapsed", ())
                parts.append(REFUSED if refused else shown(found, checked.get(name), 2))
            texts.append(" / ".join(parts))
        rows.append(row(said, texts))
    same = [
        " / ".join(
            "yes"
            if found is not None and found.record.get("sanity", {}).get("same")
            else REFUSED
            if found is not None and "collapsed" in found.record
            else MISSING
            for found in (cells.get((d, m)) for d in SETS)
        )
        for m in COLUMNS
    ]
    return [*rows, row("twice the same explanation", same)]


def of_gaps(cells: dict[tuple[str, str], Found]) -> list[str]:
    """What one pass leaves to refine."""
    rows = ["| agreement with the model on fresh masks, one pass / refined |" + "".join(f" {CLEAN[d]} |" for d in SETS)]
    rows.append("|---" * (1 + len(SETS)) + "|")
    for m in ("default", "paper", "released"):
        parts = []
        for d in SETS:
            found = cells.get((d, m))
            pair = [None if found is None else found.record.get(f"gap {name}") for name in ("one pass", "refined")]
            parts.append(" / ".join(shown(found, value, 3) for value in pair) if pair[0] is not None else shown(found, None, 3))
        rows.append(row(COLUMNS[m], parts))
    return rows


def of_marks(cells: dict[tuple[str, str], Found]) -> list[str]:
    """Agreement with people's marks on HateXplain."""
    methods = {m: said for m, said in COLUMNS.items() if m != "released"}
    rows = [headed(methods)]
    for name in ("token_f1", "iou_f1", "auprc"):
        values = {(m, by): cells["hatexplain", m].record.get(f"{name} {by}") for m in methods for by in ("union", "majority")}
        best = {by: max(v for m in methods if (v := values[m, by]) is not None) for by in ("union", "majority")}
        texts = [
            " / ".join(shown(cells["hatexplain", m], values[m, by], 3, best[by]) for by in ("union", "majority")) for m in methods
        ]
        rows.append(row(name.replace("_f1", " F1").replace("iou", "IoU").replace("auprc", "AUPRC"), texts))
    return rows


def headed(columns: dict[str, str]) -> str:
    """The head of a table and the line below it."""
    return "| |" + "".join(f" {said} |" for said in columns.values()) + "\n" + "|---" * (1 + len(columns)) + "|"


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
