"""Every block of code on every page runs and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import doc_blocks
from aimwise.explainers import METHODS, Explainer
from aimwise.features import FEATURES
from aimwise.nn.build import NETWORKS
from command_line import filled
from doc_blocks import PAGES, ROOT, Block, Session, before, blocks, compare, copied, pages_in_order, run, unlabelled

matplotlib.use("agg")
SESSIONS: dict[Path, Session] = {}
NOT_RUN_AT_MOST = 11


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where pages have their folders; what pages made known to the library is forgotten afterwards."""
    registries: list[dict[Any, Any]] = [NETWORKS, FEATURES, METHODS]
    kept, kinds = [dict(one) for one in registries], Explainer.kinds
    yield tmp_path_factory
    SESSIONS.clear()
    for one, was in zip(registries, kept, strict=True):
        one.clear()
        one.update(was)
    Explainer.kinds = kinds


def session_of(page: Path, folders: pytest.TempPathFactory) -> Session:
    """The page's session after all its blocks have run."""
    if page not in SESSIONS:
        folder = folders.mktemp(page.stem)
        first = before(page)
        session = Session(filled(folder)) if first is None else copied(session_of(first, folders), folder)
        SESSIONS[page] = session
        for block in blocks(page):
            run(block, session)
    return SESSIONS[page]


@pytest.mark.parametrize("page", pages_in_order(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs_and_prints_what_is_shown(page, folders):
    SESSIONS.pop(page, None)
    session_of(page, folders)


def test_few_blocks_are_not_run_and_each_says_why():
    skipped = [block for page in PAGES for block in blocks(page) if block.why is not None]
    assert all(len(block.why or "") > 10 for block in skipped)
    assert len(skipped) <= NOT_RUN_AT_MOST, [(b.page.name, b.line, b.first) for b in skipped]


def test_every_block_says_its_language():
    assert {page: unlabelled(page) for page in PAGES if unlabelled(page)} == {}


def test_what_is_included_exists():
    for page in PAGES:
        for named in re.findall(r'--8<-- "([^":]+)', page.read_text(encoding="utf-8")):
            assert (ROOT / named).is_file(), (page, named)


def test_what_is_installed_and_made_exists():
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for block in blocks(page):
            for line in block.body.splitlines():
                if line.startswith("pip install"):
                    named = re.findall(r"(?:aimwise|\.)\[([\w,]+)\]", line)
                    assert {one for group in named for one in group.split(",")} <= extras, (page, line)
                if line.startswith("make "):
                    assert line.split()[1] in targets, (page, line)


def test_the_runner_tells_other_words_and_far_numbers():
    compare("a 1.00 b\n... more", "a 1.02 b\nand some more", "here")
    for shown, printed in (("a 1.00", "b 1.00"), ("a 1.00", "a 1.20"), ("a 0.50", "a 0.54"), ("one\ntwo", "one")):
        with pytest.raises(AssertionError, match="shows"):
            compare(shown, printed, "here")


def test_the_runner_tells_a_command_that_failed(tmp_path):
    block = Block(ROOT / "README.md", 1, "sh", "echo one\nfalse | cat\necho two\n", None, None)
    with pytest.raises(AssertionError, match="line 1"):
        run(block, Session(tmp_path))
    said = doc_blocks.run_shell(Block(ROOT / "README.md", 1, "sh", "sleep 60 &\necho 8000\n", None, None), Session(tmp_path))
    assert said == "8000\n"
