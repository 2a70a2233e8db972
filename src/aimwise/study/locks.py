"""Who runs a cell: a file made by one process alone, that says which, and counts for nothing when that process is gone.

The files of a cell are numbered. Whoever finds that the newest one's process is gone makes the next one, which only one can do,
so that no file is ever taken from under a process that lives.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PAUSE = 0.5  # seconds between looks at what another process makes
GRACE = 2.0  # seconds that a file may be empty: it is made first and written then


@contextmanager
def claim(folder: Path, name: str) -> Iterator[bool]:
    """Inside, this process alone has the name, or the value is False and another has it."""
    newest = max(numbers(folder, name), default=-1)
    handle = None if newest >= 0 and lives(path(folder, name, newest)) else made(path(folder, name, newest + 1))
    if handle is None:
        yield False
        return
    try:
        os.write(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "began": began(os.getpid())}).encode())
        os.close(handle)
        yield True
    finally:
        for number in sorted(numbers(folder, name)):
            if number <= newest + 1:
                path(folder, name, number).unlink(missing_ok=True)


def forget(folder: Path, name: str) -> None:
    """Remove what processes that are gone have left of a name; only where its work is done, so that none claims it meanwhile."""
    for number in numbers(folder, name):
        if not lives(path(folder, name, number)):
            path(folder, name, number).unlink(missing_ok=True)


def made_once(file: Path, make: Callable[[], object]) -> None:
    """Make a file that is not there yet, with the folder that it is in; of several processes one does, and the others wait."""
    while not file.exists():
        with claim(file.parent.parent, f"{file.parent.name}.{file.name}") as mine:
            if mine and not file.exists():
                make()
        time.sleep(0 if file.exists() else PAUSE)


def made(file: Path) -> int | None:
    """A new file, open for writing; None if it is there already."""
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return None
        except FileNotFoundError:  # another process tidied the folder away this moment
            continue


def path(folder: Path, name: str, number: int) -> Path:
    """One of the files of a name."""
    return folder / f"{name}.lock.{number}"


def numbers(folder: Path, name: str) -> list[int]:
    """The numbers of the files of a name."""
    ends = [found.name.rpartition(".")[2] for found in folder.glob(f"{name}.lock.*")]
    return [int(end) for end in ends if end.isdigit()]


def lives(file: Path) -> bool:
    """Whether the process that made a file is there; one on another machine is believed to be."""
    try:
        text = file.read_text()
        if not text:
            return time.time() - file.stat().st_mtime < GRACE
        said = json.loads(text)
        pid, host, start = int(said["pid"]), said["host"], said["began"]
    except FileNotFoundError:
        return True  # given back this moment: whoever looks again finds the result
    except (ValueError, KeyError, TypeError):
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return bool(began(pid) == start)


def began(pid: int) -> str:
    """When a process began, where the system tells: the number of one that is gone may be given to another."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if said[0] == "Z" else said[19]  # a zombie has ended
    except (OSError, IndexError):
        return ""
