"""Reads the fenced blocks of a page, runs them, and holds what they print against what the page shows.

A block of python runs in the page's one namespace, a block of sh in bash; both in the page's one folder. A block of text that
follows is what they print. `...` stands for anything there, and numbers with a point may differ a little, since their last
digits depend on the machine. A page says `<!-- goes on from: tour.md -->` to start with the names and files of another, and
`<!-- not run: why -->` above a block that cannot be run here. Blocks that include a file are run where that file is tested.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aimwise.cli import main
from command_line import inside

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
GOES_ON = re.compile(r"^<!-- goes on from: (\S+) -->$", re.MULTILINE)
NUMBER = r"-?\d+\.\d+(?:e-?\d+)?"
NEAR, SHARE = 0.03, 0.05  # how far a number may be from the one shown: absolutely, or as a share of it
SETUP = ("make ", "pip install ")  # these make environments; that what they name exists is tested instead
PLAIN = re.compile(r"aimwise [\w ./:=,-]+")  # nothing that only a shell understands
LONGEST = 120  # seconds for a block of commands


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its lines, what it is said to print, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    body: str
    shown: str | None
    why: str | None

    @property
    def included(self) -> bool:
        """Whether it shows a file instead of lines of its own."""
        return "--8<--" in self.body

    @property
    def first(self) -> str:
        """Its first line, by which it is known."""
        return self.body.strip().splitlines()[0]


@dataclass
class Session:
    """What a page has made so far: its names, and its folder."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are code, each with the output that follows it."""
    text = page.read_text(encoding="utf-8")
    found, made = list(FENCE.finditer(text)), []
    for i, one in enumerate(found):
        if one["language"] not in ("python", "sh"):
            continue
        after = found[i + 1] if i + 1 < len(found) else None
        follows = after is not None and after["language"] == "text" and not text[one.end() : after.start()].strip()
        body = plain(one)
        made.append(
            Block(
                page=page,
                line=text.count("\n", 0, one.start()) + 1,
                language=one["language"],
                body=body,
                shown=plain(after) if follows and after is not None else None,
                why=one["why"],
            )
        )
    return made


def plain(fence: re.Match[str]) -> str:
    """The lines of a block that may stand inside a list or a tab."""
    return re.sub(f"(?m)^{fence['indent']}", "", fence["body"])


def unlabelled(page: Path) -> list[str]:
    """The first lines of blocks that say no language: nothing can be said of whether they run."""
    return [one["body"].split("\n")[0] for one in FENCE.finditer(page.read_text(encoding="utf-8")) if not one["language"]]


def before(page: Path) -> Path | None:
    """The page that this one goes on from."""
    said = GOES_ON.search(page.read_text(encoding="utf-8"))
    return (page.parent / said[1]).resolve() if said else None


def run(block: Block, session: Session) -> None:
    """Run one block, and compare what it printed with what the page shows."""
    if block.why is not None or block.included:
        return
    printed = (run_python if block.language == "python" else run_shell)(block, session)
    if block.shown is not None:
        compare(block.shown, printed, f"{block.page.relative_to(ROOT)}, line {block.line}")


def run_python(block: Block, session: Session) -> str:
    """What a block of Python prints, run in the page's namespace and folder."""
    padded = "\n" * block.line + block.body  # so that a traceback has the page's lines
    said = io.StringIO()
    with contextlib.redirect_stdout(said), inside(session.folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages warn of is theirs
        warnings.filterwarnings("error", module="aimwise")
        exec(compile(padded, str(block.page), "exec"), session.names)
    return said.getvalue()


def run_shell(block: Block, session: Session) -> str:
    """What a block of commands prints; what it left running in the background is ended."""
    lines = [line for line in block.body.splitlines() if not line.startswith(SETUP)]
    if not lines:
        return ""
    if all(PLAIN.fullmatch(line) for line in lines):
        return "".join(run_here(line, session) for line in lines)
    port = str(free_port())
    script = "set -eo pipefail\n" + "\n".join(lines).replace("8000", port)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "COLUMNS": "100", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYTHONPATH": str(ROOT)}
    with (session.folder / ".errors").open("w+") as errors:
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=session.folder, env=env, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            kept = shell.stdout is not None and "&\n" not in block.body  # a service in the background holds the pipe open
            said = shell.communicate(timeout=LONGEST)[0] if kept else read_until_done(shell)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
            if shell.stdout is not None:
                shell.stdout.close()
        errors.seek(0)
        assert shell.returncode == 0, f"{block.page.name}, line {block.line}: {errors.read()[-3000:]}"
    return said.decode().replace(port, "8000")


def run_here(line: str, session: Session) -> str:
    """What one command of aimwise prints, run in this process: starting another would take longer than its work."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), inside(session.folder):
        patch.setenv("COLUMNS", "100")
        assert main(shlex.split(line)[1:]) == 0, line
    return said.getvalue()


def read_until_done(shell: subprocess.Popen[bytes]) -> bytes:
    """What was printed until the shell ended, though a child of it lives on."""
    shell.wait(LONGEST)
    assert shell.stdout is not None
    os.set_blocking(shell.stdout.fileno(), False)
    return shell.stdout.read() or b""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def compare(shown: str, printed: str, where: str) -> None:
    """Hold what was printed against what is shown, `...` for anything, numbers near each other."""
    shown, printed = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (shown, printed))
    parts = re.split(rf"(\.\.\.|{NUMBER})", shown)
    wanted = "".join(pattern(part) for part in parts)
    found = re.fullmatch(wanted, printed, re.DOTALL)
    told = f"{where} shows\n{shown}\n--- and what came is\n{printed}"
    assert found, told
    numbers = [float(part) for part in parts if re.fullmatch(NUMBER, part)]
    for want, got in zip(numbers, map(float, found.groups()), strict=True):
        assert abs(want - got) <= max(NEAR, SHARE * abs(want)), f"{want} is now {got}: {told}"


def pattern(part: str) -> str:
    """A piece of what is shown as a regular expression."""
    if part == "...":
        return ".*?"
    return f"({NUMBER})" if re.fullmatch(NUMBER, part) else re.escape(part)


def copied(session: Session, folder: Path) -> Session:
    """A session that starts with all that another has made, and leaves that one as it is."""
    shutil.copytree(session.folder, folder, dirs_exist_ok=True)
    return Session(folder, dict(session.names))


def pages_in_order() -> list[Path]:
    """Every page with blocks, those that others go on from first."""
    return sorted((page for page in PAGES if blocks(page)), key=lambda page: before(page) is not None)
