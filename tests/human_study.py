"""A small study with known answers, its server as a process of its own, requests by hand, and a private PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aimwise.human.service import guarded
from aimwise.human.store import Store
from aimwise.human.survey import Item, Survey
from aimwise.render.png import uri
from aimwise.web.common import LOOPBACK_HOSTS, address, listen, server

WORDS = {0: ["dull", "awful", "boring"], 1: ["superb", "moving", "great"]}


def survey(
    path: Path, *, items: int = 6, methods: tuple[str, ...] = ("aim", "l2x", "lime"), kind: str = "text", **other: Any
) -> Survey:
    """A study whose items show their place and their class; nothing is written yet."""

    def shown(method: str, i: int) -> Any:
        if kind == "image":
            return uri(np.full((8, 8, 3), (40 * i) % 255, dtype=np.uint8))
        if kind == "table":
            return [["age", str(20 + i)], ["income of the household", f"{1000 * i}"]]
        return [f"word{i}", *WORDS[i % 2], {"aim": "one", "l2x": "two", "lime": "three"}.get(method, "none")]

    made = tuple(Item(i + 100, i % 2, i % 2, {m: shown(m, i) for m in methods}, {}, f"text {i}") for i in range(items))
    words = {
        "key": "sentiment-0001",
        "title": "What do these words say?",
        "question": "Which of these do the words speak for?",
        "choices": ("negative", "positive"),
        "neutral": "can't decide",
        "consent": "You will see words.\n\nYour answers are kept without your name.",
        "minutes": 5,
        "methods": methods,
        "kind": kind,
        "top": 10,
        "seed": 0,
        "once": False,
        "truth": "label",
        "reader": "",
    }
    return Survey(**{**words, **other}, items=made, path=path)


def simulated(
    study: Survey, *, people: int, rights: dict[str, float], neutral: float = 0.1, seed: int = 0
) -> list[dict[str, Any]]:
    """Answers of people who are right with a probability of each method, in the form the store gives them."""
    rng, out = np.random.default_rng(seed), []
    for p in range(people):
        for m, method in enumerate(study.methods):
            for i, item in enumerate(study.items):
                right = rng.random() < rights[method]
                choice = -1 if rng.random() < neutral else item.truth if right else 1 - item.truth
                out.append({"code": f"p{p}", "method": method, "item": i, "choice": choice, "seconds": 2.0, "section": m})
    return out


@contextmanager
def served(study: Survey, database: str | None = None, *, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The server as a process: its address and the process, which is stopped afterwards."""
    words = [sys.executable, "-m", "aimwise", "study", "serve", str(study.path), "--port", str(port), "--quiet"]
    env = os.environ | {"OMP_NUM_THREADS": "1"} | ({"AIMWISE_STUDY_DATABASE": database} if database else {})
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert "http://" in line, line + process.stderr.read()
        yield line.split("http://")[1].split()[0].join(("http://", "")), process
    finally:
        alive = process.poll() is None
        process.terminate()
        assert process.wait(20) == 0 or not alive  # it stops in order when it is asked to
        process.stdout.close()
        process.stderr.close()


@contextmanager
def threaded(study: Survey, store: Store) -> Iterator[str]:
    """The same server in this process, which starts at once: its address."""
    listening = listen("127.0.0.1", 0)
    running = server(guarded(study, store, hosts=LOOPBACK_HOSTS))
    thread = threading.Thread(target=lambda: running.run(sockets=[listening]))
    thread.start()
    try:
        yield address(listening)
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()


def ask(url: str, method: str = "GET", body: Any = None, *, timeout: float = 20.0) -> tuple[int, Any]:
    """Status and JSON of one request; OSError where there was no answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.loads(e.read())


def postgres_folder() -> Path | None:
    """Where PostgreSQL's programs are."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


class Postgres:
    """A cluster of its own in a temporary folder, reached by a socket there; run by another user where we are root."""

    def __init__(self, programs: Path) -> None:
        self.programs, self.folder = programs, Path(tempfile.mkdtemp(prefix="aimwise-pg-", dir="/tmp"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.data = self.folder / "data"
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def run(self, program: str, *words: str) -> None:
        line = [str(self.programs / program), *words]
        if os.geteuid() == 0:
            line = ["runuser", "-u", "postgres", "--", *line]
        done = subprocess.run(line, capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c shared_buffers=16MB"
        self.run("pg_ctl", "-D", str(self.data), "-o", settings, "-l", str(self.folder / "log"), "-w", "start")

    def crash(self) -> None:
        """End it at once, without writing anything more, and start it again from its log."""
        self.run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")
        self.start()

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")
        shutil.rmtree(self.folder)

    def fresh(self, name: str) -> str:
        """An empty database."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as c:
            c.execute(f'CREATE DATABASE "{name}"')
        return self.url.replace("/postgres?", f"/{name}?")


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL, or the reason for which there is none."""
    programs = postgres_folder()
    if programs is None:
        pytest.skip("no PostgreSQL here: install it (on Debian: apt-get install postgresql) to test answers in it")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser to run it as another")
    made = Postgres(programs)
    try:
        yield made
    finally:
        made.stop()
