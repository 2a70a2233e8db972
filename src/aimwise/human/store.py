"""Where answers are kept: SQLite or PostgreSQL through SQLAlchemy. What `save` has returned from is on disk."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, make_url

from aimwise.errors import BadFile, BadSetting, UnknownName
from aimwise.human.survey import NEUTRAL, Survey

WAIT = 30  # seconds that one who writes waits for another

METADATA = sa.MetaData()
STUDIES = sa.Table(
    "aimwise_studies",
    METADATA,
    sa.Column("study", sa.String(80), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("secret", sa.String(64), nullable=False),
    sa.Column("started", sa.Integer, nullable=False),  # how many have begun, those who were forgotten too
)
PARTICIPANTS = sa.Table(
    "aimwise_participants",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study", sa.ForeignKey(STUDIES.c.study), nullable=False),
    sa.Column("code", sa.String(16), nullable=False, unique=True),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("began", sa.DateTime(timezone=True), nullable=False),
    sa.Column("order", sa.Text, nullable=False),  # JSON: [[method, place of an item], ...] of every section
)
ANSWERS = sa.Table(
    "aimwise_answers",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("participant", sa.ForeignKey(PARTICIPANTS.c.id), nullable=False, index=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("section", sa.Integer, nullable=False),
    sa.Column("method", sa.String(40), nullable=False),
    sa.Column("item", sa.Integer, nullable=False),
    sa.Column("choice", sa.Integer, nullable=False),
    sa.Column("client", sa.String(64), nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("changes", sa.Integer, nullable=False),
    sa.Column("saved", sa.DateTime(timezone=True), nullable=False),
    sa.UniqueConstraint("participant", "position"),
    sa.UniqueConstraint("participant", "method", "item"),
)


class NotKnown(UnknownName):
    """A private link that belongs to no participant, or to one whose answers were deleted."""


class OutOfTurn(BadSetting):
    """An answer to an item that has not been shown yet, or to none."""


@dataclass(frozen=True)
class Participant:
    """One who takes part: a code to speak of them by, and the order of what they see."""

    id: int
    code: str
    number: int
    sections: tuple[tuple[tuple[str, int], ...], ...]

    @property
    def slots(self) -> list[tuple[int, str, int]]:
        """Section, method and place of the item, at every position."""
        return [(s, method, item) for s, section in enumerate(self.sections) for method, item in section]


@dataclass(frozen=True)
class Answer:
    """What a participant chose at a position. client: made by their page for this answer, the same when it is sent again.

    turn: grows with every answer of a page, so that an older one that arrives late does not undo a newer one.
    """

    position: int
    choice: int
    client: str
    turn: int
    seconds: float


@dataclass(frozen=True)
class Kept:
    """What is on disk of a position."""

    choice: int
    turn: int


def url_of(text: str) -> URL:
    """The address of a database, by the driver that is used here."""
    try:
        url = make_url(text)
    except sa.exc.ArgumentError as e:
        raise BadSetting(f"Got the database {text!r}, wanted sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.") from e
    if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite") or not url.database:
        hidden = url.render_as_string(hide_password=True)
        raise BadSetting(f"Got the database {hidden!r}, wanted sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.")
    return url


def engine_of(text: str) -> Engine:
    """A database whose commits are on disk when they return."""
    url = url_of(text)
    if url.drivername.startswith("postgresql"):
        safe = {"options": "-c synchronous_commit=on", "connect_timeout": 10}
        return sa.create_engine(url, pool_size=10, max_overflow=20, pool_pre_ping=True, connect_args=safe)
    engine = sa.create_engine(url, connect_args={"timeout": WAIT})
    sa.event.listen(engine, "connect", on_connect)
    sa.event.listen(engine, "begin", on_begin)
    return engine


def on_connect(connection: Any, _: Any) -> None:
    """A write-ahead log that is brought to disk at every commit; what is deleted is overwritten."""
    connection.isolation_level = None  # transactions are begun below, not by the driver
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def on_begin(connection: Connection) -> None:
    """One who will write says so at once: waiting in the middle of a transaction would end in an error."""
    immediate = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


class Store:
    """The participants and answers of one study."""

    def __init__(self, survey: Survey, database: str | None = None) -> None:
        self.survey = survey
        self.engine = engine_of(database or survey.database)
        try:
            with self.writing() as connection:
                METADATA.create_all(connection)
                self.secret = self.enrolled(connection)
        except BaseException as e:
            self.close()
            if not isinstance(e, sa.exc.OperationalError):
                raise
            where = self.engine.url.render_as_string(hide_password=True)
            raise BadSetting(f"The database {where} cannot be opened: {' '.join(str(e.orig).split())}") from e

    def enrolled(self, connection: Connection) -> str:
        """Enter the study, or check that it is the one which the answers are about."""
        row = {"study": self.survey.key, "fingerprint": self.survey.fingerprint, "secret": secrets.token_hex(32), "started": 0}
        connection.execute(self.insert(STUDIES).values(row).on_conflict_do_nothing())
        found = connection.execute(sa.select(STUDIES).where(STUDIES.c.study == self.survey.key)).one()
        if found.fingerprint != self.survey.fingerprint:
            if connection.scalar(sa.select(sa.func.count()).where(PARTICIPANTS.c.study == self.survey.key)):
                raise BadFile(
                    f"{self.survey.path} or its items were changed since participants answered. Only the wording may change: "
                    "put the rest back, or make a new study."
                )
            connection.execute(
                sa.update(STUDIES).where(STUDIES.c.study == self.survey.key).values(fingerprint=self.survey.fingerprint)
            )
        return str(found.secret)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; it is on disk after the block."""
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """An insertion that can say what to do if the row is there."""
        return (postgresql if self.engine.dialect.name == "postgresql" else sqlite).insert(table)

    def begin(self, start: str) -> tuple[str, Participant]:
        """A new participant and their private token; the same `start`, made by their page, gives the same ones again."""
        token = derived(self.secret, start)
        with self.writing() as connection:
            if (found := self.found(connection, token)) is not None:
                return token, found
            counted = sa.update(STUDIES).where(STUDIES.c.study == self.survey.key).values(started=STUDIES.c.started + 1)
            number = int(connection.execute(counted.returning(STUDIES.c.started)).scalar_one())
            if (found := self.found(connection, token)) is not None:  # begun by the same page while this one waited its turn
                connection.execute(
                    sa.update(STUDIES).where(STUDIES.c.study == self.survey.key).values(started=STUDIES.c.started - 1)
                )
                return token, found
            row = {
                "study": self.survey.key,
                "code": secrets.token_hex(4),
                "token_hash": hashed(token),
                "number": number,
                "began": now(),
                "order": json.dumps(self.survey.order(number)),
            }
            connection.execute(sa.insert(PARTICIPANTS).values(row))
            made = self.found(connection, token)
        assert made is not None
        return token, made

    def participant(self, token: str) -> Participant:
        """Who has this private token."""
        with self.engine.connect() as connection:
            found = self.found(connection, token)
        if found is None:
            raise NotKnown("This link is not known here, or its answers were deleted. Begin anew, or ask for the right link.")
        return found

    def found(self, connection: Connection, token: str) -> Participant | None:
        """Who has this private token, if anyone."""
        mine = (PARTICIPANTS.c.token_hash == hashed(token)) & (PARTICIPANTS.c.study == self.survey.key)
        row = connection.execute(sa.select(PARTICIPANTS).where(mine)).one_or_none()
        return None if row is None else participant_of(row)

    def choices(self, who: Participant) -> dict[int, Kept]:
        """What a participant has chosen, by position."""
        with self.engine.connect() as connection:
            return kept_by(connection, who)

    def save(self, who: Participant, answer: Answer) -> dict[int, Kept]:
        """Keep an answer, and return all choices once it is on disk.

        The same answer sent twice is kept once; one to an item that was answered before takes its place, unless it is older.
        """
        slots = who.slots
        if not 0 <= answer.position < len(slots):
            raise OutOfTurn(f"There is no item {answer.position}; there are {len(slots)}, counted from 0.")
        section, method, item = slots[answer.position]
        row = {
            "participant": who.id,
            "position": answer.position,
            "section": section,
            "method": method,
            "item": item,
            "choice": answer.choice,
            "client": answer.client,
            "turn": answer.turn,
            "seconds": answer.seconds,
            "changes": 0,
            "saved": now(),
        }
        with self.writing() as connection:
            known = connection.execute(sa.select(PARTICIPANTS.c.id).where(PARTICIPANTS.c.id == who.id).with_for_update())
            if known.one_or_none() is None:
                raise NotKnown("These answers were deleted. Begin anew to take part again.")
            if answer.position > first_open(kept_by(connection, who), len(slots)):
                raise OutOfTurn(f"Item {answer.position} comes after items that are not answered yet.")
            entered = self.insert(ANSWERS).values(row)
            newer = (entered.excluded.turn > ANSWERS.c.turn) & (entered.excluded.client != ANSWERS.c.client)
            given = ("choice", "client", "turn", "seconds", "saved")
            changed = {name: entered.excluded[name] for name in given} | {"changes": ANSWERS.c.changes + 1}
            connection.execute(
                entered.on_conflict_do_update(index_elements=["participant", "position"], set_=changed, where=newer)
            )
            return kept_by(connection, who)

    def everyone(self) -> list[Participant]:
        """All who take part, in the order in which they began."""
        mine = sa.select(PARTICIPANTS).where(PARTICIPANTS.c.study == self.survey.key).order_by(PARTICIPANTS.c.number)
        with self.engine.connect() as connection:
            return [participant_of(row) for row in connection.execute(mine)]

    def answers(self) -> list[dict[str, Any]]:
        """Every answer, by participant and position."""
        p, a = PARTICIPANTS.c, ANSWERS.c
        wanted = sa.select(p.code, p.number, a.position, a.section, a.method, a.item, a.choice, a.seconds, a.changes, a.saved)
        wanted = wanted.join_from(ANSWERS, PARTICIPANTS).where(p.study == self.survey.key).order_by(p.number, a.position)
        with self.engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(wanted)]

    def forget(self, code: str) -> int:
        """Delete a participant and their answers; returns how many answers there were."""
        with self.writing() as connection:
            mine = (PARTICIPANTS.c.code == code) & (PARTICIPANTS.c.study == self.survey.key)
            id = connection.scalar(sa.select(PARTICIPANTS.c.id).where(mine).with_for_update())
            if id is None:
                raise UnknownName(f"There is no participant {code!r}. Their codes are in the file of `aimwise study export`.")
            gone = connection.execute(sa.delete(ANSWERS).where(ANSWERS.c.participant == id)).rowcount
            connection.execute(sa.delete(PARTICIPANTS).where(PARTICIPANTS.c.id == id))
        if self.engine.dialect.name == "sqlite":  # the log still holds what was deleted
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(gone)

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()


def kept_by(connection: Connection, who: Participant) -> dict[int, Kept]:
    """All that is kept of a participant's answers, by position."""
    wanted = sa.select(ANSWERS.c.position, ANSWERS.c.choice, ANSWERS.c.turn).where(ANSWERS.c.participant == who.id)
    return {row.position: Kept(row.choice, row.turn) for row in connection.execute(wanted.order_by(ANSWERS.c.position))}


def first_open(done: dict[int, Kept], total: int) -> int:
    """The first position without an answer, or the total where all have one."""
    return next((i for i in range(total) if i not in done), total)


def participant_of(row: Any) -> Participant:
    """A participant as a row of the database has them."""
    sections = tuple(tuple((str(m), int(i)) for m, i in section) for section in json.loads(row.order))
    return Participant(int(row.id), str(row.code), int(row.number), sections)


def derived(secret: str, start: str) -> str:
    """A token that cannot be guessed without both the study's secret and what the page made up."""
    made = hmac.new(bytes.fromhex(secret), start.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made[:24]).decode("ascii")


def hashed(token: str) -> str:
    """What is kept of a token: whoever reads the database cannot answer for others."""
    return hashlib.sha256(token.encode()).hexdigest()


def now() -> datetime.datetime:
    """The time, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


def checked_choice(choice: int, survey: Survey) -> int:
    """A choice that the study has."""
    if choice != NEUTRAL and not 0 <= choice < len(survey.choices):
        raise BadSetting(
            f"There is no choice {choice}; wanted 0 to {len(survey.choices) - 1}, or {NEUTRAL} for {survey.neutral!r}."
        )
    return choice
