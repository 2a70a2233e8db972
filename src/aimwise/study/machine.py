"""What made a cell: the machine, the versions, the commit and the command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from aimwise.study.cells import Facts


def device() -> str:
    """The GPU's name, or the processor's kind and how many threads are used of it."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {os.environ.get('OMP_NUM_THREADS', 'all')} thread(s), no GPU"


def made_by(command: str) -> Facts:
    """What a record says about how it was made."""
    return {
        "device": device(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "aimwise": release(),
        "commit": commit(),
        "command": command,
    }


def release() -> str:
    """The version of this package, where it is installed."""
    try:
        return version("aimwise")
    except PackageNotFoundError:
        return ""


@cache
def commit() -> str:
    """The commit of the source that runs, with a + if files were changed since; empty where there is none.

    AIMWISE_COMMIT names it where the source lies in a checkout of something else.
    """
    if given := os.environ.get("AIMWISE_COMMIT"):
        return given
    here = Path(__file__).parent
    try:
        ask = ["git", "--no-optional-locks", "-C", str(here)]  # a commit that is being made is not disturbed
        name = subprocess.run([*ask, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        changed = subprocess.run(
            [*ask, "status", "--porcelain", "--", str(here.parent)], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return name.stdout.strip() + "+" * bool(changed.stdout.strip())


def module_command(name: str) -> str:
    """How a program of ours that runs was called, without the place of its results."""
    words = iter(sys.argv[1:])
    shown = []
    for word in words:
        if word == "--out":
            next(words)
        else:
            shown.append(word)
    return shlex.join(["python", "-m", name, *shown])
