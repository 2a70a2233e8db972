"""Faithfulness against K on IMDB (the figure beside Table 2), and L2X and AIM at K = 5, 10, 20 (Table 11, appendix G)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from aimwise.study.paper import methods
from aimwise.study.paper.base import Board, Claim, Column, Curve, Panel, Plot, Row, Table, best, every
from aimwise.study.paper.boxes import CLEAN, TEXTS
from aimwise.study.paper.methods import Scale, cells_of

KS = (5, 10, 20)
FIGURE_KS = (1, 2, 3, 5, 10, 20)
FILLS = ("in_place", "packed")


def columns(k: int) -> tuple[Column, ...]:
    """Purity, brevity and faithfulness at one K."""
    return (
        Column("purity %", f"purity@{k}", 100, "lower", "purity"),
        Column("brevity", f"brevity@{k}", 1, "lower"),
        Column("brevity, as released", f"brevity_released@{k}", 1, "lower", "brevity"),
        Column("faithful %, in place", f"faithfulness@{k} in_place", 100, "higher", "faithfulness"),
        Column("faithful %, packed", f"faithfulness@{k} packed", 100, "higher", "faithfulness"),
    )


def rows(data: str, scale: Scale, k: int) -> tuple[Row, ...]:
    """L2X is trained anew for each K; AIM is trained once."""
    cells = partial(cells_of, data, scale=scale)
    return (
        Row("L2X", cells(methods.l2x(data, scale, k=k)), f"L2X K={k}"),
        Row("AIM (paper)", cells(methods.aim_paper(data, scale)), f"AIM K={k}"),
        Row("AIM (default)", cells(methods.aim_default(data, scale)), f"AIM K={k}"),
    )


def panels(scale: Scale) -> list[Panel]:
    """For each data set and K one."""
    return [Panel(f"{CLEAN[data]}, K = {k}", data, columns(k), rows(data, scale, k)) for data in TEXTS for k in KS]


def curve_rows(data: str, scale: Scale) -> dict[str, dict[int, Row]]:
    """The methods of the figure, with the row that has the cells for each K."""
    cells = partial(cells_of, data, scale=scale)
    once = {
        "AIM (paper)": cells(methods.aim_paper(data, scale)),
        "AIM (default)": cells(methods.aim_default(data, scale)),
        "LIME": cells(methods.lime(data, scale)),
        "FI": cells(methods.fi(scale)),
        "integrated gradients": cells(methods.plain("ig", scale)),
        "random": cells(methods.plain("random", scale)),
    }
    made = {name: {k: Row(name, found) for k in FIGURE_KS} for name, found in once.items()}
    for name, method in (("L2X", methods.l2x), ("VIBI", methods.vibi)):
        made[name] = {k: Row(name, cells(method(data, scale, k=k))) for k in KS}
    return made


def figure_panels(scale: Scale) -> list[Panel]:
    """The cells of the figure that no panel of Table 11 has, as panels of their own."""
    found = curve_rows("imdb", scale)
    return [
        Panel(
            f"{CLEAN['imdb']}, K = {k}, the figure's other methods",
            "imdb",
            columns(k),
            tuple(found[name][k] for name in ("VIBI", "LIME", "FI", "integrated gradients", "random")),
        )
        for k in KS
    ]


def plots(board: Board) -> list[Plot]:
    """Faithfulness against K on IMDB, a line for each method."""
    made = []
    for fill in FILLS:
        curves = []
        for name, by_k in curve_rows("imdb", board.scale).items():
            points = []
            for k, row in by_k.items():
                figure = f"faithfulness@{k} {fill}"
                values = tuple(100 * record[figure] for record in board.found(row) if figure in record)
                if values:
                    points.append((float(k), values))
            curves.append(Curve(name, tuple(points)))
        said = "in place" if fill == "in_place" else "packed"
        made.append(Plot(f"IMDB, {said}", "K, words", "faithfulness %", tuple(c for c in curves if c.points)))
    return made


def monotone(board: Board, row: str, data: str, fill: str) -> bool | None:
    """Whether faithfulness never falls as K grows."""
    found = [board.mean(data, row, f"faithfulness@{k} {fill}") for k in KS]
    if any(value is None for value in found):
        return None
    numbers = [value for value in found if value is not None]
    return all(a <= b for a, b in pairwise(numbers))


def all_monotone(board: Board, row: str) -> bool | None:
    """Whether it never falls on any data set, packed and in place."""
    return every([monotone(board, row, data, fill) for data in TEXTS for fill in FILLS])


def somewhere_not(board: Board, row: str) -> bool | None:
    """Whether it falls somewhere."""
    found = all_monotone(board, row)
    return None if found is None else not found


def better_at_every_k(board: Board) -> bool | None:
    """Whether AIM is more faithful than L2X at every K on every data set, packed."""
    figures = [(data, f"faithfulness@{k} packed") for data in TEXTS for k in KS]
    return every([best(board, data, "AIM (paper)", ["L2X"], figure, "higher") for data, figure in figures])


TABLE = Table(
    name="topk",
    title="Faithfulness against K",
    place="figure 2 and Table 11",
    panels=lambda scale: [*panels(scale), *figure_panels(scale)],
    claims=(
        Claim("L2X is not monotone in K", "App. G", lambda b: somewhere_not(b, "L2X")),
        Claim("AIM is monotone in K", "§4.2", lambda b: all_monotone(b, "AIM (paper)")),
        Claim("AIM (default) is monotone in K", "§4.2", lambda b: all_monotone(b, "AIM (default)")),
        Claim("AIM is more faithful than L2X at every K, packed", "App. G", better_at_every_k),
    ),
    plots=plots,
    notes=(
        "L2X and VIBI are trained anew for each K; AIM, LIME, FI and integrated gradients rank the words once. LIME and FI "
        "explain 500 texts. The figure's values are drawn, not printed, in the paper.",
    ),
)
