"""The plots over all rows: which features or words speak for and against a class, and which speak for which class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from aimwise.explanation import Explanation
from aimwise.render.colours import marks
from aimwise.render.say import breakable, signed, times
from aimwise.render.text import Lexicon, prominence
from aimwise.render.views import margins

TOP = 12
ALL_CLASSES, PREDICTED, FIRST = -2, -1, 0  # how the class switch counts its choices


def overall(explanation: Explanation) -> str:
    """One plot for each choice of the class switch, the first class in sight."""
    lexicon = Lexicon.of(explanation) if explanation.names is None else None
    plots = []
    for i, name in enumerate(["all classes", "the predicted class", *explanation.classes], start=ALL_CLASSES):
        if i == ALL_CLASSES:
            drawn = class_plot(explanation, lexicon)
        else:
            weights = explanation.towards(None if i == PREDICTED else i)
            drawn = word_plot(explanation, weights, name, lexicon) if lexicon else column_plot(explanation, weights, name)
        colour = f' class="{marks(i)}"' if i >= FIRST else ""
        plots.append(f'<figure data-target="{i}"{colour}{" hidden" * (i != FIRST)}>{drawn}</figure>')
    return f'<div class="overall"><h3>All rows together</h3>{"".join(plots)}</div>'


def column_plot(explanation: Explanation, weights: Tensor, name: str) -> str:
    """The features with the largest mean size: a bar for the mean weight over a pale band for the mean size."""
    count, d = weights.shape  # (B, d)
    kept = torch.where(explanation.present, weights.double(), 0.0)
    rows = explanation.present.sum(0).clamp_min(1)  # that have the feature
    means, sizes = kept.sum(0) / rows, kept.abs().sum(0) / rows  # (d,)
    order = kept.abs().sum(0).argsort(descending=True, stable=True)[:TOP].tolist()
    scale = max((s for s in sizes.tolist() if math.isfinite(s)), default=0.0)
    names = explanation.names or ()
    sized = [(names[j], float(means[j]), float(sizes[j])) for j in order]
    bars = "".join(bar(*each, scale, f"size {signed(each[2], scale).lstrip('+')}") for each in sized)
    which = f"The {len(order)} most important of {d:,} features" if d > len(order) else "All features"
    return plot(f"{which} for", name, f"mean weight over {count:,} row{'s' * (count != 1)}", "rows", bars)


def word_plot(explanation: Explanation, weights: Tensor, name: str, lexicon: Lexicon) -> str:
    """The words that stand out most in all texts together: a bar for the mean weight of an occurrence, and their number."""
    if not lexicon.words:
        return f'<figcaption>There are no words to weigh for <b dir="auto">{escape(name)}</b>.</figcaption>'
    leading = lexicon.leading(weights[explanation.present].double().numpy(), TOP)
    scale = max((size for _, _, size, _ in leading if math.isfinite(size)), default=0.0)
    bars = "".join(bar(word, mean, size, scale, times(n)) for word, mean, size, n in leading)
    which = (
        f"The {len(leading)} of {len(lexicon.words):,} words that stand out most in all texts together, by size and number, for"
    )
    return plot(which, name, "mean weight of one occurrence, and how often the word comes", "occurrences", bars)


def plot(which: str, name: str, what: str, differ: str, bars: str) -> str:
    """Bars under a caption that says how to read them."""
    return (
        f'<figcaption>{which} <b dir="auto">{escape(name)}</b>: {what}. Filled to the right (+) it speaks for the class, hatched '
        "to the left (&minus;) against it. The pale band is the mean size, whatever the sign; where it is much wider than the "
        f"bar, {differ} differ.</figcaption>"
        f'<ol class="bars" role="list">{bars}</ol>'
    )


def bar(name: str, mean: float, size: float, scale: float, more: str) -> str:
    """One feature of the plot for a class."""
    band, length = (100 * abs(v) / scale if scale and math.isfinite(v) else 0.0 for v in (size, mean))
    return (
        f'<li class="bar"><span class="name"><bdi>{breakable(name)}</bdi></span>'
        f'<span class="track" aria-hidden="true"><i class="band" style="--w:{band / 2:.2f}%"></i>'
        f'<i class="{"minus" if mean < 0 else "plus"}" style="--w:{length / 2:.2f}%"></i></span>'
        f'<span class="weight">{signed(mean, scale)}<small>{more}</small></span></li>'
    )


def class_plot(explanation: Explanation, lexicon: Lexicon | None) -> str:
    """The features with the largest margins over all rows: a bar of as many pieces as there are classes they speak for."""
    count, d, c = explanation.weights.shape
    sizes, classes = (each[explanation.present].numpy() for each in margins(explanation.weights))
    names: Sequence[str] = explanation.names or ()
    ids, counts, rank = explanation.present.nonzero()[:, 1].numpy(), np.full(d, max(count, 1)), None
    what, unit = "features", f"over {count:,} row{'s' * (count != 1)}"
    if lexicon is not None:
        names, ids, counts, rank = lexicon.words, lexicon.ids, lexicon.counts, lexicon.rare
        what, unit = "words", "of one occurrence"
    if not len(names):
        return "<figcaption>There are no words to weigh.</figcaption>"
    sizes = np.where(np.isfinite(sizes), sizes, 0.0).clip(min=0)
    sums = np.bincount(ids * c + classes, weights=sizes, minlength=len(names) * c).reshape(len(names), c)  # (V, C)
    totals = sums.sum(1) if lexicon is None else prominence(sums.sum(1), counts)
    order = np.lexsort((-totals,) if rank is None else (-totals, rank))[:TOP]
    means = sums / counts[:, None]
    scale = float(means[order].sum(1).max())
    ranked = order[np.argsort(-totals[order], kind="stable")]
    bars = "".join(
        pieces(explanation.classes, names[j], means[j], scale, "" if lexicon is None else times(int(counts[j]))) for j in ranked
    )
    which = f"The {len(order)} of {len(names):,} {what} with the largest margins" if len(names) > len(order) else f"All {what}"
    return (
        f"<figcaption>{which} in <b>all classes</b>: mean margin {unit}. A margin is the weight for the class that is spoken for "
        "most, less the mean weight for the other classes; the colours of a bar say how much of it goes to which class."
        f'</figcaption><ol class="bars" role="list">{bars}</ol>'
    )


def pieces(classes: Sequence[str], name: str, means: np.ndarray, scale: float, more: str) -> str:
    """One feature of the plot for all classes, the class with the largest piece first."""
    order = [int(c) for c in np.argsort(-means, kind="stable") if means[c] > 0]
    parts = "".join(
        f'<i class="part {marks(c)}" style="--w:{100 * means[c] / scale:.2f}%" '
        f'title="{escape(classes[c])} {signed(float(means[c]), scale)}"></i>'
        for c in order
    )
    most = f'<small class="of {marks(order[0])}" dir="auto">{escape(classes[order[0]])}</small>' if order else ""
    return (
        f'<li class="bar sum"><span class="name"><bdi>{breakable(name)}</bdi> {most}</span>'
        f'<span class="track" aria-hidden="true">{parts}</span>'
        f'<span class="weight">{signed(float(means.sum()), scale)}{f"<small>{more}</small>" if more else ""}</span></li>'
    )
