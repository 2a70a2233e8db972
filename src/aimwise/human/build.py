"""A study made from explanations: which inputs, what each method shows of them, and the words around it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aimwise.errors import BadFile, BadSetting, extra
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.human.reader import taught
from aimwise.human.shown import shown
from aimwise.human.survey import Item, Survey, checked_name
from aimwise.io.back import OTHERS, about_file, shown_rows
from aimwise.io.inputs import Rows, picked
from aimwise.render.views import kind as kind_of

ASKED_AT_ONCE = 64
SECONDS = 6  # that one answer takes
QUESTIONS = {
    "text": "Which of these do the words speak for?",
    "table": "Which of these do the values speak for?",
    "image": "What does the picture show?",
}
CONSENT = """You will see {what} and say which of these you think it is: {choices}.
If you cannot tell, say so; there is no wrong answer.

It takes about {minutes} minutes. You may stop at any time, and come back by a link that only you have.

Your answers are kept under a random code, with the time each took, and without your name, your address or anything else about
your device. You may have them deleted at any time: tell the code, which is shown at the foot of the page, to whoever sent
you here."""
WHAT = {"text": "a few key words of a text", "table": "a few values of a record", "image": "parts of a picture"}


@dataclass(frozen=True, eq=False)
class Told:
    """One input as one method explained it: what is shown, and what the black box predicted."""

    shown: Any
    prediction: str
    kind: str
    classes: tuple[str, ...]
    source: str | None


@dataclass(frozen=True, eq=False)
class Saved:
    """Explanations of a file: a Parquet file that `aimwise explain` wrote, or a JSON file of `Explanation.to_json`."""

    path: Path
    rows: tuple[int, ...]
    classes: tuple[str, ...]
    record: Explanation | None
    """The whole record of a JSON file, whose rows count from 0."""

    @classmethod
    def opened(cls, path: Path) -> Saved:
        """What a file holds, without the weights."""
        if path.suffix == ".json":
            record = Explanation.from_json(path)
            return cls(path, tuple(range(len(record))), record.classes, record)
        about, table = about_file(path), extra("pyarrow.parquet", "table").read_table(path, columns=["row"])
        rows = tuple(sorted(set(table["row"].to_pylist())))
        return cls(path, rows, tuple(map(str, about["classes"])), None)

    def told(self, rows: Sequence[int], k: int) -> list[Told]:
        """What is shown of these rows."""
        if self.record is not None:
            return [told(self.record[row], k) for row in rows]
        made = []
        for one in shown_rows(self.path, list(rows)):
            alone = OTHERS in one.explanation.classes  # a method of one class: the first is the predicted one
            made.append(replace(told(one.explanation, k, target=0 if alone else None), classes=self.classes))
        return made


def told(explanation: Explanation, k: int, *, target: int | None = None) -> Told:
    """What is shown of an explanation of one row."""
    c = int(explanation.prediction[0]) if target is None else target
    source = None if explanation.sources is None else explanation.sources[0]
    return Told(shown(explanation, k, target=target), explanation.classes[c], kind_of(explanation), explanation.classes, source)


@dataclass(frozen=True, eq=False)
class Wish:
    """What a study should be like."""

    path: Path
    items: int = 50
    top: int = 10
    seed: int = 0
    any_: bool = False
    """Also inputs that the black box got wrong."""
    once: bool = False
    title: str = "What do these words say?"


def built(
    wish: Wish,
    explainers: Mapping[str, Explainer],
    files: Mapping[str, Saved],
    rows: Rows | None,
    *,
    order: Sequence[str],
    note: Callable[[str], None] = lambda _: None,
) -> Survey:
    """The study of some explainers and saved explanations over the same rows; nothing is written yet."""
    if not order or (explainers and rows is None):
        raise BadSetting("Got nothing to show. Pass explainers with a model and data, or files of explanations.")
    for name in order:
        checked_name(name)
    classes = agreed({**{n: e.classes_ for n, e in explainers.items()}, **{n: f.classes for n, f in files.items()}})
    chosen = Chosen.made(wish, explainers, files, rows, classes)
    tells: dict[str, list[Told]] = {name: file.told(chosen.rows, wish.top) for name, file in files.items()}
    for name, explainer in explainers.items():
        assert rows is not None
        note(f"explaining {len(chosen.rows)} inputs by {name}")
        made = explainer.explain(picked(rows.inputs, chosen.places), probs=chosen.probs)
        tells[name] = [told(one, wish.top) for one in made]
    first = tells[order[0]]
    if len({one.kind for each in tells.values() for one in each}) > 1:
        raise BadFile("The methods explain inputs of different kinds. Pass explanations of the same inputs.")
    for name, each in tells.items():
        for row, one, other in zip(chosen.rows, each, first, strict=True):
            if one.prediction != other.prediction:
                raise BadFile(
                    f"Row {row} is {other.prediction!r} to the black box of {order[0]} and {one.prediction!r} to that of {name}. "
                    "Explain the same model by all methods."
                )
    predictions = [classes.index(one.prediction) for one in first]
    truths = predictions if chosen.truths is None else chosen.truths
    readings, learned = read_by_machine(order, tells, rows, chosen, classes)
    items = tuple(
        Item(row, truths[i], predictions[i], {n: tells[n][i].shown for n in order}, readings[i], first[i].source)
        for i, row in enumerate(chosen.rows)
    )
    sections = 1 if wish.once else len(order)
    minutes = max(1, round(len(items) * sections * SECONDS / 60))
    kind = first[0].kind
    consent = CONSENT.format(what=WHAT[kind], choices=", ".join(classes), minutes=minutes)
    return Survey(
        key=f"{wish.path.stem[:40]}-{secrets.token_hex(4)}",
        title=wish.title,
        question=QUESTIONS[kind],
        choices=classes,
        neutral="can't decide",
        consent=consent,
        minutes=minutes,
        methods=tuple(order),
        kind=kind,
        top=wish.top,
        seed=wish.seed,
        once=wish.once,
        truth="prediction" if chosen.truths is None else "label",
        reader=learned,
        items=items,
        path=wish.path,
    )


def agreed(classes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The classes that all methods explain, in the same order."""
    (first, names), *others = classes.items()
    for name, found in others:
        if tuple(found) != tuple(names):
            raise BadFile(f"{first} explains the classes {', '.join(names)}, and {name} {', '.join(found)}. Explain one model.")
    return tuple(names)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The inputs of a study: their rows, their places among those read, the true classes and the black box's answers."""

    rows: list[int]
    places: np.ndarray
    truths: list[int] | None
    probs: Any

    @classmethod
    def made(
        cls,
        wish: Wish,
        explainers: Mapping[str, Explainer],
        files: Mapping[str, Saved],
        rows: Rows | None,
        classes: tuple[str, ...],
    ) -> Chosen:
        """So many inputs that all methods know, at random, and unless asked otherwise only those the black box got right."""
        known = [set(file.rows) for file in files.values()]
        if rows is not None:
            known.append(set(rows.numbers.tolist()))
        pool = np.array(sorted(set.intersection(*known)), dtype=np.int64)
        labels = None if rows is None or rows.labels is None else dict(zip(rows.numbers.tolist(), rows.labels, strict=True))
        truth = None if labels is None else class_numbers(labels, classes)
        if truth is None and not wish.any_:
            raise BadSetting(
                "Only inputs that the black box got right are shown, and the true classes are not known. Name their column with "
                "--data and --label, or pass --any to show all inputs and take the prediction for the right answer."
            )
        pool = np.random.default_rng(wish.seed).permutation(pool)
        if truth is not None:
            pool = np.array([row for row in pool.tolist() if row in truth], dtype=np.int64)
        rights, probs = [], []
        for row, predicted, answer in predicted_rows(pool, explainers, files, rows, classes):
            if wish.any_ or (truth is not None and truth[row] == predicted):
                rights.append(row)
                probs.append(answer)
            if len(rights) == wish.items:
                break
        if len(rights) < wish.items:
            which = "can be used" if wish.any_ else "are ones that the black box got right"
            raise BadSetting(
                f"Wanted {wish.items} inputs, but only {len(rights)} of {len(pool)} {which}. Pass more rows or --items."
            )
        place = {} if rows is None else {row: i for i, row in enumerate(rows.numbers.tolist())}
        places = np.array([place[row] for row in rights] if place else [], dtype=np.int64)
        answers = np.stack(probs) if explainers else None
        return cls(rights, places, None if truth is None else [truth[row] for row in rights], answers)


def predicted_rows(
    pool: np.ndarray, explainers: Mapping[str, Explainer], files: Mapping[str, Saved], rows: Rows | None, classes: tuple[str, ...]
) -> Iterator[tuple[int, int, Any]]:
    """Each row with its predicted class, asked for as it is needed."""
    if explainers:
        assert rows is not None
        place = {row: i for i, row in enumerate(rows.numbers.tolist())}
        box = next(iter(explainers.values())).box_.blackbox
        for start in range(0, len(pool), ASKED_AT_ONCE):
            part = pool[start : start + ASKED_AT_ONCE].tolist()
            probs = box.probs(picked(rows.inputs, np.array([place[row] for row in part]))).cpu().numpy()
            yield from zip(part, probs.argmax(1).tolist(), probs, strict=True)
        return
    file = next(iter(files.values()))
    for start in range(0, len(pool), ASKED_AT_ONCE):
        part = pool[start : start + ASKED_AT_ONCE].tolist()
        yield from ((row, classes.index(one.prediction), None) for row, one in zip(part, file.told(part, 1), strict=True))


def class_numbers(labels: Mapping[int, Any], classes: tuple[str, ...]) -> dict[int, int]:
    """The class numbers of labels that are names or numbers; rows without a label are left out."""
    given = {row: label for row, label in labels.items() if label is not None}
    if all(str(label) in classes for label in given.values()):
        return {row: classes.index(str(label)) for row, label in given.items()}
    numbers = {row: whole(label) for row, label in given.items()}
    for row, number in numbers.items():
        if number is None or not 0 <= number < len(classes):
            raise BadSetting(
                f"The label of row {row} is {given[row]!r}, wanted one of {', '.join(classes[:10])} or a number from 0 to "
                f"{len(classes) - 1}. Name the classes in the order of the model's columns: --classes a,b."
            )
    return {row: number for row, number in numbers.items() if number is not None}


def whole(label: Any) -> int | None:
    """A label as a whole number, if it is one."""
    try:
        return int(label) if float(label) == int(label) else None
    except (TypeError, ValueError):
        return None


def read_by_machine(
    order: Sequence[str], tells: Mapping[str, list[Told]], rows: Rows | None, chosen: Chosen, classes: tuple[str, ...]
) -> tuple[list[dict[str, int]], str]:
    """What a simulated reader that learned from the other texts says of every item, and what it learned from."""
    nothing: list[dict[str, int]] = [{} for _ in chosen.rows]
    if rows is None or rows.labels is None or tells[order[0]][0].kind != "text" or not isinstance(rows.inputs, list):
        return nothing, ""
    truth = class_numbers(dict(enumerate(rows.labels)), classes)
    mine = set(chosen.rows)
    others = [i for i in truth if int(rows.numbers[i]) not in mine]
    reader = taught([rows.inputs[i] for i in others], [truth[i] for i in others])
    if reader is None:
        return nothing, ""
    read = {name: reader.answers([one.shown for one in tells[name]]) for name in order}
    return [{name: read[name][i] for name in order} for i in range(len(nothing))], f"{len(others):,} other texts"
