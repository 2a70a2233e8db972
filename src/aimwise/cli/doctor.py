"""`aimwise doctor`: what is installed, what is missing, where data lies, and what it runs on."""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from typing import Any

from aimwise.cli.options import command

EXTRA = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*[^;]*;.*extra\s*==\s*['\"]([^'\"]+)['\"]")
OLDER = re.compile(r"""python_version\s*<\s*['"](\d+)\.(\d+)""")
CORE = re.compile(r"^([A-Za-z0-9._-]+)[^;]*$")


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "doctor",
        help="print versions, device, data folders and missing extras",
        description="Prints versions, the device, where data is looked for, and which extras are missing with the command that\n"
        "installs them.",
        examples="  aimwise doctor\n  aimwise doctor --json",
    )
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look and tell."""
    from importlib.metadata import version

    from aimwise.cli.desk import Desk
    from aimwise.data.store import VARIABLE, cache, given

    desk = Desk(options)
    core, extras = packages()
    found = {name: installed(name) for name in core}
    missing = {name: [one for one in needs if installed(one) is None] for name, needs in extras.items()}
    missing = {name: lacks for name, lacks in missing.items() if lacks}
    where = device()
    folders = {VARIABLE: str(given()) if given() else None, "cache": str(cache())}
    lines = [
        f"aimwise {version('aimwise')}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores",
        f"device: {where['device']} (torch sees {where['threads']} threads)",
        "packages: " + ", ".join(f"{name} {number or 'MISSING'}" for name, number in found.items()),
        f"data: {VARIABLE}={folders[VARIABLE] or 'not set'}; cache {folders['cache']}",
    ]
    for name, needs in extras.items():
        have = ", ".join(f"{one} {installed(one)}" for one in needs if installed(one) is not None)
        if name in missing:
            lines.append(f"extra {name}: missing {', '.join(missing[name])}. Install: pip install 'aimwise[{name}]'")
        else:
            lines.append(f"extra {name}: {have}")
    broken = [name for name, number in found.items() if number is None]
    facts = {
        "version": version("aimwise"),
        "python": platform.python_version(),
        **where,
        "packages": found,
        "folders": folders,
        "missing_extras": missing,
    }
    return desk.end(1 if broken else 0, lines, facts)


def packages() -> tuple[list[str], dict[str, list[str]]]:
    """What aimwise needs, and what each of its extras needs, as its own metadata has it."""
    from importlib.metadata import requires

    core: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in requires("aimwise") or ():
        older = OLDER.search(line)
        if older is not None and sys.version_info[:2] >= (int(older[1]), int(older[2])):
            continue  # only for a Python that is not this one
        if found := EXTRA.match(line):
            if found[2] != "dev" and found[1] != "aimwise":
                extras.setdefault(found[2], []).append(found[1])
        elif found := CORE.match(line):
            core.append(found[1])
    return core, extras


def installed(name: str) -> str | None:
    """The version of a package; None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def device() -> dict[str, Any]:
    """What torch would run on."""
    import torch

    cuda = torch.cuda.is_available()
    return {"device": torch.cuda.get_device_name() if cuda else "cpu", "cuda": cuda, "threads": torch.get_num_threads()}
