"""The page that participants see, and the few questions it asks of the server."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import ASGIApp

from aimwise.human.store import Answer, Kept, NotKnown, OutOfTurn, Participant, Store, checked_choice, first_open
from aimwise.human.survey import Survey
from aimwise.web.common import add_files, answer_errors, as_json, asset, error, guard

BODY = 4096  # bytes that a participant's page may send
Token = Annotated[str, Path(min_length=32, max_length=32, pattern=r"^[\w-]+$")]
Made = Annotated[str, Field(min_length=16, max_length=64, pattern=r"^[\w-]+$")]


class Begin(BaseModel):
    """One who has read the consent and begins. start: made by the page, the same when it is sent again."""

    model_config = ConfigDict(extra="forbid")
    consent: bool
    start: Made


class Given(BaseModel):
    """An answer. client: made by the page for this answer, the same when it is sent again; turn: grows with every answer."""

    model_config = ConfigDict(extra="forbid", strict=True)
    choice: int
    client: Made
    turn: Annotated[int, Field(ge=0, lt=2**53)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


def service(survey: Survey, store: Store) -> FastAPI:
    """The application of one study; nothing that it sends names a method or a right answer."""
    app = FastAPI(title=survey.title, docs_url=None, redoc_url=None, openapi_url=None)
    answer_errors(app)
    answer_study_errors(app)
    page = asset("aimwise.human", "page.html")
    parts = {f"/page.{kind}": asset("aimwise.human", f"page.{kind}") for kind in ("css", "js")}
    add_files(app, {"/": page, "/p/{token}": page, **parts})

    @app.get("/healthz")
    def healthz() -> Response:
        with store.engine.connect() as connection:
            connection.execute(sa.select(1))
        return as_json({"status": "ok"})

    @app.get("/api/study")
    def about() -> Response:
        said = {"title": survey.title, "consent": survey.consent, "minutes": survey.minutes}
        return as_json(said | {"sections": sections_of(survey), "items": total_of(survey)})

    @app.post("/api/participants")
    def begin(body: Begin) -> Response:
        if not body.consent:
            return error(422, "NoConsent", "One takes part only after agreeing to it.")
        token, who = store.begin(body.start)
        return as_json({"token": token, "code": who.code})

    @app.get("/api/p/{token}")
    def state(token: Token) -> Response:
        who = store.participant(token)
        done = store.choices(who)
        said = {"title": survey.title, "question": survey.question, "choices": list(survey.choices), "neutral": survey.neutral}
        return as_json(said | {"kind": survey.kind, "code": who.code, **standing(survey, who, done)})

    @app.get("/api/p/{token}/items/{position}")
    def item(token: Token, position: int) -> Response:
        who = store.participant(token)
        done = store.choices(who)
        if not 0 <= position < len(who.slots) or position > first_open(done, len(who.slots)):
            raise OutOfTurn(f"Item {position} has not been reached yet.")
        return as_json(shown_item(survey, who, done, position))

    @app.put("/api/p/{token}/answers/{position}")
    def answer(token: Token, position: int, body: Given) -> Response:
        who = store.participant(token)
        choice = checked_choice(body.choice, survey)
        kept = store.save(who, Answer(position, choice, body.client, body.turn, min(body.seconds, 86400.0)))
        return as_json({"saved": True, "position": position, "choice": kept[position].choice, **standing(survey, who, kept)})

    return app


def answer_study_errors(app: FastAPI) -> None:
    """Links that are not known are 404, answers out of turn 409, and a database that does not answer 503, to be tried again."""

    async def unknown(_: Request, e: Exception) -> Response:
        return error(404, "NotKnown", str(e))

    async def turn(_: Request, e: Exception) -> Response:
        return error(409, "OutOfTurn", str(e))

    async def away(_: Request, e: Exception) -> Response:
        return error(
            503, "NotSaved", "The answers cannot be reached at the moment. Nothing was saved; try again.", {"retry-after": "2"}
        )

    app.add_exception_handler(NotKnown, unknown)
    app.add_exception_handler(OutOfTurn, turn)
    for kind in (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError):
        app.add_exception_handler(kind, away)


def sections_of(survey: Survey) -> int:
    """How many sections each participant sees."""
    return min(len(survey.methods), len(survey.items)) if survey.once else len(survey.methods)


def total_of(survey: Survey) -> int:
    """How many answers each participant is asked for."""
    return len(survey.items) * (1 if survey.once else len(survey.methods))


def standing(survey: Survey, who: Participant, done: dict[int, Kept]) -> dict[str, Any]:
    """How far a participant has come, and the item that is next."""
    total = len(who.slots)
    following = first_open(done, total)
    item = None if following == total else shown_item(survey, who, done, following)
    return {"total": total, "sections": len(who.sections), "answered": len(done), "next": following, "item": item}


def shown_item(survey: Survey, who: Participant, done: dict[int, Kept], position: int) -> dict[str, Any]:
    """What a participant sees at a position."""
    section, method, place = who.slots[position]
    earlier, before = sum(len(s) for s in who.sections[:section]), done.get(position)
    return {
        "position": position,
        "section": section,
        "place": position - earlier,
        "of": len(who.sections[section]),
        "shown": survey.items[place].shown[method],
        "choice": None if before is None else before.choice,
        "turn": 0 if before is None else before.turn,
    }


def guarded(survey: Survey, store: Store, *, hosts: frozenset[str] | None) -> ASGIApp:
    """The application behind its headers and limits."""
    advice = "Start it with --name to let it go by that name, or with --host to open it to others."
    return guard(service(survey, store), max_body=BODY, hosts=hosts, advice=advice)
