"""The service: explanations and questions over HTTP, many clients in one batch, and a page to try it on."""

# No `from __future__ import annotations` here: FastAPI reads the annotations themselves.

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, get_type_hints

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aimwise.errors import AimwiseError, BadFeatures, BadSetting, unknown
from aimwise.explainers.base import Explainer
from aimwise.web import schema
from aimwise.web.batching import Batcher
from aimwise.web.common import LOOPBACK_HOSTS, Refused, add_files, answer_errors, as_json, error, guard, header, status_of
from aimwise.web.metrics import Labels, Metrics
from aimwise.web.pages import documentation, page_files
from aimwise.web.served import Job, Served

log = logging.getLogger("aimwise")

DECODERS = 2  # images are decoded by so many threads
OPEN = ("/", "/try.css", "/try.js", "/docs", "/openapi.json", "/healthz")
PATHS = ("/", "/docs", "/openapi.json", "/healthz", "/metrics", "/v1/explain", "/v1/ask", "/v1/explainers")
ABOUT = """Explains what a model says of texts, rows or images: a weight for every feature and every class.
Requests of many clients are answered in one batch. Errors are `{"error": ..., "kind": ...}`."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.Problem, "description": "The body is not JSON in UTF-8."},
    401: {"model": schema.Problem, "description": "The token is missing or wrong."},
    408: {"model": schema.Problem, "description": "The body did not come in time."},
    413: {"model": schema.Problem, "description": "The body is too large, or has too many items."},
    415: {"model": schema.Problem, "description": "The body is not said to be application/json."},
    421: {"model": schema.Problem, "description": "The service is not known by this name."},
    422: {"model": schema.Problem, "description": "The inputs are not what the explainer takes."},
    500: {"model": schema.Problem, "description": "A mistake in the service."},
    502: {"model": schema.Problem, "description": "The model failed."},
    503: {"model": schema.Problem, "description": "Too much waits, or the model cannot be reached; try again soon."},
    504: {"model": schema.Problem, "description": "There was no answer in time."},
}


@dataclass(frozen=True)
class Settings:
    """The limits of a service, and who may use it.

    token: clients must send it as `Authorization: Bearer TOKEN`; None lets all in who call it by a name of this machine.
    any_host: let them in under any name. max_queue: how many items may wait for each explainer.
    """

    token: str | None = None
    any_host: bool = False
    max_body: int = 8 << 20
    max_items: int = 256
    max_queue: int = 2048
    timeout: float = 30.0
    batch_size: int = 64
    batch_wait: float = 0.002

    def __post_init__(self) -> None:
        least = {
            "max_body": 1024,
            "max_items": 1,
            "max_queue": self.max_items,
            "batch_size": 1,
            "batch_wait": 0,
            "timeout": 0.001,
        }
        for name, value in least.items():
            if not getattr(self, name) >= value:
                raise BadSetting(f"{name}={getattr(self, name)!r}, wanted at least {value}.")
        if self.token is not None and (not self.token or not self.token.isascii() or not self.token.isprintable()):
            raise BadSetting("The token is empty or holds signs that a header cannot. Choose letters and digits.")


def create(explainers: Mapping[str, Explainer], *, settings: Settings | None = None, as_pil: Sequence[str] = ()) -> ASGIApp:
    """The application for fitted explainers by name, to be run by any ASGI server.

    as_pil: names of those whose model takes PIL images. Explainers that share a black box object take turns asking it.
    """
    settings = settings or Settings()
    if not explainers:
        raise BadSetting("Got no explainer, wanted at least one.")
    locks: dict[int, threading.Lock] = {}
    served = {
        name: Served(name, one, locks.setdefault(id(one._fitted().blackbox), threading.Lock()), as_pil=name in as_pil)
        for name, one in explainers.items()
    }
    desk = Desk(served, settings)
    app = FastAPI(
        title="aimwise",
        version=version("aimwise"),
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=desk.lifespan,
    )
    answer_errors(app)
    add_routes(app, desk)
    add_files(app, {**page_files(), "/docs": documentation(app.openapi())})
    hosts = None if settings.any_host or settings.token is not None else LOOPBACK_HOSTS
    return Measured(guard(Locked(app, settings.token), max_body=settings.max_body, hosts=hosts), desk.metrics)


class Desk:
    """Takes requests in, has them worked on in batches, and answers."""

    def __init__(self, served: Mapping[str, Served], settings: Settings) -> None:
        self.served, self.settings = served, settings
        self.metrics = Metrics(self._queued, self._queries)
        self.decoding = asyncio.Semaphore(DECODERS)
        self.batchers = {
            name: Batcher(
                one.work,
                most=settings.batch_size,
                wait=settings.batch_wait,
                room=settings.max_queue,
                seen=self._seen(name),
                name=name,
            )
            for name, one in served.items()
        }

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """While the service runs; at its end what was accepted is finished."""
        yield
        for batcher in self.batchers.values():
            await batcher.close()

    def _seen(self, name: str) -> Callable[[int], None]:
        return lambda count: self.metrics.batches.add({"explainer": name}, float(count))

    def _queued(self) -> dict[Labels, float]:
        return {(("explainer", name),): float(batcher.waiting) for name, batcher in self.batchers.items()}

    def _queries(self) -> dict[Labels, float]:
        return {(("explainer", name),): float(one.box.meter.queries) for name, one in self.served.items()}

    def chosen(self, name: str | None) -> Served:
        """The explainer that a request is about."""
        if name is None:
            if len(self.served) > 1:
                raise BadFeatures(f"Say which explainer is meant: {', '.join(self.served)}.")
            return next(iter(self.served.values()))
        if name not in self.served:
            raise unknown("explainer", name, self.served)
        return self.served[name]

    async def read(self, one: Served, body: schema.Inputs) -> list[Any]:
        """The items of a request, checked."""
        given = {field: found for field in ("texts", "rows", "images") if (found := getattr(body, field)) is not None}
        if list(given) != [one.reader.field]:
            raise BadFeatures(f"The explainer {one.name!r} takes {one.reader.field}, got {' and '.join(given) or 'no inputs'}.")
        items: list[Any] = given[one.reader.field]
        if not items:
            raise BadFeatures(f"Got no {one.reader.field}, wanted at least one.")
        if len(items) > self.settings.max_items:
            raise Refused(
                413,
                "TooMany",
                f"Got {len(items):,} items, wanted at most {self.settings.max_items:,}. Send them in several requests.",
            )
        if one.reader.kind != "image":
            return checked(one, items)
        async with self.decoding:
            return await asyncio.to_thread(checked, one, items)

    async def answer(self, one: Served, jobs: Sequence[Job]) -> list[Any]:
        """The results of jobs as JSON values; where none could be done, the error."""
        results = await self.batchers[one.name].ask(jobs, timeout=self.settings.timeout)
        failed = [result for result in results if isinstance(result, Exception)]
        for each in failed:
            self.metrics.failures.add({"explainer": one.name, "kind": kind_of(each)})
            if not isinstance(each, AimwiseError):
                log.error("%s failed on an input", one.name, exc_info=each)
        if len(failed) == len(results):
            raise failed[0]
        return [problem(each) if isinstance(each, Exception) else each for each in results]


def checked(one: Served, items: Sequence[Any]) -> list[Any]:
    """Items as their reader wants them; the error for a wrong one says which it is."""
    out = []
    for i, item in enumerate(items):
        try:
            out.append(one.reader.read(item))
        except BadFeatures as e:
            raise BadFeatures(f"{one.reader.field}[{i}]: {e}") from e
    return out


def kind_of(e: Exception) -> str:
    """One word for an error; those that are not ours tell nothing of the inside."""
    return type(e).__name__ if isinstance(e, AimwiseError) else "Failed"


def problem(e: Exception) -> dict[str, Any]:
    """The error of one item among others."""
    said = str(e) if isinstance(e, AimwiseError) and status_of(e) < 600 else "Something went wrong here."
    return {"error": said, "kind": kind_of(e)}


def add_routes(app: FastAPI, desk: Desk) -> None:
    """The paths of the service."""
    bearer = HTTPBearer(auto_error=False, description="The token that the service was started with, if it was.")
    only = [Depends(bearer)]  # for the description; `Locked` holds it
    direct = APIRouter(route_class=Direct)

    @direct.post(
        "/v1/explain", dependencies=only, response_model=schema.ExplainAnswer, responses=PROBLEMS, summary="Explain inputs"
    )
    async def explain(body: schema.ExplainRequest) -> Any:
        one = desk.chosen(body.explainer)
        classes = one.numbers(body.classes)
        items = await desk.read(one, body)
        jobs = [Job(item, classes=classes, top=body.top, by=body.by, view=body.view) for item in items]
        results = await desk.answer(one, jobs)
        about = {"explainer": one.name, "method": one.explainer.method, "classes": list(one.classes)}
        return as_json({**about, "results": results})

    @direct.post(
        "/v1/ask", dependencies=only, response_model=schema.AskAnswer, responses=PROBLEMS, summary="Ask with and without"
    )
    async def ask(body: schema.AskRequest) -> Any:
        one = desk.chosen(body.explainer)
        items = await desk.read(one, body)
        if len(body.keep) != len(items):
            raise BadFeatures(f"Got {len(items)} inputs and {len(body.keep)} lists in keep, wanted one for each input.")
        jobs = [Job(item, keep=tuple(keep), view=body.view) for item, keep in zip(items, body.keep, strict=True)]
        results = await desk.answer(one, jobs)
        return as_json({"explainer": one.name, "classes": list(one.classes), "results": results})

    app.include_router(direct)
    told: dict[int | str, dict[str, Any]] = {status: PROBLEMS[status] for status in (401, 421)}

    @app.get("/v1/explainers", dependencies=only, response_model=schema.ExplainersAnswer, responses=told, summary="What there is")
    async def explainers() -> Any:
        s = desk.settings
        limits = {"items": s.max_items, "body": s.max_body, "seconds": s.timeout}
        return as_json({"explainers": [one.about() for one in desk.served.values()], "limits": limits})

    @app.get("/healthz", response_model=schema.Health, responses={421: PROBLEMS[421]}, summary="Whether the service is up")
    async def healthz() -> Any:
        return as_json({"status": "ok"})

    @app.get("/metrics", dependencies=only, response_class=Text, responses=told, summary="Numbers for Prometheus")
    async def metrics() -> Any:
        return Text(desk.metrics.text(), headers={"cache-control": "no-store"})


class Direct(APIRoute):
    """A path whose body pydantic reads at once and whose function is then called: a third of the time that FastAPI takes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        (model,) = (kind for name, kind in get_type_hints(endpoint).items() if name == "body")

        async def handle(request: Request) -> Response:
            said = request.headers.get("content-type", "")
            if said.partition(";")[0].strip().lower() != "application/json":
                raise Refused(415, "WrongType", f"Got a body of the type {said!r}, wanted application/json.")
            try:
                body = model.model_validate_json(await request.body())
            except ValidationError as e:
                raise RequestValidationError(e.errors(include_url=False, include_input=False)) from e
            answer: Response = await endpoint(body)
            return answer

        return handle


class Locked:
    """Lets only those in who send the token, where there is one; what tells nothing of the explainers is open to all."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.token is None or scope["type"] != "http" or scope["path"] in OPEN:
            return await self.app(scope, receive, send)
        scheme, _, given = header(scope, b"authorization").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token):
            return await self.app(scope, receive, send)
        said = f"The token is {'wrong' if given else 'missing'}. Send the header Authorization: Bearer TOKEN."
        return await error(401, "WrongToken", said, {"www-authenticate": "Bearer"})(scope, receive, send)


class Text(Response):
    """Plain text in the form that Prometheus reads."""

    media_type = "text/plain; version=0.0.4"


class Measured:
    """Counts requests and how long they took, by path and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, path = time.perf_counter(), scope["path"] if scope["path"] in PATHS else "other"
        status = "none"  # the client has gone

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            self.metrics.requests.add({"path": path, "status": status})
            self.metrics.seconds.add({"path": path}, time.perf_counter() - started)
