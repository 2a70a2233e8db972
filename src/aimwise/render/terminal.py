"""Explanations in a terminal: shaded words or bars of columns, and signs instead of shades where there is no colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation
from aimwise.render.html import MINUS, cell, percent, signed
from aimwise.render.text import passage, shade_scale, strongest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

ROWS = 10
TAIL = 300  # characters of what was not explained
UNDERLINED = 3
HALF = 12  # cells of a bar on either side of its axis
SHADES = (0.15, 0.4, 0.75)  # from these shares of the scale on a word is coloured, on pale ground, on strong ground
FOR = ("", "#2f8fd0", "#101418 on #a5d0ec", "#ffffff on #0072b2")
AGAINST = ("", "#d97706", "#101418 on #f7c79b", "#ffffff on #b85000")
CONTROLS = {i: 0x2400 + i for i in range(32)} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | {0x7F: 0x2421}
CONTROLS |= {ord("\n"): ord("\n"), ord("\t"): ord("\t"), ord("\r"): ord(" ")}


def show(explanation: Explanation, *, target: str | int | None = None, k: int = 10, console: Console | None = None) -> None:
    """Print the first rows: the probability of every class, then the evidence for one of them."""
    if k < 0:
        raise BadSetting(f"k={k}, wanted 0 or more.")
    explanation.classes_of(target)  # a class that does not exist is named before anything is printed
    if console is None:
        from rich.console import Console

        console = Console()
    Screen(console, explanation, target, k).show()


class Screen:
    """One explanation on one console."""

    def __init__(self, console: Console, explanation: Explanation, target: str | int | None, k: int) -> None:
        self.console, self.explanation, self.target, self.k = console, explanation, target, k
        self.weights = explanation.towards(target).tolist()
        self.meant = explanation.classes_of(target).tolist()
        self.scale = shade_scale(explanation.weights[:ROWS], explanation.present[:ROWS])
        self.ascii = console.options.ascii_only
        self.plain = console.no_color or console.color_system is None  # signs must say what colours cannot

    def show(self) -> None:
        rows, d, c = self.explanation.weights.shape
        reading = self.explanation.names is None
        what = "" if reading else f", {d:,} features"
        self.line(self.text(f"Explanation by {self.explanation.method}: {rows:,} row{'s' * (rows != 1)}{what}, {c:,} classes"))
        if reading and rows:
            self.line(self.legend())
        for i in range(min(rows, ROWS)):
            self.line(self.text(""))
            self.head(i)
            self.console.print(self.probabilities(i))
            if reading:
                self.words(i)
            else:
                self.line(self.towards(i))
            self.console.print(self.bars(i))
        if rows > ROWS:
            self.line(self.text(f"\n{rows - ROWS:,} more row{'s' * (rows - ROWS > 1)} not shown.", "dim"))

    def text(self, text: str, style: str = "") -> Text:
        """Text that is printed as it stands: no markup, nothing that moves the cursor, nothing the console cannot write."""
        from rich.text import Text

        return Text(self.safe(text), style=style)

    def safe(self, text: str) -> str:
        if self.ascii:
            text = text.replace(MINUS, "-")
        return text.translate(CONTROLS).encode(self.console.encoding, "replace").decode(self.console.encoding)

    def line(self, text: Text) -> None:
        self.console.print(text, overflow="fold", highlight=False)

    def head(self, i: int) -> None:
        c = int(self.explanation.prediction[i])
        head = self.text(f"Row {i}: ", "dim")
        head.append(self.text(self.explanation.classes[c], "bold not dim"))
        head.append(self.text(f" {percent(float(self.explanation.probs[i, c]))}", "not dim"))
        if self.explanation.check is not None:
            head.append(self.text(f"  agreement {float(self.explanation.check.agreement[i]):.2f}"))
        self.line(head)

    def probabilities(self, i: int) -> Table:
        """A bar for every class, the probable ones first where there are many."""
        probs, table = self.explanation.probs[i].tolist(), self.grid()
        order: Sequence[int] = range(len(probs))
        if len(probs) > 8:
            order = sorted(order, key=lambda c: -probs[c])
        for c in order:
            style = "bold" if c == int(self.explanation.prediction[i]) else ""
            share = probs[c] if math.isfinite(probs[c]) else 0.0
            blocks = self.blocks(share * 2 * HALF).ljust(2 * HALF + 1)
            table.add_row(self.text(self.explanation.classes[c], style), self.text(percent(probs[c]), style), self.text(blocks))
        return table

    def legend(self) -> Text:
        if self.plain:
            marks = f"The top {self.k} words are marked: [+word] speaks for the class, [-word] against it."
            return self.text(marks)
        out = self.text("Words speak ")
        out.append(self.text(" for ", FOR[3]))
        out.append(" or ")
        out.append(self.text(" against ", AGAINST[3]))
        out.append(" the class; ")
        out.append(self.text(f"top {self.k} bold", "bold"))
        out.append(", ")
        return out.append(self.text(f"strongest {min(UNDERLINED, self.k)} underlined", "bold underline"))

    def towards(self, i: int) -> Text:
        out = self.text("  Evidence for ", "dim")
        return out.append(self.text(self.explanation.classes[self.meant[i]], "bold not dim"))

    def words(self, i: int) -> None:
        """The text, its words shaded by weight."""
        from rich.padding import Padding

        read, out = passage(self.explanation, i), self.text("")
        top = strongest(self.explanation, i, self.k, self.target)
        first, under = set(top), set(top[:UNDERLINED])
        for piece, j in read.pieces():
            if j is None:
                out.append(self.text(piece))
                continue
            weight = self.weights[i][j]
            style = self.shade(weight) + " bold" * (j in first) + " underline" * (j in under)
            marked = f"[{'-' if weight < 0 else '+'}{piece}]" if self.plain and j in first else piece
            out.append(self.text(marked, style.strip()))
        tail = read.tail if read.beyond else read.tail.rstrip()
        if read.beyond and len(tail) > TAIL:
            tail = tail[:TAIL] + "..."
        out.append(self.text(tail, "dim" if read.beyond else ""))
        if out.plain.strip():
            self.console.print(Padding(out, (1, 2)), highlight=False, overflow="fold")
        if read.note:
            self.line(self.text(f"  {read.note}.", "dim italic"))
        self.line(self.towards(i) if read.places else self.text("  This text has no words.", "dim"))

    def shade(self, weight: float) -> str:
        """The style of a word by its share of the scale."""
        share = abs(weight) / self.scale if self.scale else 0.0
        return (AGAINST if weight < 0 else FOR)[sum(share >= step for step in SHADES)]

    def bars(self, i: int) -> Table:
        """The strongest features, each with a bar to the right where it speaks for the class, to the left where against."""
        top, names, table = strongest(self.explanation, i, self.k, self.target), self.explanation.names, self.grid()
        scale = max((abs(self.weights[i][j]) for j in top if math.isfinite(self.weights[i][j])), default=0.0)
        for j in top:
            weight, value = self.weights[i][j], cell(self.explanation.values[i, j])
            length = HALF * abs(weight) / scale if scale and math.isfinite(weight) else 0.0
            left = self.blocks(length, leftwards=True) if weight < 0 else ""
            bar = self.text(left.rjust(HALF), AGAINST[1])
            bar.append(self.text("|" if self.ascii else "│", "dim"))
            bar.append(self.text("" if weight < 0 else self.blocks(length), FOR[1]))
            bar.append(" " * (2 * HALF + 1 - len(bar)))
            table.add_row(self.text(value if names is None else f"{names[j]} = {value}"), self.text(signed(weight, scale)), bar)
        return table

    def blocks(self, cells: float, *, leftwards: bool = False) -> str:
        """A bar of so many cells, to the half of one."""
        halves = round(2 * cells)
        if self.ascii:
            return "#" * ((halves + 1) // 2)
        half = ("▐" if leftwards else "▌") * (halves % 2)
        return half + "█" * (halves // 2) if leftwards else "█" * (halves // 2) + half

    def grid(self) -> Table:
        """Name, number, bar."""
        from rich.table import Table

        table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
        table.add_column(overflow="fold", max_width=40)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        return table
