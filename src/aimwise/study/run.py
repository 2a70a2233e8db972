"""Run the cells of studies that are missing, some at a time; what is finished is kept at once and never run again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import import_module
from typing import Any

from aimwise.errors import AimwiseError, BadSetting, extra, unknown
from aimwise.study.cells import Facts, fingerprint
from aimwise.study.locks import claim, forget, numbers
from aimwise.study.machine import commit, made_by
from aimwise.study.store import Store, tidy

ENGINES = ("loky", "threading", "ray", "dask")
POLL = 0.5  # seconds between looks at cells that another process runs
IDLE = 20  # seconds after which a process of loky ends that has nothing to do, also one whose command was killed
RUN, HELD, FAILED, LATE = "run", "held", "failed", "late"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Done:
    """How one cell went."""

    cell: Facts
    state: str
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Study:
    """Cells, the function that makes one, and where they are kept.

    work: "module:function", called with a cell's facts and giving what was found as plain JSON values. It is imported by its name
    in every process. command: what the records say they were made by. renew: run finished cells again that another commit made;
    what was found before stays until then.
    """

    store: Store
    work: str
    command: str
    renew: bool = False

    def has(self, cell: Facts) -> bool:
        """Whether a cell need not be run."""
        found = self.store.get(cell)
        return found is not None and (not self.renew or found.get("commit") == commit())

    def run(
        self,
        wanted: Iterable[Facts],
        *,
        jobs: int = 1,
        engine: str = "loky",
        say: Say = lambda text: None,
        minutes: float | None = None,
    ) -> list[Done]:
        """Run the cells that are missing, as `run_together` does."""
        return run_together([(self, cell) for cell in wanted], jobs=jobs, engine=engine, say=say, minutes=minutes)


Wanted = tuple[Study, Facts]


def run_together(
    wanted: Iterable[Wanted],
    *,
    jobs: int = 1,
    engine: str = "loky",
    say: Say = lambda text: None,
    minutes: float | None = None,
) -> list[Done]:
    """Run the cells of one study or several that are missing, in this order, and return how those went, failed ones too.

    A cell that another process runs is waited for, and run here if that process ends without it. minutes: after so many no cell
    is begun any more.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if jobs < 1:
        raise BadSetting(f"jobs={jobs}, wanted how many cells to run at a time: 1 or more.")
    if minutes is not None and not minutes > 0:
        raise BadSetting(f"minutes={minutes}, wanted after how many no cell is begun any more: more than 0.")
    until = None if minutes is None else time.time() + 60 * minutes
    wanted = list(wanted)
    missing = list({(study.store, fingerprint(cell)): (study, cell) for study, cell in wanted if not study.has(cell)}.values())
    done: list[Done] = []
    waiting = False
    while missing:
        now = run_once(missing, jobs, engine, say, until)
        done += [one for _, one in now if one.state != HELD]
        missing = [(study, one.cell) for study, one in now if one.state == HELD and not study.has(one.cell)]
        if missing:
            if not waiting:
                say(f"{len(missing)} cells are being run by another process; waiting for them")
            waiting = True
            time.sleep(POLL)
    for study, cell in wanted:
        name = fingerprint(cell)
        if numbers(study.store.locks, name) and study.store.has(cell):  # its process was killed when it had kept it
            forget(study.store.locks, name)
    for store in dict.fromkeys(one.store for one, _ in wanted):
        tidy(store.locks)
    late = sum(one.state == LATE for one in done)
    if late:
        say(f"{late} cells were not begun: the time was over. The same command goes on with them.")
    return done


def run_once(cells: Sequence[Wanted], jobs: int, engine: str, say: Say, until: float | None) -> list[tuple[Study, Done]]:
    """Try every cell once."""
    import joblib

    prepare(engine)
    more = {"idle_worker_timeout": IDLE} if engine == "loky" else {}
    found = []
    with joblib.parallel_config(backend=engine, **more):
        parallel = joblib.Parallel(
            n_jobs=min(jobs, len(cells)),
            batch_size=1,
            pre_dispatch="n_jobs",
            return_as="generator_unordered" if engine in ("loky", "threading") else "list",
        )
        for study, one in parallel(joblib.delayed(run_cell)(study, cell, tuple(sys.path), until) for study, cell in cells):
            found.append((study, one))
            if one.state == RUN:
                say(f"{named(one.cell)}: {one.seconds:.1f} s")
            elif one.state == FAILED:
                say(f"{named(one.cell)} failed: {one.why}")
    return found


def prepare(engine: str) -> None:
    """Make an engine that is a package of its own known to joblib."""
    if engine == "ray":
        extra("ray.util.joblib", "scale").register_ray()
    elif engine == "dask":
        distributed: Any = extra("distributed", "scale")
        try:
            distributed.get_client()
        except ValueError:
            distributed.Client(processes=True)


def run_cell(study: Study, cell: Facts, places: Sequence[str], until: float | None) -> tuple[Study, Done]:
    """Run one cell if it is missing, no other process runs it and there is time, and keep what was found."""
    if until is not None and time.time() > until:
        return study, Done(cell, LATE)
    sys.path[:] = [*sys.path, *(place for place in places if place not in sys.path)]
    store = study.store
    with claim(store.locks, fingerprint(cell)) as mine:
        if not mine:
            return study, Done(cell, HELD)
        if study.has(cell):  # it was finished while this one waited its turn
            return study, Done(cell, HELD)
        module, _, name = study.work.partition(":")
        started, worked = time.perf_counter(), time.process_time()
        try:
            result = getattr(import_module(module), name)(cell)
        except Exception as e:
            if os.environ.get("AIMWISE_DEBUG"):
                raise
            return study, Done(cell, FAILED, time.perf_counter() - started, f"{type(e).__name__}: {e}")
        seconds = time.perf_counter() - started
        finished = datetime.now(timezone.utc).isoformat(timespec="seconds")
        cost = {"seconds": round(seconds, 3), "cpu_seconds": round(time.process_time() - worked, 3)}
        store.put(cell, {**made_by(study.command), **cost, "finished": finished}, result)
        return study, Done(cell, RUN, seconds)


def named(cell: Facts) -> str:
    """A cell in a few words: the facts that are short."""
    return " ".join(str(value) for value in cell.values() if isinstance(value, str | int | float) and len(str(value)) < 24)


def refuse_failures(done: Iterable[Done]) -> None:
    """Raise if cells failed, after all the others are kept."""
    failed = [one for one in done if one.state == FAILED]
    if failed:
        raise AimwiseError(
            f"{len(failed)} cells failed, the first, {named(failed[0].cell)}, with: {failed[0].why} The others are kept; the "
            "same command runs these again, and AIMWISE_DEBUG=1 shows where the first of them fails."
        )
