"""Cells that are run once, kept whole, and gone on with; who holds a cell, and what a killed process leaves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import toy_study
from aimwise.errors import AimwiseError, BadFile, BadSetting, UnknownName
from aimwise.explainers import AIM
from aimwise.study import machine
from aimwise.study.cells import fingerprint, mean_of, settings_of
from aimwise.study.locks import began, claim, lives, path
from aimwise.study.run import refuse_failures, run_together
from aimwise.study.store import Folder, OneFile

TESTS = Path(__file__).parent


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    (tmp_path / "log").touch()
    return tmp_path / "log"


def runs(log: Path, what: str = "ended") -> Counter[str]:
    lines = [line for line in log.read_text().splitlines() if line.startswith(what)]
    return Counter(line.removeprefix(what) for line in lines)


def started(store: Path, log: Path, out: Path, jobs: int, engine: str = "loky") -> subprocess.Popen[bytes]:
    """The study as a command; its output goes to a file, since workers that outlive it would hold a pipe open."""
    command = [sys.executable, str(TESTS / "toy_study.py"), str(store), str(jobs), engine]
    env = os.environ | {"TOY_LOG": str(log), "PYTHONPATH": str(TESTS)}
    with out.open("wb") as file:
        return subprocess.Popen(command, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)


def test_a_name_follows_from_the_facts_whatever_their_order():
    assert fingerprint({"a": 1, "b": [1.5, None]}) == fingerprint({"b": [1.5, None], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2}) != fingerprint({"a": "2"})
    assert fingerprint({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    with pytest.raises(BadSetting, match="plain JSON"):
        fingerprint({"a": float("nan")})
    with pytest.raises(BadSetting, match="plain JSON"):
        fingerprint({"a": Path()})


def test_settings_that_determine_a_result_are_all_but_the_device():
    a, b = settings_of(AIM(device="cpu")), settings_of(AIM(device="auto"))
    assert a == b
    assert "device" not in a
    assert fingerprint(settings_of(AIM(alpha=2.0))) != fingerprint(a)


@pytest.mark.parametrize("name", ["results", "results.json"])
@pytest.mark.parametrize(("jobs", "engine"), [(1, "loky"), (3, "threading")])
def test_every_cell_is_run_once_and_kept(tmp_path, log, name, jobs, engine):
    made = toy_study.study(tmp_path / name)
    done = made.run(toy_study.CELLS * 2, jobs=jobs, engine=engine)
    assert Counter(one.state for one in done) == {"run": 24}
    assert made.run(toy_study.CELLS, jobs=jobs, engine=engine) == []
    assert set(runs(log).values()) == {1}
    assert len(toy_study.table(made.store).splitlines()) == 24
    (record,) = made.store.find({"data": "b", "seed": 3})
    assert record["sum"] == 4
    assert record["command"] == "a test"
    assert record["seconds"] >= 0.05
    assert {"device", "torch", "python", "commit", "finished"} <= set(record)
    assert not made.store.locks.exists()


def test_a_folder_holds_one_file_for_each_cell_named_by_its_facts(tmp_path, log):
    made = toy_study.study(tmp_path)
    made.run(toy_study.CELLS[:2])
    names = {file.stem for file in (tmp_path / "cells").iterdir()}
    assert names == {fingerprint(cell) for cell in toy_study.CELLS[:2]}
    said = json.loads((tmp_path / "cells" / f"{fingerprint(toy_study.CELLS[0])}.json").read_text())
    assert said["cell"] == toy_study.CELLS[0]
    assert said["result"] == {"sum": 1}


def test_a_file_that_is_no_cell_is_named(tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "x.json").write_text("[]")
    with pytest.raises(BadFile, match=r"x\.json is not a cell"):
        Folder(tmp_path).records()


def test_an_older_file_of_cells_is_read_and_gone_on_with(tmp_path, log):
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"command": "before", "cells": [{**toy_study.CELLS[0], "device": "x", "sum": 99.0}]}))
    made = toy_study.study(file)
    made.run(toy_study.CELLS[:2])
    assert [r["sum"] for r in made.store.records()] == [99.0, 2]
    assert json.loads(file.read_text())["command"] == "before"
    store = OneFile(file)
    store.note({"published": 1})
    assert store.said()["published"] == 1
    assert mean_of(made.store.records(), "sum") == "50.50"
    assert mean_of([], "sum") == ""


def test_a_cell_that_fails_is_told_and_the_others_are_kept(tmp_path, log):
    said: list[str] = []
    made = toy_study.study(tmp_path, "broken")
    done = made.run(toy_study.CELLS[:3], say=said.append)
    assert [one.state for one in done] == ["run", "failed", "run"]
    assert "ValueError: no such luck" in said[1]
    assert len(made.store.records()) == 2
    with pytest.raises(AimwiseError, match=r"1 cells failed.*no such luck"):
        refuse_failures(done)
    refuse_failures(done[:1])


def test_when_the_time_is_over_no_cell_is_begun_and_the_next_run_goes_on(tmp_path, log):
    said: list[str] = []
    made = toy_study.study(tmp_path)
    states = Counter(one.state for one in made.run(toy_study.CELLS, say=said.append, minutes=0.5 / 60))
    assert states["run"] > 0
    assert states["late"] > 0
    assert f"{states['late']} cells were not begun" in said[-1]
    assert len(made.store.records()) == states["run"]
    made.run(toy_study.CELLS)
    assert set(runs(log).values()) == {1}
    with pytest.raises(BadSetting, match=r"minutes=0.0, wanted"):
        made.run(toy_study.CELLS, minutes=0.0)


@pytest.fixture
def at_commit(monkeypatch):
    def at(name):
        monkeypatch.setenv("AIMWISE_COMMIT", name)
        machine.commit.cache_clear()

    yield at
    machine.commit.cache_clear()


@pytest.mark.parametrize("name", ["results", "results.json"])
def test_cells_of_another_commit_are_renewed_once_and_only_when_told(tmp_path, log, at_commit, name):
    at_commit("first")
    made = toy_study.study(tmp_path / name)
    made.run(toy_study.CELLS[:3])
    at_commit("second")
    assert made.run(toy_study.CELLS[:3]) == []
    anew = replace(made, renew=True)
    assert [one.state for one in anew.run(toy_study.CELLS[:2])] == ["run", "run"]
    assert anew.run(toy_study.CELLS[:2]) == []
    assert sorted(r["commit"] for r in made.store.records()) == ["first", "second", "second"]
    assert sorted(runs(log).values()) == [1, 2, 2]
    at_commit("third")
    broken = replace(toy_study.study(tmp_path / name, "broken"), renew=True)
    assert broken.run(toy_study.CELLS[1:2])[0].state == "failed"
    assert sorted(r["sum"] for r in made.store.records() if r["commit"] == "second") == [1, 2], "what was found before is gone"


def test_cells_of_two_studies_run_together_in_the_order_given(tmp_path, log):
    a, b = toy_study.study(tmp_path / "a"), toy_study.study(tmp_path / "b.json", "broken")
    wanted = [(one, cell) for cell in toy_study.CELLS[:2] for one in (a, b)] * 2
    done = run_together(wanted)
    assert [(one.cell["seed"], one.state) for one in done] == [(0, "run"), (0, "run"), (1, "run"), (1, "failed")]
    assert (len(a.store.records()), len(b.store.records())) == (2, 1)
    assert not a.store.locks.exists()
    assert not b.store.locks.exists()


def test_unknown_engines_and_odd_numbers_of_jobs_are_refused(tmp_path):
    made = toy_study.study(tmp_path)
    with pytest.raises(UnknownName, match="engine 'lok'"):
        made.run(toy_study.CELLS, engine="lok")
    with pytest.raises(BadSetting, match="jobs=0"):
        made.run(toy_study.CELLS, jobs=0)


def test_a_name_is_held_by_one_alone_and_given_back(tmp_path):
    with claim(tmp_path, "x") as mine:
        assert mine
        with claim(tmp_path, "x") as other:
            assert not other
        with claim(tmp_path, "y") as another:
            assert another
        assert [f.name for f in tmp_path.iterdir()] == ["x.lock.0"]
    assert list(tmp_path.iterdir()) == []


def held_by(folder: Path, number: int, **changed: object) -> Path:
    file = path(folder, "x", number)
    file.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "began": began(os.getpid())} | changed))
    return file


def test_what_a_process_that_is_gone_held_is_free(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    held_by(tmp_path, 0, pid=gone.pid)
    with claim(tmp_path, "x") as mine:
        assert mine
        assert sorted(f.name for f in tmp_path.iterdir()) == ["x.lock.0", "x.lock.1"]
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_was_killed_when_its_cell_was_kept_leaves_nothing(tmp_path, log):
    study = toy_study.study(tmp_path / "results")
    study.run(toy_study.CELLS[:2])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    said = json.dumps({"pid": gone.pid, "host": socket.gethostname(), "began": "1"})
    study.store.locks.mkdir()
    for cell in toy_study.CELLS[:3]:  # the last one is not done yet
        path(study.store.locks, fingerprint(cell), 0).write_text(said)
    study.run(toy_study.CELLS[:2])
    assert [file.name for file in study.store.locks.iterdir()] == [f"{fingerprint(toy_study.CELLS[2])}.lock.0"]
    study.run(toy_study.CELLS[:3])
    assert not study.store.locks.exists()


def test_who_lives_is_told_by_number_start_and_machine(tmp_path):
    assert lives(held_by(tmp_path, 0))
    assert not lives(held_by(tmp_path, 0, began="1"))  # the number was given to another process since
    assert lives(held_by(tmp_path, 0, host="elsewhere", pid=1))
    file = path(tmp_path, "x", 0)
    file.write_text("")  # made, not yet written
    assert lives(file)
    os.utime(file, (time.time() - 60, time.time() - 60))
    assert not lives(file)
    file.write_text("{")
    assert not lives(file)


def test_killed_ten_times_nothing_is_lost_and_nothing_runs_twice(tmp_path, log):
    """The command is killed at ten random moments, some times without its workers; then it runs to the end."""
    rng = random.Random(int(os.environ.get("TOY_SEED", "0")))
    store, out = tmp_path / "results", tmp_path / "out"
    killed = cut_short = 0
    kept: dict[str, int] = {}  # how often each cell that is kept was begun till then
    groups = []
    for n in range(10):
        jobs = 2 if n in (1, 4, 7) else 1
        going = started(store, log, out, jobs)
        groups.append(going.pid)
        wanted = sum(runs(log).values()) + rng.choice([0, 1, 2])
        deadline = time.monotonic() + 30
        while sum(runs(log).values()) < wanted and going.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        killed += going.poll() is None
        if n in (1, 7):  # its workers end what they have begun
            os.kill(going.pid, signal.SIGKILL)
        else:
            os.killpg(going.pid, signal.SIGKILL)
            cut_short += jobs
        going.wait()
        cells = [json.loads(file.read_text())["cell"] for file in (store / "cells").glob("*.json")]  # whole or not at all
        names = {f" {cell['data']} {cell['seed']}" for cell in cells}
        assert names >= set(kept)  # nothing is lost
        kept |= {name: runs(log, "begun")[name] for name in names - set(kept)}
    assert killed >= 8
    assert kept
    going = started(store, log, out, jobs=1)
    assert going.wait(timeout=60) == 0, out.read_text()
    begun = runs(log, "begun")
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    wanted_table = sorted((cell["data"], cell["seed"], 1 + cell["seed"]) for cell in toy_study.CELLS)
    assert out.read_text() == "\n".join(" ".join(map(str, row)) for row in wanted_table)
    assert {name: begun[name] for name in kept} == kept  # what is kept is never run again
    assert sum(begun.values()) - 24 <= cut_short  # what was begun again is what a kill cut short
    assert list(store.rglob("*.lock.*")) == []


def test_two_commands_at_once_share_the_work(tmp_path, log):
    both = [started(tmp_path / "results", log, tmp_path / f"out{n}", jobs=1) for n in range(2)]
    assert [going.wait(timeout=60) for going in both] == [0, 0]
    tables = [(tmp_path / f"out{n}").read_text() for n in range(2)]
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) == 24
    assert set(runs(log, "begun").values()) == {1}


MAKES_ONE = """
import sys, time
from pathlib import Path
from aimwise.study.locks import made_once

folder = Path(sys.argv[1])
file = folder / "kept" / "network" / "file"

def make():
    with open(folder / "made", "a") as log:
        log.write("x")
    time.sleep(0.5)
    file.parent.mkdir(parents=True)
    file.write_text("here")

made_once(file, make)
print(file.read_text())
"""


def test_what_several_processes_wait_for_is_made_by_one(tmp_path):
    going = [
        subprocess.Popen([sys.executable, "-c", MAKES_ONE, str(tmp_path)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [one.communicate(timeout=60)[0] for one in going] == ["here\n"] * 4
    assert (tmp_path / "made").read_text() == "x"
    assert list(tmp_path.rglob("*.lock.*")) == []


def test_the_commit_can_be_named_where_the_checkout_is_of_something_else(monkeypatch):
    monkeypatch.setenv("AIMWISE_COMMIT", "0123456789ab")
    machine.commit.cache_clear()
    try:
        assert machine.made_by("a command")["commit"] == "0123456789ab"
        monkeypatch.delenv("AIMWISE_COMMIT")
        machine.commit.cache_clear()
        assert machine.commit() != "0123456789ab"
    finally:
        machine.commit.cache_clear()
