"""The results for people: a table for the terminal, a plot, and a page."""

from __future__ import annotations

import html
import io
import math
from importlib.resources import files
from typing import Any

from aimwise.errors import extra
from aimwise.human.intervals import Interval
from aimwise.human.reader import CALLED
from aimwise.human.results import PAPER_SAYS, Results

UNKNOWN = "–"
FIGURES = ("accuracy", "neutral")
HEAD = ("method", "people", "answers", "human accuracy %", "neutral %", "alpha", "s", "paper: accuracy, neutral %")
COLOURS = {"people": "#1f5fbf", "paper": "#1b1f26", "reader": "#7a818c"}


def percent(figure: Interval) -> str:
    """A share with its interval."""
    if math.isnan(figure.value):
        return UNKNOWN
    around = "" if math.isnan(figure.low) else f" ({100 * figure.low:.1f} to {100 * figure.high:.1f})"
    return f"{100 * figure.value:.1f}{around}"


def number(value: float, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return UNKNOWN if math.isnan(value) else f"{value:.{digits}f}"


def chance(p: float) -> str:
    """A probability as papers write it."""
    return UNKNOWN if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def head(results: Results) -> str:
    """Who took part, in one line."""
    sign = "the black box's prediction" if results.truth == "prediction" else "the true class"
    return (
        f"{results.title}: {results.participants} participants, {results.finished} of them finished; {results.items} items, "
        f"{results.top} features each; right is {sign}"
    )


def rows(results: Results) -> list[tuple[str, ...]]:
    """The table of people's answers."""
    return [
        (
            m.method,
            str(m.participants),
            f"{m.answers:,}",
            percent(m.accuracy),
            percent(m.neutral),
            number(m.alpha),
            number(m.seconds, 1),
            UNKNOWN if m.paper is None else f"{100 * m.paper[0]:.2f}, {100 * m.paper[1]:.2f}",
        )
        for m in results.methods
    ]


def pair_rows(results: Results) -> list[tuple[str, ...]]:
    """The table of pairs of methods."""
    return [
        (f"{b.one} – {b.other}", b.figure, percent(b.gap), chance(b.p), chance(b.people), chance(b.items))
        for b in results.pairs
        if not math.isnan(b.gap.value)
    ]


def reader_rows(results: Results) -> list[tuple[str, ...]]:
    """The table of the simulated reader's answers."""
    return [
        (m.method, percent(m.reader_accuracy), percent(m.reader_neutral))
        for m in results.methods
        if m.reader_accuracy is not None and m.reader_neutral is not None
    ]


PAIR_HEAD = ("pair", "figure", "difference, points", "p", "over people", "over items")
NOTES = (
    "Accuracy leaves out neutral answers and is the mean over participants. 95 % intervals are over participants and items.",
    "Alpha is Krippendorff's, neutral counted as an answer of its own; s is the median time of an answer in seconds.",
    "p: methods swapped for whole participants and for whole items, the larger of the two, corrected for several pairs (Holm).",
)


def tables(results: Results) -> Any:
    """The results for a terminal."""
    from rich.console import Group
    from rich.table import Table

    def table(names: tuple[str, ...], lines: list[tuple[str, ...]]) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in names:
            made.add_column(name, justify="left")
        for line in lines:
            made.add_row(*line)
        return made

    parts: list[Any] = [head(results), "", table(HEAD, rows(results)), ""]
    if pair_rows(results):
        parts += [table(PAIR_HEAD, pair_rows(results)), ""]
    if reader_rows(results):
        parts += [f"NOT HUMAN: a simulated reader of the same words, taught by {results.reader}; intervals over items"]
        parts += [table(("method", f"accuracy % ({CALLED})", f"neutral % ({CALLED})"), reader_rows(results)), ""]
    return Group(*parts, *NOTES, f"Paper: {PAPER_SAYS}.")


def plot(results: Results) -> Any:
    """A matplotlib figure: accuracy and neutral answers of every method, the paper's and the simulated reader's beside."""
    extra("matplotlib", "plot")
    from matplotlib.figure import Figure

    count = len(results.methods)
    figure = Figure(figsize=(9, 1.6 + 0.6 * count), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    machine = bool(reader_rows(results))
    for ax, name, title in ((left, "accuracy", "Accuracy, %"), (right, "neutral", "Neutral answers, %")):
        for y, m in enumerate(results.methods):
            human = getattr(m, name)
            if not math.isnan(human.value):
                dot(ax, y - 0.15 * machine, human, COLOURS["people"], "o", "people, 95 % interval")
            if m.paper is not None:
                ax.plot(100 * m.paper[name == "neutral"], y, "D", mfc="none", color=COLOURS["paper"], label="paper (IMDB)")
            read = getattr(m, f"reader_{name}")
            if read is not None and not math.isnan(read.value):
                dot(ax, y + 0.2, read, COLOURS["reader"], "x", CALLED)
        ax.set(title=title, xlim=(0, 100), ylim=(count - 0.5, -0.5), yticks=range(count))
        ax.set_yticklabels([m.method for m in results.methods], parse_math=False)
        ax.grid(axis="x", alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    known = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    if known:
        figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def dot(ax: Any, y: float, figure: Interval, colour: str, mark: str, label: str) -> None:
    """A figure with its interval."""
    value = 100 * figure.value
    bars = None if math.isnan(figure.low) else [[value - 100 * figure.low], [100 * figure.high - value]]
    ax.errorbar(value, y, xerr=bars, fmt=mark, color=colour, capsize=3, label=label)


def page(results: Results) -> str:
    """One self-contained page."""

    def table(names: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
        top = "".join(f"<th scope=col>{html.escape(n)}</th>" for n in names)
        body = "".join(
            "<tr>"
            + f"<th scope=row>{html.escape(line[0])}</th>"
            + "".join(f"<td>{html.escape(c)}</td>" for c in line[1:])
            + "</tr>"
            for line in lines
        )
        return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'

    drawn = io.StringIO()
    plot(results).savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    picture = drawn.getvalue()
    parts = [f"<p>{html.escape(head(results))}.</p>", table(HEAD, rows(results))]
    parts.append(f'<figure role="img" aria-label="The same figures as a plot">{picture[picture.index("<svg") :]}</figure>')
    if pair_rows(results):
        parts += ["<h2>Between methods</h2>", table(PAIR_HEAD, pair_rows(results))]
    if reader_rows(results):
        said = f"No person gave these answers: a bag-of-words classifier that learned from {results.reader} saw the same words."
        names = ("method", f"accuracy % ({CALLED})", f"neutral % ({CALLED})")
        parts += ["<h2>Not human: a simulated reader</h2>", f"<p>{html.escape(said)}</p>", table(names, reader_rows(results))]
    parts += [f"<p>{html.escape(note)}</p>" for note in (*NOTES, f"Paper: {PAPER_SAYS}.")]
    style = files("aimwise.human").joinpath("results.css").read_text(encoding="utf-8")
    title = html.escape(results.title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{style}</style></head><body><main><h1>{title}</h1>{''.join(parts)}</main></body></html>\n"
    )
