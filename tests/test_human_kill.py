"""The server is killed while people answer: what it called saved is there afterwards, and once."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack

import pytest

from aimwise.human.store import Store
from human_study import ask, postgres, served, survey


@pytest.fixture(scope="module")
def cluster():
    with postgres() as made:
        yield made


class Person(threading.Thread):
    """One who answers every item and sends each answer again, under the same name, until the server says that it is saved."""

    def __init__(self, url: str, number: int, answers: int) -> None:
        super().__init__()
        self.url, self.number, self.wanted = url, number, answers
        self.rng = random.Random(number)
        self.code, self.saved, self.tries = "", {}, 0

    def surely(self, path: str, method: str, body: dict[str, object]) -> dict[str, object]:
        while True:
            self.tries += 1
            try:
                status, said = ask(self.url + path, method, body)
            except OSError:
                time.sleep(0.05)
                continue
            if status < 500:
                assert status == 200, said
                return said
            time.sleep(0.05)

    def run(self) -> None:
        begun = self.surely("/api/participants", "POST", {"consent": True, "start": f"person-{self.number:012d}"})
        self.code = begun["code"]
        for position in range(self.wanted):
            choice = self.rng.choice((-1, 0, 1))
            body = {"choice": choice, "client": f"answer-{self.number:06d}-{position:06d}", "turn": position, "seconds": 0.5}
            said = self.surely(f"/api/p/{begun['token']}/answers/{position}", "PUT", body)
            assert said["saved"] is True
            assert said["choice"] == choice
            self.saved[position] = choice


def killed(tmp_path, database, *, people, each, kills, crash=None):
    """Let people answer while the server is killed several times; return them and what is in the database."""
    study = survey(tmp_path / "s.toml", items=-(-each // 3))
    study.save()
    with ExitStack() as servers:
        url, process = servers.enter_context(served(study, database))
        port = int(url.rsplit(":", 1)[1])
        folk = [Person(url, i, each) for i in range(people)]
        for one in folk:
            one.start()
        for kill in range(1, kills + 1):
            goal = people * each * kill // (kills + 1)
            while sum(len(one.saved) for one in folk) < goal:
                assert any(one.is_alive() for one in folk)
                time.sleep(0.002)
            process.kill()
            process.wait()
            if crash is not None:
                crash()
            at_kill = {(one.number, position): choice for one in folk for position, choice in list(one.saved.items())}
            store = Store(study, database)
            codes = {one.code: one.number for one in folk}
            there = {(codes.get(a["code"]), a["position"]): a["choice"] for a in store.answers()}
            store.close()
            assert at_kill.items() <= there.items()  # before anything is sent again
            _, process = servers.enter_context(served(study, database, port=port))
        for one in folk:
            one.join(120)
            assert not one.is_alive()
    store = Store(study, database)
    found = store.answers()
    store.close()
    return folk, found


def checked(folk, found, *, people, each):
    there = {(a["code"], a["position"]): a["choice"] for a in found}
    assert len(found) == len(there) == people * each  # none lost, none twice
    assert there == {(one.code, position): choice for one in folk for position, choice in one.saved.items()}
    assert sum(one.tries for one in folk) > people * (each + 1)  # some were sent again
    assert len({(a["code"], a["method"], a["item"]) for a in found}) == people * each


def test_a_killed_server_has_kept_what_it_called_saved_in_sqlite(tmp_path):
    database = f"sqlite:///{tmp_path / 'answers.sqlite'}"
    folk, found = killed(tmp_path, database, people=8, each=20, kills=1)
    checked(folk, found, people=8, each=20)


def test_a_killed_server_has_kept_what_it_called_saved_in_postgres(tmp_path, cluster):
    folk, found = killed(tmp_path, cluster.fresh("killed"), people=8, each=20, kills=1)
    checked(folk, found, people=8, each=20)


@pytest.mark.slow
def test_a_thousand_answers_of_twenty_people_and_three_kills_in_sqlite(tmp_path):
    database = f"sqlite:///{tmp_path / 'answers.sqlite'}"
    folk, found = killed(tmp_path, database, people=20, each=51, kills=3)
    checked(folk, found, people=20, each=51)


@pytest.mark.slow
def test_a_thousand_answers_of_twenty_people_and_three_kills_in_postgres_which_crashes_too(tmp_path, cluster):
    folk, found = killed(tmp_path, cluster.fresh("thousand"), people=20, each=51, kills=3, crash=cluster.crash)
    checked(folk, found, people=20, each=51)
