"""What every service and page of this library shares: headers, limits, errors as JSON, files, and a server that stops gracefully.

A FastAPI application is made in these steps:

    app = FastAPI(docs_url=None, redoc_url=None)     # FastAPI's own pages load scripts from elsewhere
    answer_errors(app)                               # every error as {"error": ..., "kind": ...}
    add_files(app, {"/": asset("aimwise.web", "page.html"), "/page.js": asset("aimwise.web", "page.js")})
    guarded = guard(app, max_body=1 << 20)           # headers, hosts and the limit of a body, around the application
    run(guarded, listen("127.0.0.1", 8000))          # until SIGTERM or Ctrl-C; what was accepted is answered first

Raise `Refused(status, kind, message)` in a handler to answer with an error of your own.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import ipaddress
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aimwise.errors import AimwiseError, BadFeatures, BadSetting, NoAnswer, SingleClass, UnknownName

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json"}
KINDS = {400: "BadRequest", 404: "NotFound", 405: "WrongMethod", 415: "WrongType", 422: "BadInput"}
BODY_SECONDS = 30.0  # in which a body must have come
LINGER_SECONDS, LINGER_BYTES = 5.0, 1 << 28  # how long the rest of a refused body is read, so that its sender sees the answer
HELD_BODIES = 16  # as many full bodies as may be in memory at once
GRACE_SECONDS = 60


class Refused(AimwiseError):
    """A request that is answered with an error: its status, one word for programs, and a sentence for people."""

    def __init__(self, status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, dict(headers or {})


@dataclass(frozen=True)
class Asset:
    """A file that is served: its bytes, its type, and a name for this version of it."""

    body: bytes
    media: str
    tag: str

    @classmethod
    def of(cls, body: bytes, media: str) -> Asset:
        """An asset of these bytes."""
        return cls(body, media, f'"{hashlib.sha256(body).hexdigest()[:24]}"')


def asset(package: str, *names: str, more: str = "") -> Asset:
    """Files of a package, one behind the other, as one file; `more` text may follow."""
    parts = [files(package).joinpath(name).read_text(encoding="utf-8") for name in names]
    media = TYPES["." + names[0].rpartition(".")[2]]
    return Asset.of("".join((*parts, more)).encode("utf-8"), f"{media}; charset=utf-8")


def add_files(app: FastAPI, served: Mapping[str, Asset]) -> None:
    """Serve files at these paths; a browser asks each time whether it has the newest."""
    for path, one in served.items():

        async def send(request: Request, one: Asset = one) -> Response:
            headers = {"etag": one.tag, "cache-control": "no-cache"}
            if request.headers.get("if-none-match") == one.tag:
                return Response(status_code=304, headers=headers)
            return Response(one.body, media_type=one.media, headers=headers)

        app.router.add_route(path, send, methods=["GET", "HEAD"], include_in_schema=False)


def as_json(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, which no one keeps."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii")
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(body, status_code=status, media_type="application/json", headers=kept)


def error(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as every route answers it."""
    return as_json({"error": message, "kind": kind}, status, headers)


def status_of(e: AimwiseError) -> int:
    """The status that an error of the library is answered with: the sender's mistakes are 422, the model's are 502."""
    if isinstance(e, Refused):
        return e.status
    return 422 if isinstance(e, BadFeatures | BadSetting | SingleClass | UnknownName) else 503 if isinstance(e, NoAnswer) else 502


def answer_errors(app: FastAPI) -> None:
    """Answer every error as JSON with a sentence that says what to do; unexpected ones tell nothing of the inside."""

    async def known(_: Request, e: Exception) -> Response:
        assert isinstance(e, AimwiseError)
        kind, headers = (e.kind, e.headers) if isinstance(e, Refused) else (type(e).__name__, {})
        return error(status_of(e), kind, str(e), headers)

    async def invalid(_: Request, e: Exception) -> Response:
        assert isinstance(e, RequestValidationError)
        return error(422, "BadInput", "; ".join(map(complaint, e.errors()[:5])))

    async def http(_: Request, e: Exception) -> Response:
        assert isinstance(e, HTTPException)
        said = str(e.detail)
        if e.status_code == 400:
            said = "The body could not be read: wanted JSON, written in UTF-8 and not nested too deeply."
        return error(e.status_code, KINDS.get(e.status_code, "Refused"), said, e.headers)

    async def unexpected(_: Request, e: Exception) -> Response:
        return error(500, "Failed", "Something went wrong here. The log of the service says what.")

    app.add_exception_handler(AimwiseError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def complaint(found: Mapping[str, Any]) -> str:
    """One finding of the validation in words: where, and what was wanted."""
    if found["type"] == "json_invalid":
        return f"The body is not JSON: {found.get('ctx', {}).get('error', found['msg'])}."
    place = ".".join(str(part) for part in found["loc"] if part != "body")
    said = str(found["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}." if place else f"{said.rstrip('.')}."


def guard(
    app: ASGIApp,
    *,
    max_body: int,
    hosts: frozenset[str] | None = None,
    advice: str = "Start it with --token-env to open it to others.",
) -> ASGIApp:
    """The application behind its headers and limits.

    hosts: the names it may be called by; None for any. advice: what to do about a name that it does not go by.
    """
    return Guarded(Limited(app, max_body), hosts, advice)


class Guarded:
    """Puts the headers of a strict page on every answer, and refuses names that the service does not go by.

    The check of names keeps a web page from reaching a service on the same machine under a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, advice: str) -> None:
        self.app, self.hosts, self.advice = app, hosts, advice
        self.headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message = {**message, "headers": [*message["headers"], *(h for h in self.headers if h[0] not in given)]}
            await send(message)

        if self.hosts is not None and (name := host_name(header(scope, b"host"))) not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            said = f"This service is not known as {name!r}; it answers to {known}. {self.advice}"
            return await error(421, "WrongHost", said)(scope, receive, dressed)
        return await self.app(scope, receive, dressed)


class Limited:
    """Reads the whole body before the application sees it, and refuses one that is too large or too slow."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most, self.held = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        said = header(scope, b"content-length")
        if said.isdigit() and int(said) > self.most:
            return await self.refuse(scope, receive, send, f"{int(said):,} bytes")
        body = bytearray()
        try:
            answer = await self.read(scope, receive, body)
            if answer is not None:
                return await answer(scope, receive, send)
            if len(body) > self.most:
                return await self.refuse(scope, receive, send, f"more than {self.most:,} bytes")
            rest = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

            async def replayed() -> Message:
                return next(rest, None) or await receive()

            return await self.app(scope, replayed, send)
        finally:
            self.held -= len(body)

    async def read(self, scope: Scope, receive: Receive, body: bytearray) -> ASGIApp | None:
        """Fill the body up to the limit and a little more; what to answer if that could not be done."""
        more, late = True, asyncio.get_running_loop().time() + BODY_SECONDS
        while more and len(body) <= self.most:
            message = await before(late, receive)
            if message is None:
                said = f"The body did not come within {BODY_SECONDS:g} seconds."
                return error(408, "TooSlow", said, {"connection": "close"})
            if message["type"] == "http.disconnect":
                return nothing
            part, more = message.get("body", b""), message.get("more_body", False)
            body += part
            self.held += len(part)
            if self.held > HELD_BODIES * self.most:
                return error(503, "Busy", "Too many large requests at once. Try again soon.", {"retry-after": "1"})
        return None

    async def refuse(self, scope: Scope, receive: Receive, send: Send, got: str) -> None:
        """Say at once that the body is too large, then read on for a while: one who is still sending would not see it else."""
        said = error(413, "TooLarge", f"Got a body of {got}, wanted at most {self.most:,}. Send fewer items at a time.")
        await send({"type": "http.response.start", "status": 413, "headers": [*said.raw_headers, (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": said.body, "more_body": True})
        late, read = asyncio.get_running_loop().time() + LINGER_SECONDS, 0
        while read < LINGER_BYTES:
            message = await before(late, receive)
            if message is None:
                break
            read += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def before(late: float, receive: Receive) -> Message | None:
    """The next message if it comes before the loop's clock says `late`; cheaper than a task and a timer for each."""
    loop, task, expired = asyncio.get_running_loop(), asyncio.current_task(), False

    def expire() -> None:
        nonlocal expired
        assert task is not None
        expired = True
        task.cancel()

    timer = loop.call_at(late, expire)
    try:
        return await receive()
    except asyncio.CancelledError:
        if not expired:
            raise
        if task is not None and sys.version_info >= (3, 11):
            task.uncancel()
        return None
    finally:
        timer.cancel()


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to one who has hung up."""


def header(scope: Scope, wanted: bytes) -> str:
    """A header of a request, or nothing."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


def host_name(said: str) -> str:
    """The name in a Host header, without its port."""
    return said[: said.find("]") + 1] if said.startswith("[") else said.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol is named, since asyncio turns Nagle's delay off only where it is: answers would wait 40 ms for it else.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as e:
        raise BadSetting(f"Cannot listen at {host}:{port} ({e.strerror or e}). Choose another --host or --port.") from e
    made.listen(2048)
    return made


def address(listening: socket.socket) -> str:
    """Where a browser finds what listens there."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server(app: ASGIApp) -> uvicorn.Server:
    """The server of an application: quiet, and with time to answer what it accepted before it stops."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE_SECONDS,
            lifespan="on",
        )
    )


def run(app: ASGIApp, listening: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or Ctrl-C; no new request is accepted then, and those that were are answered first."""

    def quietly(number: int, frame: FrameType | None) -> None:
        """The server has stopped by now: it hands the signal on to whoever was there before it."""

    before = {each: signal.signal(each, quietly) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        gc.collect()
        gc.freeze()  # what is loaded by now stays: looking through it again would hold all requests up for a third of a second
        server(app).run(sockets=[listening])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        gc.unfreeze()
        listening.close()
