"""Where a command speaks: notes and progress to standard error, results to standard output, or one JSON object there."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

WIDE = 160


class Desk:
    """What one command says, and when it began."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.command, self.json, self.quiet = str(options.command), bool(options.json), bool(options.quiet)
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long the command has run."""
        return time.perf_counter() - self.started

    def note(self, text: str) -> None:
        """Say something on the way."""
        if not self.quiet and not self.json:
            sys.stderr.write(text + "\n")

    def end(self, code: int, lines: list[str], facts: dict[str, Any], *, shown: Any = None) -> int:
        """Say the result: lines, or a thing that rich prints and then lines; or the facts as JSON; and return the exit code."""
        if self.json:
            said = {"command": self.command, "exit": code, **facts, "seconds": round(self.seconds, 3)}
            sys.stdout.write(json.dumps(said, ensure_ascii=False, allow_nan=False) + "\n")
            return code
        if shown is not None:
            console().print(shown)
        sys.stdout.write("".join(line + "\n" for line in lines))
        return code


def console() -> Any:
    """Standard output, names and paths left as they are; wide where it is no terminal, so that tables are not folded."""
    from rich.console import Console

    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)


def part_of(used: int, total: int, seed: int) -> str:
    """How many of all rows are used, and how they were chosen."""
    if used == total:
        return f"all {count(total, 'row')}"
    return f"{used:,} of {count(total, 'row')}, a sample of seed {seed} (--sample changes it)"


def count(n: int, what: str) -> str:
    """So many of something, in words."""
    return f"{n:,} {what}{'s' * (n != 1)}"
