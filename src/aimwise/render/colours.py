"""One colour for every class: the table that the page, the notebook and the terminal share."""

from __future__ import annotations

from dataclasses import dataclass

INK = "#1b1f26"  # text on a light ground, whatever is around it
CUES = 4  # words and class names can be marked in so many ways when the colours begin again


@dataclass(frozen=True)
class Colour:
    """The ground of a word on light and on dark paper, and a line that is seen on both."""

    name: str
    light: str
    dark: str
    line: str


# Found by search: at full strength any two grounds stay apart also for eyes without red, green or blue cones, the first four
# farthest; every ground carries its text with a contrast of 4.5, every line stands out from both papers with 3.
PALETTE = (
    Colour("orange", "#d9811d", "#913900", "#c2660a"),
    Colour("blue", "#5e8de5", "#3153ac", "#3f78d8"),
    Colour("yellow", "#fde866", "#846401", "#947d00"),
    Colour("teal", "#17d3ba", "#147670", "#078a7c"),
    Colour("lilac", "#eebdfa", "#7d589a", "#ad5fc4"),
    Colour("lagoon", "#3faec6", "#10556d", "#1d849c"),
    Colour("rosewood", "#bf7f83", "#a8475e", "#ad6068"),
    Colour("lime", "#c5ce53", "#566641", "#7a8610"),
    Colour("salmon", "#f69383", "#7c343b", "#d8553f"),
    Colour("periwinkle", "#96abfe", "#3b3893", "#6a74d8"),
)
NEUTRAL = Colour("grey", "#c3c8d0", "#4b535f", "#7a818c")  # where no class is meant, or one of several


def colour(c: int) -> Colour:
    """The colour of a class; the colours begin again when there are more classes."""
    return PALETTE[c % len(PALETTE)]


def cue(c: int) -> int:
    """How many times the colours were used up before this class: it is then also marked in another way."""
    return c // len(PALETTE) % CUES


def marks(c: int) -> str:
    """The names by which the style sheet knows a class."""
    return f"k{c % len(PALETTE)}" + (f" u{cue(c)}" if cue(c) else "")


def mixed(ground: str, paper: str, share: float) -> str:
    """So much of the first colour and the rest of the second."""
    pairs = zip(channels(ground), channels(paper), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of a colour written as #rrggbb."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def css() -> str:
    """The colours as a style sheet knows them: --g is the ground of a class, --l its line.

    Pictures are overlaid on light paper whatever is around them, and all that belongs to them has the colours of that paper.
    """
    known = {"": NEUTRAL} | {str(i): each for i, each in enumerate(PALETTE)}
    light = "".join(f"--g{i}:{each.light};" for i, each in known.items())
    dark = "".join(f"--g{i}:{each.dark};" for i, each in known.items())
    names = "".join(f".k{i}{{--g:var(--g{i});--l:{each.line}}}\n" for i, each in known.items() if i)
    pictures = f"[data-kind=image]{{{light}--on:{INK}}}"
    return f":root{{--l:{NEUTRAL.line};{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}{pictures}}}\n{names}"
