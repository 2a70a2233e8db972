"""`aimwise serve`: saved explainers behind HTTP, with a page to try them on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimwise.cli.options import command, natural, positive

if TYPE_CHECKING:
    from aimwise.blackbox import BlackBox
    from aimwise.explainers.base import Explainer

EXAMPLES = """  aimwise serve news-explainer --model mypkg.models:clf
  aimwise serve aim=news-aim lime=news-lime --model mypkg.models:clf
  aimwise serve a=risk b=digits --model a=mypkg.models:forest --model b=onnx:cnn.onnx --port 8080
  TOKEN=... aimwise serve news-explainer --model mypkg.models:clf --host 0.0.0.0 --token-env TOKEN

  curl -H 'content-type: application/json' -d '{"texts": ["..."], "top": 5}' http://127.0.0.1:8000/v1/explain"""
MORE = """The page is at /, what programs need at /docs. Ctrl-C or SIGTERM stops it: what was accepted is answered first."""


def add(commands: Any) -> None:
    """Add the command to a parser's commands."""
    made = command(
        commands,
        "serve",
        help="a service and a page that explain what clients send",
        description="Serves saved explainers over HTTP: POST /v1/explain for programs, and a page to try them on. What many\n"
        "clients send is explained in one batch.",
        examples=EXAMPLES,
        more=MORE,
    )
    made.add_argument("explainers", nargs="+", metavar="[NAME=]EXPLAINER", help="folders that `aimwise fit` or save() wrote")
    group = made.add_argument_group("the models")
    group.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="[NAME=]MODEL",
        help="package.module:object, hf:FOLDER, onnx:FILE or http://...; one for all explainers, or one for each by its name",
    )
    group.add_argument("--model-batch", type=positive, metavar="N", help="how many inputs a model is asked about at once")
    group.add_argument("--http-timeout", type=float, default=30.0, metavar="S", help="seconds to wait for a model (%(default)s)")
    group.add_argument("--http-retries", type=natural, default=3, metavar="N", help="how often to ask it again (%(default)s)")
    group.add_argument("--http-header", action="append", default=[], metavar="NAME=env:VAR", help="a header for http models")
    group = made.add_argument_group("the service")
    group.add_argument("--host", default="127.0.0.1", help="the address to listen at (%(default)s, this machine alone)")
    group.add_argument("--port", type=natural, default=8000, help="the port to listen at, 0 for a free one (%(default)s)")
    group.add_argument("--token-env", metavar="VAR", help="the environment variable with the token that clients must send")
    group.add_argument("--no-token", action="store_true", help="let everyone in who reaches the host")
    group.add_argument("--max-body", type=positive, default=8 << 20, metavar="BYTES", help="of one request (%(default)s)")
    group.add_argument("--max-items", type=positive, default=256, metavar="N", help="inputs of one request (%(default)s)")
    group.add_argument("--max-queue", type=positive, default=2048, metavar="N", help="inputs that may wait (%(default)s)")
    group.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds for an answer (%(default)s)")
    group.add_argument("--batch-size", type=positive, default=64, metavar="N", help="inputs explained together (%(default)s)")
    group.add_argument(
        "--batch-wait", type=float, default=2.0, metavar="MS", help="milliseconds to wait for company under load (%(default)s)"
    )
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Load, listen and serve until stopped."""
    from aimwise.errors import extra

    extra("fastapi", "web"), extra("uvicorn", "web")
    from aimwise.web import common

    token = token_of(options, loopback=common.is_loopback(options.host))
    folders = named(options.explainers)
    models = models_of(options.model, list(folders))
    from aimwise.cli.desk import Desk
    from aimwise.web.app import Settings, create

    desk = Desk(options)
    settings = Settings(
        token=token,
        any_host=options.no_token,
        max_body=options.max_body,
        max_items=options.max_items,
        max_queue=max(options.max_queue, options.max_items),
        timeout=options.timeout,
        batch_size=options.batch_size,
        batch_wait=options.batch_wait / 1000,
    )
    explainers, pictures = loaded_explainers(options, folders, models)
    app = create(explainers, settings=settings, as_pil=pictures)
    listening = common.listen(options.host, options.port)
    where = common.address(listening)

    def ready() -> None:
        for name, one in explainers.items():
            box = one._fitted()
            desk.note(
                f"{name}: {one.method} of {type(box.features).__name__}, {len(one.classes_)} classes, {box.blackbox.called}"
            )
        if settings.token is not None:
            desk.note("clients must send the token")
        desk.note(f"serving at {where} (Ctrl-C stops it)")

    common.run(app, listening, ready=ready)
    queries = {name: one._fitted().meter.queries for name, one in explainers.items()}
    desk.note("stopped; what was accepted was answered")
    return desk.end(0, [], {"address": where, "explainers": list(explainers), "queries": queries})


def token_of(options: argparse.Namespace, *, loopback: bool) -> str | None:
    """The token that clients must send, if any; without one the service stays on this machine unless told otherwise."""
    from aimwise.errors import BadSetting

    if options.token_env is not None:
        if options.no_token:
            raise BadSetting("Got both --token-env and --no-token. Leave one out.")
        found = os.environ.get(options.token_env, "")
        if not found:
            raise BadSetting(f"--token-env {options.token_env}: there is no such environment variable, or it is empty. Set it.")
        return found
    if not loopback and not options.no_token:
        raise BadSetting(
            f"--host {options.host} can be reached from other machines. Pass --token-env VAR so that clients must send a token, "
            "or --no-token to let everyone in."
        )
    return None


def named(given: Sequence[str]) -> dict[str, Path]:
    """Explainers by name; one without a name is called as its folder."""
    from aimwise.errors import BadSetting

    found: dict[str, Path] = {}
    for each in given:
        name, equals, place = each.partition("=")
        path = Path(place if equals else each)
        name = name if equals else path.resolve().name
        if not name or name in found:
            raise BadSetting(f"Two explainers are called {name!r}, or one has no name. Write NAME=FOLDER with different names.")
        found[name] = path
    return found


def models_of(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The model of every explainer: its own, or the one for all."""
    from aimwise.errors import BadSetting, unknown

    found: dict[str, str] = {}
    for each in given:
        name, equals, model = each.partition("=")
        own = bool(equals) and all(sign not in name for sign in ":/?")  # an address may hold an equals sign too
        if own and name not in names:
            raise unknown("explainer (in --model)", name, names)
        key, value = (name, model) if own else ("", each)
        if key in found:
            raise BadSetting(f"Got two models for {key or 'all explainers'!r}: {found[key]} and {value}. Leave one out.")
        found[key] = value
    lacking = [name for name in names if name not in found and "" not in found]
    if lacking:
        raise BadSetting(f"There is no model for {', '.join(lacking)}. Pass --model {lacking[0]}=package.module:object.")
    return {name: found.get(name, found.get("", "")) for name in names}


def loaded_explainers(
    options: argparse.Namespace, folders: Mapping[str, Path], models: Mapping[str, str]
) -> tuple[dict[str, Explainer], list[str]]:
    """The explainers with their models, each model loaded once, and the names of those whose model takes PIL images."""
    from aimwise.cli.work import model_of
    from aimwise.matched import saved

    boxes: dict[str, BlackBox] = {}
    explainers, pictures = {}, []
    for name, model in models.items():
        if model not in boxes:
            boxes[model] = model_of(argparse.Namespace(**{**vars(options), "model": model, "classes": None}))
        fitted = saved(folders[name], boxes[model])
        explainer, form = fitted.explainer, fitted.form
        explainers[name] = explainer
        if form is not None and form.pictures == "pil":
            pictures.append(name)
    return explainers, pictures
