"""Every example runs, prints what the site shows of it, and is short."""

from __future__ import annotations

import contextlib
import io
import runpy
import warnings

import pytest

from command_line import inside
from doc_blocks import DOCS, ROOT, compare

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 60  # lines


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_shown_of_it(path, tmp_path):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), inside(tmp_path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages warn of is theirs
        warnings.filterwarnings("error", module="aimwise")
        runpy.run_path(str(path), run_name="__main__")
    compare((DOCS / "examples" / f"{path.stem}.txt").read_text(encoding="utf-8"), said.getvalue(), path.name)


def test_examples_are_short_and_all_are_on_the_site():
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    for path in EXAMPLES:
        assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST, path
        assert f'"examples/{path.name}"' in page
        assert f'"docs/examples/{path.stem}.txt"' in page
    assert {path.stem for path in (DOCS / "examples").iterdir()} == {path.stem for path in EXAMPLES}
