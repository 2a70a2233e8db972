"""Numbers, values and names as people write them, and safe to stand in a page."""

from __future__ import annotations

import math
import re
from html import escape

import numpy as np

MINUS = "\N{MINUS SIGN}"


def cell(value: object) -> str:
    """A feature's value as people write it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "missing"
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)


def signed(number: float, scale: float) -> str:
    """A weight with its sign, with as many decimals as its neighbours on this scale need."""
    if not math.isfinite(number):
        return "not a number"
    if not scale or 1e-4 <= scale < 1e7:
        text = f"{abs(number):.{max(0, 2 - math.floor(math.log10(scale)))}f}" if scale else "0"
    else:
        text = re.sub(r"e([+-])0", r"e\1", f"{abs(number):.2e}")
    sign = "" if not float(text) else MINUS if number < 0 else "+"
    return sign + text


def percent(p: float) -> str:
    """A probability as people say it; the script of the page says it the same way."""
    if not math.isfinite(p):
        return "not a number"
    if 0 < p < 0.0005 or 0.9995 <= p < 1:
        return "<0.1%" if p < 0.5 else ">99.9%"
    return f"{p:.1%}"


def times(count: int) -> str:
    """How often something comes."""
    return f"{count:,} time{'s' * (count != 1)}"


def largest(count: int, what: str) -> str:
    """Which features are the top ones."""
    return f"the one with the largest {what}" if count == 1 else f"the {count:,} with the largest {what}s"


def loudest(count: int) -> str:
    """Which features speak most for a class."""
    return "the one that speaks most" if count == 1 else f"the {count:,} that speak most"


def breakable(name: str) -> str:
    """An escaped name that may be broken after its underscores and slashes."""
    return re.sub("([_/])", r"\1<wbr>", escape(name))


def paragraphs(text: str, name: str) -> str:
    """Plain text as paragraphs, cut at empty lines."""
    pieces = (piece.strip() for piece in re.split(r"\n\s*\n", text))
    return "".join(f'<p class="{name}">{escape(piece)}</p>' for piece in pieces if piece)


def writable(text: str) -> str:
    """The text without half characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fitted(name: str, most: int) -> str:
    """A name on one line of so many characters at most, without signs that cannot be seen."""
    name = " ".join("".join(sign if sign.isprintable() else " " for sign in writable(name)).split())
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"
