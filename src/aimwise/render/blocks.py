"""Pictures in a terminal: two pixels in each character, one above the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aimwise.explanation import Explanation
from aimwise.render.overlays import enlarged, painted, shrunk
from aimwise.render.views import View

if TYPE_CHECKING:
    from rich.text import Text

SIDE = 32  # pixels of a picture's longer side
STRIPES = 4  # pixels from one stripe to the next where a region speaks against the class
BETWEEN = 2  # empty characters between two pictures
UPPER = "▀"


def beside(explanation: Explanation, row: int, view: View, width: int) -> list[np.ndarray]:
    """The picture of a row and what its regions say, or only that where there is no room for both."""
    assert explanation.images is not None
    over = painted(explanation, row, view, side=SIDE, period=STRIPES)
    plain = shrunk(explanation.images[row], SIDE)
    plain = enlarged(plain, len(over) // len(plain))
    plain = np.repeat(plain[..., None], 3, -1) if plain.ndim == 2 else plain
    both = [plain, over]
    return both if sum(each.shape[1] for each in both) + BETWEEN <= width else [over] * (over.shape[1] <= width)


def lines(pictures: Sequence[np.ndarray], indent: int) -> Iterator[Text]:
    """Pictures of one height beside each other, a line for each two of their rows."""
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

    for y in range(0, len(pictures[0]), 2):
        out = Text(" " * indent)
        for n, picture in enumerate(pictures):
            out.append(" " * BETWEEN * bool(n))
            for x in range(picture.shape[1]):
                upper = Color.from_rgb(*picture[y, x].tolist())
                lower = Color.from_rgb(*picture[y + 1, x].tolist()) if y + 1 < len(picture) else None
                out.append(UPPER, Style(color=upper, bgcolor=lower))
        yield out
