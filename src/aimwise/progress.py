"""Progress bars: shown in terminals and notebooks for work that takes longer than two seconds, silent elsewhere."""

from __future__ import annotations

import sys
from typing import Any

PATIENCE = 2.0


def bar(total: int, what: str, *, unit: str = "row", start: int = 0, hidden: bool = False) -> Any:
    """A bar with rate and time left; use it as a context manager and call `update`; bytes ("B") are shown as kB and MB."""
    scale = unit == "B"
    if "ipykernel" in sys.modules and not hidden:
        from tqdm.auto import tqdm

        return tqdm(total=total, desc=what, unit=unit, unit_scale=scale, initial=start, delay=PATIENCE, leave=False)
    from tqdm import tqdm as plain

    return plain(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=scale,
        initial=start,
        delay=PATIENCE,
        leave=False,
        disable=hidden or None,
        dynamic_ncols=True,
    )
