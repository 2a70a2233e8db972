"""Where the default recipe stands against the best of all rivals, cell by cell: what `benchmarks.recipes` found, as a page.

    python -m benchmarks.standings [--results results/recipes.json] [--out docs/measured/recipes.md]

A cell is a metric at one K under one fill on one data set. Methods that explain few inputs are compared on those alone. What a
later file says of a data set takes the place of what an earlier one says: its black box is another.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean, pstdev

from aimwise.files import write_text
from aimwise.metrics import METRICS
from aimwise.study.cells import Facts
from aimwise.study.store import OneFile
from benchmarks.recipes import RIVALS, SLOW, TASKS, TOP

RESULTS = [Path("results/recipes.json")]
OURS = "default"
STEADY = "lime 5000"  # the rival whose seeds are compared with one another as ours are
FEW = " first rows"
LEVEL = 1e-4
NAMES = {
    "ig": "integrated gradients",
    "fastshap": "FastSHAP",
    "l2x": "L2X",
    "lime 1000": "LIME, 1,000",
    "lime 5000": "LIME, 5,000",
    "kernel_shap": "Kernel SHAP",
}
INTRO = """# The default recipe against all rivals

Written by `python -m benchmarks.standings` from `results/recipes.json` (`python -m benchmarks.recipes --judge`), which has
every figure. One black box for each data set, trained once and kept; the default recipe is the mean of its seeds. A cell is a
metric at one K under one fill: faithfulness, sufficiency, comprehensiveness, +Δ and −Δ log-odds, class-specific faithfulness and
EVAL-X. *Behind* are the cells in which the best of all rivals, whichever that is there, is better, with both figures; ± is the
deviation over our seeds. LIME and Kernel SHAP explain the first 100 inputs, and are compared on those.
"""


@dataclass(frozen=True)
class Standing:
    """One cell: our figures over the seeds, and the best rival's."""

    figure: str
    ours: tuple[float, ...]
    rival: str
    theirs: float
    sign: int  # 1 where higher is better

    @property
    def gap(self) -> float:
        """By how much we are ahead; below 0 where the rival is."""
        return self.sign * (mean(self.ours) - self.theirs)

    @property
    def behind(self) -> bool:
        """Whether the rival is better by more than rounding."""
        return self.gap < -LEVEL


def sign_of(figure: str) -> int:
    """1 for a figure of which more is better, else -1."""
    metric = figure.partition("@")[0]
    return -1 if metric in METRICS and METRICS[metric].better == "lower" else 1


def against(cells: list[Facts], rival: str) -> list[Standing]:
    """Every cell of one data set's records that a rival has."""
    ours = [c for c in cells if c["method"] == OURS]
    found = []
    for figure in (name for name in ours[0] if "@" in name and not name.endswith(FEW)):
        name = figure + (FEW if rival in SLOW else "")
        theirs = [c[name] for c in cells if c["method"] == rival and name in c]
        if theirs:
            found.append(Standing(figure, tuple(c[name] for c in ours), rival, mean(theirs), sign_of(figure)))
    return found


def standings(cells: list[Facts]) -> list[Standing]:
    """Every cell of one data set's records, beside the rival that is best there."""
    best: dict[str, Standing] = {}
    for one in (one for rival in RIVALS for one in against(cells, rival)):
        if one.figure not in best or one.gap < best[one.figure].gap:
            best[one.figure] = one
    return list(best.values())


def duels(by_data: dict[str, list[Facts]]) -> str:
    """A table of the cells in which we are ahead of each rival by itself, or level."""
    lines = [
        "## Against each rival by itself",
        "",
        "In how many cells the default recipe is ahead or level. One pass asks nothing about the row that is explained.",
        "",
        "| |" + "".join(f" {NAMES.get(rival, rival)} |" for rival in RIVALS),
        "|---" * (1 + len(RIVALS)) + "|",
    ]
    for data, cells in by_data.items():
        texts = []
        for rival in RIVALS:
            found = against(cells, rival)
            won = sum(not one.behind for one in found)
            texts.append((f"**{won} of {len(found)}**" if 2 * won >= len(found) else f"{won} of {len(found)}") if found else "–")
        lines.append(f"| {data} | " + " | ".join(texts) + " |")
    return "\n".join([*lines, ""])


def steadiness(cells: list[Facts]) -> float | None:
    """The mean overlap of the top features between seeds, intersection over union; None where they are not known."""
    tops = [[set(row.split()) for row in c["tops"]] for c in cells if "tops" in c]
    pairs = [pair for one, other in combinations(tops, 2) for pair in zip(one, other, strict=True)]
    return mean(len(a & b) / len(a | b) for a, b in pairs) if pairs else None


def section(data: str, cells: list[Facts]) -> str:
    """The part of the page about one data set."""
    found = standings(cells)
    behind = sorted((one for one in found if one.behind), key=lambda one: one.gap)
    rivals = [NAMES.get(name, name) for name in RIVALS if any(c["method"] == name for c in cells)]
    ours = [c for c in cells if c["method"] == OURS]
    devices = ", ".join(sorted({str(c["device"]) for c in cells}))
    steady, lime = steadiness(ours), steadiness([c for c in cells if c["method"] == STEADY])
    beside = "" if lime is None else f", those of {NAMES[STEADY]} by {lime:.2f}"
    alike = (
        ""
        if steady is None
        else f" The top {TOP} of two seeds overlap by {steady:.2f}{beside} (first {len(ours[0]['tops'])} inputs)."
    )
    commits = ", ".join(sorted({str(c.get("commit", ""))[:7] for c in ours}))
    lines = [
        f"## {data}",
        "",
        f"Black box {100 * ours[0]['accuracy']:.1f} % accurate; {ours[0]['rows']} inputs, {len(ours)} seeds, commit {commits}; "
        f"{devices}. "
        f"Rivals: {', '.join(rivals)}. **Ahead or level in {len(found) - len(behind)} of {len(found)} cells.**{alike}",
        "",
    ]
    if behind:
        lines += ["| behind in | `AIM()` | best rival | |", "|---|---|---|---|"]
        lines += [
            f"| {one.figure.replace('_', ' ')} | {mean(one.ours):.3f} ± {pstdev(one.ours):.3f} | {one.theirs:.3f} | "
            f"{NAMES.get(one.rival, one.rival)} |"
            for one in behind
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", default=RESULTS)
    parser.add_argument("--out", type=Path, default=Path("docs/measured/recipes.md"))
    options = parser.parse_args()
    by_data: dict[str, list[Facts]] = {}
    for file in options.results:
        records = [c for c in OneFile(file).records() if "collapsed" not in c]
        by_data |= {name: [c for c in records if c["data"] == name] for name in {c["data"] for c in records}}
    known = {name: by_data[name] for name in TASKS if any(c["method"] == OURS for c in by_data.get(name, ()))}
    write_text(options.out, "\n".join([INTRO, duels(known), *(section(name, cells) for name, cells in known.items())]))


if __name__ == "__main__":
    main()
