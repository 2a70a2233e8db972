"""Participants and answers in SQLite and in PostgreSQL: kept once, in turn, and forgotten when asked."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from aimwise.errors import BadFile, BadSetting, UnknownName
from aimwise.human.store import Answer, NotKnown, OutOfTurn, Store, derived, first_open, url_of
from human_study import ask, postgres, survey, threaded


@pytest.fixture(scope="module")
def cluster():
    with postgres() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'answers.sqlite'}"
    return request.getfixturevalue("cluster").fresh(tmp_path.name)


@pytest.fixture
def store(database, tmp_path):
    made = Store(survey(tmp_path / "s.toml", items=4), database)
    yield made
    made.close()


def answer(position, choice=1, *, client=None, turn=None, seconds=1.5):
    return Answer(position, choice, client or f"client-{position:010d}", position if turn is None else turn, seconds)


def test_an_answer_that_is_sent_twice_is_kept_once(store):
    _, who = store.begin("start-0123456789")
    for _ in range(3):
        store.save(who, answer(0))
    (kept,) = store.answers()
    assert (kept["position"], kept["choice"], kept["changes"]) == (0, 1, 0)
    section, method, item = who.slots[0]
    assert (kept["section"], kept["method"], kept["item"]) == (section, method, item)


def test_a_later_answer_takes_the_place_of_an_earlier_one_and_never_the_other_way(store):
    _, who = store.begin("start-0123456789")
    store.save(who, answer(0, 1, client="first-0123456789", turn=10))
    assert store.save(who, answer(0, 0, client="later-0123456789", turn=20))[0].choice == 0
    assert store.save(who, answer(0, 1, client="first-0123456789", turn=10))[0].choice == 0  # sent again, arrives late
    (kept,) = store.answers()
    assert (kept["choice"], kept["changes"]) == (0, 1)


def test_nothing_is_answered_before_its_turn(store):
    _, who = store.begin("start-0123456789")
    for wrong in (1, -1, 12, 10**6):
        with pytest.raises(OutOfTurn):
            store.save(who, answer(wrong))
    assert store.answers() == []
    for position in range(12):
        done = store.save(who, answer(position))
    assert first_open(done, 12) == 12


def test_the_same_start_is_the_same_participant_also_when_all_come_at_once(store):
    found, threads = [], []
    for i in range(12):
        start = f"start-{i % 3:010d}"
        threads.append(threading.Thread(target=lambda start=start: found.append((start, *store.begin(start)))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert len({(start, token, who.code, who.number) for start, token, who in found}) == 3
    assert sorted(who.number for who in store.everyone()) == [1, 2, 3]


def test_an_answer_that_comes_twice_at_the_same_moment_is_kept_once(store):
    _, who = store.begin("start-0123456789")
    done = []
    threads = [threading.Thread(target=lambda: done.append(store.save(who, answer(0)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8
    assert len(store.answers()) == 1


def test_one_participant_is_forgotten_and_the_others_stay(store):
    token, who = store.begin("start-0123456789")
    other_token, other = store.begin("other-0123456789")
    for position in range(3):
        store.save(who, answer(position))
        store.save(other, answer(position))
    assert store.forget(who.code) == 3
    assert {a["code"] for a in store.answers()} == {other.code}
    assert store.participant(other_token).code == other.code
    for refused in (lambda: store.participant(token), lambda: store.save(who, answer(3))):
        with pytest.raises(NotKnown):
            refused()
    with pytest.raises(UnknownName, match="no participant"):
        store.forget(who.code)
    assert store.begin("third-0123456789")[1].number == 3  # a number is not given twice


def test_tokens_are_not_in_the_database_and_not_guessed(store):
    token, _ = store.begin("start-0123456789")
    with store.engine.connect() as connection:
        held = [
            str(row)
            for table in ("studies", "participants", "answers")
            for row in connection.execute(sa.text(f"select * from aimwise_{table}"))
        ]
    assert not any(token in row or "start-0123456789" in row for row in held)
    assert len(token) == 32
    assert derived(store.secret, "start-0123456789") == token != derived("00" * 32, "start-0123456789")


def test_the_wording_may_change_and_the_items_may_not(store, database):
    Store(replace(store.survey, title="Another title"), database).close()
    fewer = replace(store.survey, items=store.survey.items[:2])
    Store(fewer, database).close()  # no one has begun
    Store(store.survey, database).close()
    store.begin("start-0123456789")
    with pytest.raises(BadFile, match="were changed since participants answered"):
        Store(fewer, database)


def test_two_studies_share_a_database(store, database, tmp_path):
    other = Store(survey(tmp_path / "other.toml", items=2, key="other"), database)
    token, who = other.begin("start-0123456789")
    other.save(who, answer(0))
    assert store.answers() == []
    assert store.everyone() == []
    with pytest.raises(NotKnown):
        store.participant(token)
    other.close()


def test_sqlite_brings_every_commit_to_disk(tmp_path):
    store = Store(survey(tmp_path / "s.toml"))
    with store.engine.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "secure_delete")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert (tmp_path / "s.answers.sqlite").is_file()
    store.close()


def test_what_was_deleted_is_not_in_the_files(tmp_path):
    store = Store(survey(tmp_path / "s.toml"))
    _, who = store.begin("start-0123456789")
    store.save(who, answer(0, client="a-name-to-look-for-0001"))
    held = lambda: b"".join(p.read_bytes() for p in Path(tmp_path).glob("s.answers.sqlite*"))  # noqa: E731
    assert b"a-name-to-look-for-0001" in held()
    store.forget(who.code)
    assert b"a-name-to-look-for-0001" not in held()
    assert who.code.encode() not in held()
    store.close()


def test_postgres_is_asked_to_write_through(cluster, tmp_path):
    store = Store(survey(tmp_path / "s.toml"), cluster.fresh("through"))
    with store.engine.connect() as connection:
        assert connection.execute(sa.text("show synchronous_commit")).scalar() == "on"
        assert connection.execute(sa.text("show fsync")).scalar() == "on"
    store.close()


def test_a_database_that_crashes_is_told_as_not_saved_and_found_again(cluster, tmp_path):
    study = survey(tmp_path / "s.toml")
    store = Store(study, cluster.fresh("crashing"))
    with threaded(study, store) as url:
        _, begun = ask(f"{url}/api/participants", "POST", {"consent": True, "start": "start-0123456789"})
        put = f"{url}/api/p/{begun['token']}/answers"
        body = {"choice": 1, "client": "client-0123456789", "turn": 1, "seconds": 1.0}
        assert ask(f"{put}/0", "PUT", body)[0] == 200
        cluster.run("pg_ctl", "-D", str(cluster.data), "-m", "immediate", "-w", "stop")
        status, said = ask(f"{put}/1", "PUT", body | {"client": "client-1123456789"})
        assert (status, said["kind"]) == (503, "NotSaved")
        cluster.start()
        status, said = ask(f"{put}/1", "PUT", body | {"client": "client-1123456789"})
        assert (status, said["saved"], said["answered"]) == (200, True, 2)
    store.close()


def test_databases_that_cannot_be_are_named_without_their_password(tmp_path):
    assert url_of("postgresql://u:p@h/n").drivername == "postgresql+psycopg"
    for wrong in ("mysql://u:secret@h/n", "not a url", "sqlite://"):
        with pytest.raises(BadSetting, match="wanted sqlite:///FILE or postgresql://") as caught:
            url_of(wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(BadSetting, match="cannot be opened") as caught:
        Store(survey(tmp_path / "s.toml"), "postgresql://u:secret@127.0.0.1:1/n")
    assert "secret" not in str(caught.value)


def test_each_participant_has_an_order_of_their_own_which_is_kept(store):
    seen = []
    for i in range(8):
        token, who = store.begin(f"start-{i:010d}")
        assert store.participant(token).sections == who.sections == tuple(map(tuple, store.survey.order(who.number)))
        assert all(len({m for m, _ in section}) == 1 for section in who.sections)
        assert all(sorted(i for _, i in section) == list(range(4)) for section in who.sections)
        seen.append(who.sections)
    assert len(set(seen)) == 8
    assert len({tuple(section[0][0] for section in one) for one in seen}) > 2  # the order of the methods, too


def test_seen_once_every_item_meets_every_method_equally_often(tmp_path):
    study = survey(tmp_path / "s.toml", items=7, once=True)
    met = Counter()
    for number in range(1, 31):
        slots = [slot for section in study.order(number) for slot in section]
        assert sorted(i for _, i in slots) == list(range(7))
        met.update(slots)
    assert set(met.values()) == {10}
