"""Explanations in a terminal: words on the colours of their classes or bars of columns, and signs where there is no colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aimwise.errors import BadSetting
from aimwise.explanation import Explanation
from aimwise.render.blocks import beside, lines
from aimwise.render.colours import INK, NEUTRAL, colour, cue, mixed
from aimwise.render.say import MINUS, cell, largest, percent, signed
from aimwise.render.text import passage
from aimwise.render.views import View, kind

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

ALL = "all"
ROWS = 10
TAIL = 300  # characters of what was not explained
HALF = 12  # cells of a bar on either side of its axis
SHADES = (0.15, 0.45, 0.75)  # from these shares of the scale on a word has coloured letters, a dull ground, a full ground
FINE = ("256", "truecolor")  # colours enough for pictures
DULL = "#9a9a9a"  # grey is mixed into a weaker ground: it is weaker on a light screen and on a dark one
AGAIN = ("", "underline", "italic", "underline italic")  # a second mark for classes whose colour was used before
CONTROLS = {i: 0x2400 + i for i in range(32)} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | {0x7F: 0x2421}
CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)  # they turn the direction of a line
CONTROLS |= {ord("\n"): ord("\n"), ord("\t"): ord("\t"), ord("\r"): ord(" ")}


def show(
    explanation: Explanation, *, target: str | int | None = None, k: int = 10, console: Console | None = None, first: int = 0
) -> None:
    """Print the first rows: the probability of every class, then the evidence for one, or for "all" if no class has that name.

    first: the number that the first row is called by.
    """
    if k < 0:
        raise BadSetting(f"k={k}, wanted 0 or more.")
    seen = explanation[:ROWS]
    # A class that does not exist is named before anything is printed.
    view = View.all(seen) if target == ALL and ALL not in explanation.classes else View.one(seen, target)
    if console is None:
        from rich.console import Console

        console = Console()
    Screen(console, explanation, view, k, one=None if view.every else target, first=first).show()


class Screen:
    """One explanation on one console."""

    def __init__(
        self, console: Console, explanation: Explanation, view: View, k: int, *, one: str | int | None, first: int = 0
    ) -> None:
        self.first = first
        self.console, self.explanation, self.view, self.k, self.one = console, explanation, view, k, one
        self.weights, self.about = view.weights.tolist(), view.classes.tolist()
        self.meant = explanation.classes_of(one).tolist()
        self.ascii = console.options.ascii_only
        self.plain = console.no_color or console.color_system is None  # signs must say what colours cannot
        self.kind = kind(explanation)
        self.pictures = not self.plain and not self.ascii and console.color_system in FINE

    def show(self) -> None:
        rows, d, c = self.explanation.weights.shape
        reading, image = self.kind == "text", self.kind == "image"
        what = "" if reading else f", {d:,} {'regions' if image else 'features'}"
        self.line(self.text(f"Explanation by {self.explanation.method}: {rows:,} row{'s' * (rows != 1)}{what}, {c:,} classes"))
        if reading and rows:
            self.line(self.legend())
        if image and rows and self.pictures:
            self.line(self.picture_legend())
        for i in range(min(rows, ROWS)):
            self.line(self.text(""))
            self.head(i)
            self.console.print(self.probabilities(i))
            if reading:
                self.words(i)
            elif image and self.pictures:
                self.picture(i)
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
        head = self.text(f"Row {self.first + i}: ", "dim")
        head.append(self.text(self.explanation.classes[c], "bold not dim"))
        head.append(self.text(f" {percent(float(self.explanation.probs[i, c]))}", "not dim"))
        if self.explanation.check is not None:
            head.append(self.text(f"  agreement {float(self.explanation.check.agreement[i]):.2f}"))
        self.line(head)

    def probabilities(self, i: int) -> Table:
        """A bar for every class in its colour, the probable ones first where there are many."""
        probs, table = self.explanation.probs[i].tolist(), self.grid()
        order: Sequence[int] = range(len(probs))
        if len(probs) > 8:
            order = sorted(order, key=lambda c: -probs[c])
        for c in order:
            style = "bold" if c == int(self.explanation.prediction[i]) else ""
            share = probs[c] if math.isfinite(probs[c]) else 0.0
            bar = self.text(self.blocks(share * 2 * HALF).ljust(2 * HALF + 1), colour(c).line)
            table.add_row(self.named(c, style), self.text(percent(probs[c]), style), bar)
        return table

    def named(self, c: int, style: str) -> Text:
        """A class; where all are seen at once it stands as its words do, or with its number."""
        name = self.explanation.classes[c]
        if not self.view.every:
            return self.text(name, style)
        if self.plain:
            return self.text(f"{c}: {name}", style)
        out = self.text("")
        return out.append(self.text(f" {name} ", f"{style} {self.ground(c, 1.0)} {AGAIN[cue(c)]}".strip()))

    def legend(self) -> Text:
        """How to read the words, and what weight has the full strength."""
        size, scale = "margin" if self.view.every else "weight", self.view.scale
        if self.plain:
            marks = "[+word] speaks for the class, [-word] against it."
            if self.view.every:
                marks = "[0:word] speaks most for class 0."
            return self.text(f"Marked words are {largest(self.k, size)}: {marks}" if self.k else "No words are marked.")
        out = self.text("Words ")
        if self.view.every:
            out.append("have the colour of the class that they speak most for")
        else:
            filled = f"{INK} on {NEUTRAL.light}" if self.one is None else self.ground(self.meant[0], 1.0)
            out.append(self.text(" filled ", filled)).append(" speak for the class, ")
            out.append(self.text("underlined", "underline")).append(" against it")
        if self.k:
            out.append(", ").append(self.text("bold", "bold")).append(self.text(f" are {largest(self.k, size)}"))
        return out.append(
            self.text(f"; full strength is a {size} of {signed(scale, scale).lstrip('+')} and more" if scale else "")
        )

    def picture_legend(self) -> Text:
        """How to read the pictures, and what weight has the full strength."""
        size, scale = "margin" if self.view.every else "weight", self.view.scale
        said = "Regions in the colour of a class speak for it, striped ones against it"
        if self.view.every:
            said = "Regions have the colour of the class that they speak most for"
        full = f"; full strength is a {size} of {signed(scale, scale).lstrip('+')} and more" if scale else ""
        return self.text(said + full)

    def picture(self, i: int) -> None:
        """The picture of a row, and what its regions say."""
        made = beside(self.explanation, i, self.view, self.console.width - 2)
        self.line(self.text(""))
        for line in lines(made, 2) if made else ():
            self.line(line)
        self.line(self.text(""))
        self.line(self.towards(i))

    def towards(self, i: int) -> Text:
        out = self.text("  Evidence for ", "dim")
        if self.view.every:
            return out.append(self.text("all classes", "bold not dim"))
        c = self.meant[i]
        name = self.explanation.classes[c]
        return out.append(self.text(name if self.plain else f" {name} ", f"bold not dim {self.ground(c, 1.0)}"))

    def words(self, i: int) -> None:
        """The text, its words shaded by weight."""
        from rich.padding import Padding

        read, out, first = passage(self.explanation, i), self.text(""), set(self.view.strongest(i, self.k))
        for piece, j in read.pieces():
            if j is None:
                out.append(self.text(piece))
                continue
            weight, c = self.weights[i][j], self.about[i][j]
            sign = f"{c}:" if self.view.every else "-" if weight < 0 else "+"
            marked = f"[{sign}{piece}]" if self.plain and j in first else piece
            out.append(self.text(marked, (self.shade(weight, c) + " bold" * (j in first)).strip()))
        tail = read.tail if read.beyond else read.tail.rstrip()
        if read.beyond and len(tail) > TAIL:
            tail = tail[:TAIL] + "..."
        out.append(self.text(tail, "dim" if read.beyond else ""))
        if out.plain.strip():
            self.console.print(Padding(out, (1, 2)), highlight=False, overflow="fold")
        if read.note:
            self.line(self.text(f"  {read.note}.", "dim italic"))
        self.line(self.towards(i) if read.places else self.text("  This text has no words.", "dim"))

    def shade(self, weight: float, c: int) -> str:
        """The style of a word by its share of the scale: a ground where it speaks for its class, else a line under it."""
        share = abs(weight) / self.view.scale if self.view.scale else 0.0
        if weight < 0:
            return "underline" if share >= SHADES[0] and not self.view.every else ""
        style = self.ground(c, share)
        return f"{style} {AGAIN[cue(c)]}".strip() if style and self.view.every else style

    def ground(self, c: int, share: float) -> str:
        """The ground of a class at one of its strengths; the text on it has a colour of its own."""
        full, step = colour(c).light, sum(share >= each for each in SHADES)
        return ("", colour(c).line, f"{INK} on {mixed(full, DULL, 0.5)}", f"{INK} on {full}")[step]

    def bars(self, i: int) -> Table:
        """The strongest features, each with a bar to the right where it speaks for the class, to the left where against."""
        top, table, weights = self.view.strongest(i, self.k), self.grid(), self.weights[i]
        scale = max((abs(weights[j]) for j in top if math.isfinite(weights[j])), default=0.0)
        for j in top:
            share = abs(weights[j]) / scale if scale and math.isfinite(weights[j]) else 0.0
            table.add_row(self.feature(i, j), self.text(signed(weights[j], scale)), self.bar(weights[j], share, self.about[i][j]))
        return table

    def feature(self, i: int, j: int) -> Text:
        """A feature's name and value, or a word; where all classes are seen at once, also the class that it speaks for."""
        names, value = self.explanation.names, cell(self.explanation.values[i, j])
        said = value if names is None else names[j] if self.kind == "image" else f"{names[j]} = {value}"
        out = self.text("").append(self.text(said))
        if self.view.every:
            out.append(
                self.text(f"  {self.explanation.classes[self.about[i][j]]}", f"dim {AGAIN[cue(self.about[i][j])]}".strip())
            )
        return out

    def bar(self, weight: float, share: float, c: int) -> Text:
        """A bar of so much of its room in the colour of a class, pale and to the left where it speaks against the class."""
        line = colour(c).line
        if self.view.every:
            return self.text(self.blocks(2 * HALF * share).ljust(2 * HALF + 1), line)
        axis = self.text("|" if self.ascii else "│", "dim")
        left = ("-" if self.ascii else "▒") * math.ceil(HALF * share) if weight < 0 else ""
        right = "" if weight < 0 else self.blocks(HALF * share)
        return self.text("").append(self.text(left.rjust(HALF), line)).append(axis).append(self.text(right.ljust(HALF), line))

    def blocks(self, cells: float) -> str:
        """A bar of so many cells, to the half of one."""
        halves = round(2 * cells)
        return "#" * ((halves + 1) // 2) if self.ascii else "█" * (halves // 2) + "▌" * (halves % 2)

    def grid(self) -> Table:
        """Name, number, bar."""
        from rich.table import Table

        table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
        table.add_column(overflow="fold", max_width=40)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        return table
