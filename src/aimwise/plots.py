"""Plots for papers, slides and notebooks: each takes an explanation and an axis of matplotlib, and returns the axis.

A plot without an axis gets a figure of its own. What speaks for a class is filled, what speaks against it hatched or dashed, and
the colours differ for eyes of every kind. They need matplotlib: pip install 'aimwise[plot]'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aimwise.errors import BadSetting, extra, unknown
from aimwise.explainers.learned import Learned
from aimwise.explanation import Explanation, Target
from aimwise.scores import Scores
from aimwise.scores.table import lines_of


def bar(explanation: Explanation, ax: Any = None, *, target: Target = None, top: int = 10) -> Any:
    """The features or words that matter most over all rows: a bar for the mean weight over a pale one for the mean size."""
    extra("matplotlib", "plot")
    from aimwise.render import axes

    return axes.bar(opened(explanation), ax, target=target, top=top)


def beeswarm(explanation: Explanation, ax: Any = None, *, target: Target = None, top: int = 10) -> Any:
    """A point for every row's weight of the features that matter most, shaded by the feature's value where it is a number."""
    extra("matplotlib", "plot")
    from aimwise.render import axes

    return axes.beeswarm(opened(explanation), ax, target=target, top=top)


def heatmap(explanation: Explanation, ax: Any = None, *, target: Target = None, top: int = 20) -> Any:
    """The weights of the features that matter most in every row, the surest rows first; of images the mean of every pixel."""
    extra("matplotlib", "plot")
    from aimwise.render import axes

    return axes.heatmap(opened(explanation), ax, target=target, top=top)


def waterfall(explanation: Explanation, ax: Any = None, *, target: str | int | None = None, top: int = 10) -> Any:
    """How the score of one input comes about: from no feature, one by one, in log-odds that add up."""
    extra("matplotlib", "plot")
    from aimwise.render import single

    return single.waterfall(opened(explanation), ax, target=target, top=top)


def text(explanation: Explanation, ax: Any = None, *, target: str | int | None = None, top: int = 10) -> Any:
    """One text, its words on grounds as strong as their weight, dashed under where they speak against the class, the top bold."""
    extra("matplotlib", "plot")
    from aimwise.render import single

    return single.text(opened(explanation), ax, target=target, top=top)


def image(explanation: Explanation, ax: Any = None, *, target: str | int | None = None, top: int = 0) -> Any:
    """One picture under the evidence for a class, the top regions outlined."""
    extra("matplotlib", "plot")
    from aimwise.render import single

    return single.image(opened(explanation), ax, target=target, k=top)


def curves(scores: Scores, ax: Any = None, *, metric: str = "faithfulness", fill: str | None = None) -> Any:
    """A metric of `aimwise.evaluate` against K: a line for each method with its 95 % band; the first fill if none is said."""
    extra("matplotlib", "plot")
    from aimwise.render import lines

    fills = scores.fills(metric)
    if fill is not None and fill not in fills:
        raise unknown("fill", fill, fills)
    fill = fills[0] if fill is None else fill
    row = scores.find(metric)[0]
    title = metric if fill is None else f"{metric}, fill: {fill}"
    return lines.curves(lines_of(scores, metric, fill), ax, title=title, unit=f"{row.unit}, {row.better} is better")


def history(trained: Explanation | Learned | Sequence[Mapping[str, Any]], ax: Any = None) -> Any:
    """How a training went, from a fitted explainer, an explanation by one, or its history itself."""
    extra("matplotlib", "plot")
    from aimwise.render import lines

    if isinstance(trained, Explanation):
        training = None if trained.about is None else trained.about.training
    elif isinstance(trained, Learned):
        training = trained._training()
    else:
        epochs = list(trained)
        best = max(range(len(epochs)), key=lambda i: epochs[i].get("agreement", float("-inf")), default=0)
        return lines.history(known(epochs), ax, best=best)
    return lines.history(known([] if training is None else training.history), ax, best=0 if training is None else training.best)


def known(epochs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The epochs, if there are any."""
    if not epochs:
        raise BadSetting("There is no training history here: the method does not train, or the explanation was made without it.")
    return epochs


def opened(explanation: Explanation) -> Explanation:
    """The same record to draw: a class that was not explained has weights of 0."""
    return explanation._opened()
