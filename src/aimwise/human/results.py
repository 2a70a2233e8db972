"""What came out: human accuracy and share of neutral answers per method, agreement, tests between methods, the paper beside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from aimwise.human.agreement import alpha
from aimwise.human.intervals import Interval, Share, difference, holm, interval, over_items, paired
from aimwise.human.reader import CALLED
from aimwise.human.survey import NEUTRAL, Survey

PAPER = {"aim": (90.10, 8.41), "l2x": (83.03, 12.22), "lime": (84.13, 19.22)}
"""Human accuracy and share of neutral answers in percent, by method."""
PAPER_SAYS = "30 students, 50 IMDB reviews, 10 key words"


@dataclass(frozen=True)
class OfMethod:
    """What people made of one method, shares from 0 to 1."""

    method: str
    participants: int
    answers: int
    accuracy: Interval
    """Of the answers that name a class, the mean over participants."""
    neutral: Interval
    alpha: float
    seconds: float
    """The median time of an answer."""
    paper: tuple[float, float] | None
    """The accuracy and the share of neutral answers that the paper printed, from 0 to 1."""
    reader_accuracy: Interval | None
    """Of the simulated reader, which is not human; its interval is over items alone."""
    reader_neutral: Interval | None


@dataclass(frozen=True)
class Between:
    """How two methods differ in one figure, and how likely that is by chance."""

    one: str
    other: str
    figure: str
    gap: Interval
    people: float
    items: float
    p: float
    """The larger of the two, corrected for the number of pairs (Holm)."""
    exact: bool


@dataclass(frozen=True)
class Results:
    """All figures of a study."""

    title: str
    kind: str
    top: int
    items: int
    participants: int
    finished: int
    truth: str
    reader: str
    methods: tuple[OfMethod, ...]
    pairs: tuple[Between, ...]

    def config(self) -> dict[str, Any]:
        """All of it as JSON values; what is not known is null."""

        def plain(value: Any) -> Any:
            if isinstance(value, float):
                return None if math.isnan(value) else round(value, 6)
            if isinstance(value, Interval):
                return {"value": plain(value.value), "low": plain(value.low), "high": plain(value.high)}
            if isinstance(value, OfMethod | Between):
                return {name: plain(v) for name, v in vars(value).items()}
            return [plain(v) for v in value] if isinstance(value, tuple) else value

        made = {name: plain(value) for name, value in vars(self).items()}
        for one, own in zip(made["methods"], self.methods, strict=True):
            read = {"accuracy": one.pop("reader_accuracy"), "neutral": one.pop("reader_neutral"), "human": False}
            one["simulated_reader"] = None if own.reader_accuracy is None else read | {"note": CALLED}
        return made | {"paper": PAPER_SAYS}

    def to_json(self) -> str:
        """All of it as JSON text."""
        return json.dumps(self.config(), ensure_ascii=False, allow_nan=False, indent=1)


def grid(survey: Survey, answers: Sequence[Mapping[str, Any]], method: str) -> tuple[list[str], Float[np.ndarray, "P I"]]:
    """Every participant's choice for every item of a method, NaN where there is none."""
    codes = list(dict.fromkeys(str(a["code"]) for a in answers))
    place = {code: i for i, code in enumerate(codes)}
    made = np.full((len(codes), len(survey.items)), np.nan)
    for a in answers:
        if a["method"] == method:
            made[place[str(a["code"])], a["item"]] = a["choice"]
    return codes, made


def shares(choices: Float[np.ndarray, "P I"], truth: Sequence[int]) -> tuple[Share, Share]:
    """Which answers name the right class, of those that name one; and which name none, of all."""
    given = ~np.isnan(choices)
    neutral = choices == NEUTRAL
    return Share(choices == np.array(truth)[None], given & ~neutral), Share(neutral, given)


def results(survey: Survey, answers: Sequence[Mapping[str, Any]], *, started: int, finished_only: bool = False) -> Results:
    """The figures of all answers, or of those participants alone who answered everything."""
    total = len(survey.items) * (1 if survey.once else len(survey.methods))
    counts: dict[str, int] = {}
    for a in answers:
        counts[a["code"]] = counts.get(a["code"], 0) + 1
    finished = {code for code, n in counts.items() if n == total}
    if finished_only:
        answers = [a for a in answers if a["code"] in finished]
    truth = [item.truth for item in survey.items]
    grids = {method: grid(survey, answers, method)[1] for method in survey.methods}
    both = {method: shares(choices, truth) for method, choices in grids.items()}
    methods = tuple(of_method(survey, answers, m, grids[m], *both[m]) for m in survey.methods)
    people = len({a["code"] for a in answers})
    return Results(
        title=survey.title,
        kind=survey.kind,
        top=survey.top,
        items=len(survey.items),
        participants=people if finished_only else started,
        finished=len(finished),
        truth=survey.truth,
        reader=survey.reader,
        methods=methods,
        pairs=between(survey, both),
    )


def of_method(
    survey: Survey,
    answers: Sequence[Mapping[str, Any]],
    method: str,
    choices: Float[np.ndarray, "P I"],
    right: Share,
    neutral: Share,
) -> OfMethod:
    """The figures of one method."""
    seconds = [a["seconds"] for a in answers if a["method"] == method]
    read = [item.reader.get(method) for item in survey.items]
    machine: tuple[Interval | None, Interval | None] = (None, None)
    if all(choice is not None for choice in read):
        said = shares(np.array([read], dtype=float), [item.truth for item in survey.items])
        machine = (over_items(said[0]), over_items(said[1]))
    printed = PAPER.get(method.lower())
    return OfMethod(
        method=method,
        participants=int((~np.isnan(choices)).any(1).sum()),
        answers=int((~np.isnan(choices)).sum()),
        accuracy=interval(right),
        neutral=interval(neutral),
        alpha=alpha(choices),
        seconds=float(np.median(seconds)) if seconds else math.nan,
        paper=None if printed is None else (printed[0] / 100, printed[1] / 100),
        reader_accuracy=machine[0],
        reader_neutral=machine[1],
    )


def between(survey: Survey, both: Mapping[str, tuple[Share, Share]]) -> tuple[Between, ...]:
    """Every pair of methods, in accuracy and in neutral answers."""
    out: list[Between] = []
    for at, figure in enumerate(("accuracy", "neutral")):
        pairs = list(combinations(survey.methods, 2))
        tests = [paired(both[one][at], both[other][at], seed=survey.seed) for one, other in pairs]
        corrected = holm([test.p for test in tests])
        for (one, other), test, p in zip(pairs, tests, corrected, strict=True):
            gap = difference(both[one][at], both[other][at])
            out.append(Between(one, other, figure, gap, test.people, test.items, p, test.exact))
    return tuple(out)
