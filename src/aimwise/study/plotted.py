"""The plots of a table, with bands of one deviation over the seeds, as SVG."""

from __future__ import annotations

import io
import statistics

from aimwise.errors import extra
from aimwise.study.paper.base import Plot


def svg(plot: Plot) -> str:
    """A plot as an SVG image, the same text for the same figures."""
    extra("matplotlib", "plot")
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from aimwise.render.lines import Line, curves

    lines = []
    for curve in plot.curves:
        means = tuple(statistics.fmean(values) for _, values in curve.points)
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for _, values in curve.points]
        low = tuple(m - s for m, s in zip(means, spread, strict=True))
        high = tuple(m + s for m, s in zip(means, spread, strict=True))
        lines.append(Line(curve.name, tuple(int(x) for x, _ in curve.points), means, low, high))
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasSVG(figure)
    ax = curves(lines, figure.add_subplot(), title=plot.title, unit=plot.y)
    ax.set_xlabel(plot.x)
    held = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "aimwise", "svg.fonttype": "path"}):
        figure.savefig(held, format="svg", metadata={"Date": None})
    return held.getvalue()
