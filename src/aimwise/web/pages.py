"""The files of the page to try explainers on, and the page that describes the service; none asks anything of anyone else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from aimwise.render import colours
from aimwise.render.html import SCRIPTS
from aimwise.web.common import Asset

DRAWN = tuple(name for name in SCRIPTS if name != "page.js")  # what draws a card; the choices of a report are not needed


def page_files() -> dict[str, Asset]:
    """What is served at which path."""
    style = text("render", "page.css") + colours.css() + text("web", "try.css")
    script = "".join(text("render", name) for name in DRAWN) + text("web", "forms.js") + text("web", "try.js")
    return {
        "/": made(text("web", "try.html"), "text/html"),
        "/try.css": made(style, "text/css"),
        "/try.js": made(script, "text/javascript"),
    }


def text(package: str, name: str) -> str:
    """The text of a file of this library."""
    return files(f"aimwise.{package}").joinpath(name).read_text(encoding="utf-8")


def made(body: str, media: str) -> Asset:
    """An asset of this text."""
    return Asset.of(body.encode("utf-8"), f"{media}; charset=utf-8")


def documentation(described: Mapping[str, Any]) -> Asset:
    """A page that says what the OpenAPI description says, without a script."""
    models = described["components"]["schemas"]
    paths = "".join(
        operation(path, method, one, models) for path, methods in described["paths"].items() for method, one in methods.items()
    )
    shapes = "".join(
        f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{shape(one)}</section>' for name, one in models.items()
    )
    head, intro = escape(described["info"]["title"]), marked(described["info"]["description"])
    links = 'For programs: <a href="/openapi.json">openapi.json</a>. For people: <a href="/">try it</a>.'
    return made(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="/try.css"><title>{head}: the service</title></head>'
        f'<body class="docs"><header class="top"><h1>{head}: the service</h1><p class="intro">{intro}</p>'
        f'<p class="intro">{links}</p></header>'
        f"<main><h2>Paths</h2>{paths}<h2>Shapes</h2>{shapes}</main></body></html>",
        "text/html",
    )


def operation(path: str, method: str, one: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """One path of the service."""
    said = [f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(one.get('summary', ''))}.</p>"]
    if "requestBody" in one:
        name = reference(one["requestBody"]["content"]["application/json"]["schema"])
        example = json.dumps(models[name].get("examples", [{}])[0])
        said.append(f"<p>Takes {link(name)}:</p><pre>curl -H 'content-type: application/json' -d '{escape(example)}' ")
        said.append(f"http://127.0.0.1:8000{escape(path)}</pre>")
    rows = "".join(
        f'<tr><th scope="row">{escape(status)}</th><td>{escape(answer["description"])}</td><td>{answered(answer)}</td></tr>'
        for status, answer in one["responses"].items()
    )
    table = f"<thead><tr><th>Status</th><th>Meaning</th><th>Shape</th></tr></thead><tbody>{rows}</tbody>"
    return (
        "".join(said)
        + f'<div class="results" role="region" tabindex="0" aria-label="Answers"><table>{table}</table></div></section>'
    )


def shape(one: Mapping[str, Any]) -> str:
    """The fields of one shape."""
    rows, needed = "", one.get("required", ())
    for name, field in one.get("properties", {}).items():
        held = kind(field) + ("" if name in needed else ", may be left out")
        meaning = escape(field.get("description", ""))
        rows += f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{held}</td><td>{meaning}</td></tr>'
    said = f"<p>{escape(one.get('description', ''))}</p>"
    if not rows:
        return said
    table = f"<thead><tr><th>Field</th><th>Kind</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody>"
    return said + f'<div class="results" role="region" tabindex="0" aria-label="Fields"><table>{table}</table></div>'


def kind(field: Mapping[str, Any]) -> str:
    """What a field holds, in a few words."""
    if "$ref" in field:
        return link(reference(field))
    if "enum" in field or "const" in field:
        return " or ".join(f"<code>{escape(json.dumps(v))}</code>" for v in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(map(kind, field["anyOf"])))
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}))}"
    return escape(str(field.get("type", "anything")))


def answered(answer: Mapping[str, Any]) -> str:
    """The shape of an answer, where it has one."""
    name = reference(answer.get("content", {}).get("application/json", {}).get("schema", {}))
    return link(name) if name else ""


def reference(field: Mapping[str, Any]) -> str:
    """The name of the shape that is meant."""
    return str(field.get("$ref", "")).rpartition("/")[2]


def link(name: str) -> str:
    """A link to a shape."""
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def marked(said: str) -> str:
    """A sentence, what stands between backquotes as code."""
    parts = said.split("`")
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else escape(part) for i, part in enumerate(parts))
