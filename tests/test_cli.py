"""The command line as a user meets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aimwise import demo
from aimwise.cli import main
from aimwise.data import load
from aimwise.data.tables import PLANTED


def aimwise(*words, cwd):
    environment = os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "aimwise", *words], capture_output=True, text=True, cwd=cwd, env=environment)


@pytest.fixture(scope="module")
def results():
    return list(demo.run())


def test_the_demo_beats_a_random_order_and_says_so(results, tmp_path):
    assert [r.data.name for r in results] == ["breast_cancer", "wine", "planted", "digits"]
    for r in results:
        rows = {row[0]: row for row in r.table.rows}
        assert set(rows) == {"aim", "random"} | ({"importances"} if r.model == "random forest" else set())
        faithful = {name: [float(v) for v in row[2:5]] for name, row in rows.items()}
        assert all(a > b + 5 for a, b in zip(faithful["aim"], faithful["random"], strict=True)), r.data.name
        assert float(rows["aim"][5]) > (0.85 if r.model == "random forest" else 0.8)  # of two or three classes, of ten
    page = demo.report(results, tmp_path / "demo.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("breast_cancer", "wine", "planted", "digits", "worst concave points"))
    assert not re.search(r'(src|href)="https?:', page)


def test_the_demo_finds_the_columns_that_decide(results):
    explanation = results[2].explanation
    found = explanation.weights.abs().mean((0, 2)).topk(3).indices.tolist()
    assert {explanation.names[i] for i in found} == set(PLANTED)
    assert load("planted").classes == explanation.classes


def test_help_teaches_and_nonsense_is_refused(tmp_path):
    shown = aimwise("demo", "--help", cwd=tmp_path)
    assert shown.returncode == 0
    assert "aimwise demo --out report.html" in shown.stdout
    wrong = aimwise("dmeo", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "invalid choice" in wrong.stderr


def test_the_command_prints_tables_and_names_the_report(results, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(demo, "run", lambda seed: iter(results))
    assert main(["demo", "--out", str(tmp_path / "new" / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "importances" in out
    assert Path(re.search(r"Report: (.*page\.html)", out).group(1)).is_file()


def test_errors_are_one_line_and_ctrl_c_is_130(monkeypatch, capsys):
    from aimwise.errors import BadBlackBox

    def fails(seed):
        raise BadBlackBox("got X, wanted Y, do Z")

    def stops(seed):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", fails)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "aimwise: got X, wanted Y, do Z\n"
    monkeypatch.setattr(demo, "run", stops)
    assert main(["demo"]) == 130
