"""What is asked: a TOML file that people may edit, and a JSON file beside it with what is shown of each input."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadFile, BadSetting, extra
from aimwise.files import read_json, write_text

FORMAT, VERSION = "aimwise-study-items", 1
KINDS = ("text", "table", "image")
NEUTRAL = -1
"""The number of the answer "can't decide"; classes count from 0."""


@dataclass(frozen=True)
class Item:
    """One input: its row in the data, the right answer, and for every method what is shown of it."""

    row: int
    truth: int
    prediction: int
    shown: dict[str, Any]
    """Of a text a list of words, of a table a list of [column, value], of an image a PNG as an address that holds it."""
    reader: dict[str, int]
    """What the simulated reader (no human) says of each method's words; empty where there is none."""
    source: str | None = None
    """The whole text, for whoever runs the study; it is never sent to participants."""


@dataclass(frozen=True)
class Survey:
    """A study: its words, its methods, and its items."""

    key: str
    """By which a database knows this study."""
    title: str
    question: str
    choices: tuple[str, ...]
    """What participants choose from, in the order of the classes; may be worded otherwise than the classes' names."""
    neutral: str
    consent: str
    minutes: int
    methods: tuple[str, ...]
    """In the order of the results; participants never see these names."""
    kind: str
    top: int
    seed: int
    once: bool
    """Whether each participant sees an input in one section only; otherwise, as in the paper, once in each."""
    truth: str
    """What the right answer is: "label", or the "prediction" where the data has none."""
    reader: str
    """What the simulated reader learned from, in words; empty where there is none."""
    items: tuple[Item, ...]
    path: Path

    @property
    def items_path(self) -> Path:
        """Where the items are."""
        return self.path.with_suffix(".items.json")

    @property
    def database(self) -> str:
        """The SQLite database beside the file, which answers go to unless another is named."""
        return f"sqlite:///{self.path.with_suffix('.answers.sqlite').absolute()}"

    @property
    def fingerprint(self) -> str:
        """Changes with anything that answers depend on, and not with the wording."""
        what = [self.key, self.methods, self.seed, self.once, len(self.choices), [asdict(item) for item in self.items]]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def order(self, number: int) -> list[list[tuple[str, int]]]:
        """The sections of the participant of that number: a method and the places of its items, all shuffled.

        With `once`, the items are dealt to the methods anew for each participant: every item meets every method equally often.
        """
        rng = np.random.default_rng([self.seed, number])
        count, methods = len(self.items), len(self.methods)
        sections = []
        dealt = (np.random.default_rng([self.seed, 0]).permutation(count) + number) % methods
        for m in rng.permutation(methods).tolist():
            mine = np.flatnonzero(dealt == m) if self.once else np.arange(count)
            sections.append([(self.methods[m], int(i)) for i in rng.permutation(mine)])
        return [section for section in sections if section]

    def save(self) -> None:
        """Write the two files, the items first."""
        items = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "methods": list(self.methods),
            "classes": len(self.choices),
            "items": [asdict(item) for item in self.items],
        }
        write_text(self.items_path, json.dumps(items, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
        write_text(self.path, written(self))


SAID = {
    "key": "by which the database knows this study; do not change it",
    "title": "participants see it at the top",
    "question": "asked of every item",
    "choices": "in the order of the model's classes; word them as you like",
    "neutral": "the choice of those who cannot tell",
    "consent": "shown before anything else; an empty line begins a paragraph",
    "minutes": "how long it takes, told to participants",
    "methods": "one section each; participants do not see these names",
    "kind": "what the inputs are",
    "top": "how many features are shown of each",
    "seed": "of every participant's order",
    "once": "true: a participant sees an input in one section only; false: once in each section, as in the paper",
    "truth": "what the right answer is: label or prediction",
    "reader": "what the simulated reader (no human) learned from",
}


def written(survey: Survey) -> str:
    """The file with a comment on every line that may be edited."""
    lines = ["# A study for `aimwise study serve`. Wording may be changed at any time, the rest before the first participant."]
    lines.append(f"# The items are in {survey.items_path.name}.")
    for name, said in SAID.items():
        lines += ["", f"# {said}", f"{name} = {toml(getattr(survey, name))}"]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    if isinstance(value, int):
        return str(value)
    if "\n" not in value:
        return quoted(value)
    return '"""\n' + "\n".join(quoted(line)[1:-1] for line in value.split("\n")) + '"""'


def quoted(text: str) -> str:
    """A string as TOML has it, which is as JSON has it but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_survey(path: Path | str) -> Survey:
    """The study of a file; what is wrong with it is named."""
    path = Path(path)
    reader = extra("tomllib" if sys.version_info >= (3, 11) else "tomli", "web")
    try:
        said = reader.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise BadFile(f"There is no file {path}. Make one: aimwise study new {path} --explainers ...") from e
    except (OSError, UnicodeDecodeError, reader.TOMLDecodeError) as e:
        raise BadFile(f"{path} is not a readable TOML file: {e}") from e
    check(path, said)
    values: dict[str, Any] = {name: tuple(v) if isinstance(v := said[name], list) else v for name in SAID}
    empty = Survey(**values, items=(), path=path)
    return replace(empty, items=read_items(empty))


def check(path: Path, said: Mapping[str, Any]) -> None:
    """Refuse a file with an entry that is missing, unknown or of the wrong kind."""
    kinds: dict[str, type] = {"minutes": int, "top": int, "seed": int, "once": bool, "choices": list, "methods": list}
    for name in SAID:
        value: Any = said.get(name)
        wanted = kinds.get(name, str)
        right = type(value) is wanted
        if right and wanted is list:
            right = all(isinstance(v, str) and v for v in list(value))
        if not right:
            got = "nothing" if value is None else repr(value)
            kind = {str: "a string", int: "a whole number", bool: "true or false", list: "a list of strings"}[wanted]
            raise BadFile(f"{path}: {name} is {got}, wanted {kind}.")
    if odd := sorted(set(said) - set(SAID)):
        raise BadFile(f"{path}: the entry {odd[0]} is not known; known: {', '.join(SAID)}.")
    for name in ("choices", "methods"):
        if len(set(said[name])) != len(said[name]) or not said[name]:
            raise BadFile(f"{path}: {name} is {said[name]!r}, wanted names that are all different.")
    if said["neutral"] in said["choices"]:
        raise BadFile(f"{path}: neutral is {said['neutral']!r}, which is one of the choices too. Word one of them otherwise.")
    if said["kind"] not in KINDS or said["minutes"] < 1 or said["seed"] < 0:
        raise BadFile(f"{path}: wanted kind one of {', '.join(KINDS)}, minutes of at least 1 and a seed of at least 0.")


def read_items(survey: Survey) -> tuple[Item, ...]:
    """The items beside a file, checked against it."""
    place = survey.items_path
    held = read_json(place)
    if not isinstance(held, dict) or held.get("format") != FORMAT or held.get("version") != VERSION:
        raise BadFile(f"{place} was not written by `aimwise study new`, or by another version of it.")
    try:
        items = tuple(Item(**{f.name: one[f.name] for f in fields(Item)}) for one in held["items"])
        classes = len(survey.choices)
        fine = all(
            set(survey.methods) <= set(item.shown) and 0 <= item.truth < classes and well_shown(survey, item) for item in items
        )
        if held["classes"] != classes:
            raise BadFile(
                f"{survey.path} has {classes} choices, {place} {held['classes']} classes. Write one choice for each class."
            )
    except (KeyError, TypeError) as e:
        raise BadFile(f"{place} is damaged ({type(e).__name__}: {e}). Make the study again.") from e
    if not items or not fine:
        raise BadFile(f"{place} does not fit {survey.path}: an item lacks a method or has a class that is no choice.")
    return items


def well_shown(survey: Survey, item: Item) -> bool:
    """Whether what is shown of an item has the form that its kind has."""
    for method in survey.methods:
        shown = item.shown[method]
        if survey.kind == "image":
            fine = isinstance(shown, str) and re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", shown) is not None
        elif survey.kind == "table":
            fine = isinstance(shown, list) and all(isinstance(p, list) and list(map(type, p)) == [str, str] for p in shown)
        else:
            fine = isinstance(shown, list) and all(isinstance(word, str) for word in shown)
        if not fine:
            return False
    return True


def checked_name(name: str) -> str:
    """A method's name as `--explainers` has it."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+ -]{0,39}", name):
        raise BadSetting(f"Got the method name {name!r}, wanted up to 40 letters, digits, spaces or . + - _.")
    return name
