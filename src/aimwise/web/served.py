"""One explainer in the service: its inputs, its batches, and its answers as JSON values."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from aimwise.batch import Batch
from aimwise.errors import AimwiseError, BadFeatures, SingleClass, unknown
from aimwise.explainers.base import CHECK_DRAWS, Explainer
from aimwise.explanation import Explanation
from aimwise.features import Columns, Tokens
from aimwise.features.images import Images
from aimwise.render.gallery import LARGEST, changes
from aimwise.render.html import digits, record
from aimwise.render.overlays import shrunk
from aimwise.render.say import cell
from aimwise.web.inputs import IdsReader, Reader, RowReader, TextReader
from aimwise.web.pictures import ImageReader

log = logging.getLogger("aimwise")

MOST_CHARACTERS, MOST_IDS = 200_000, 4096
DIGITS = 6


@dataclass(frozen=True)
class Job:
    """What is asked about one input: why (`keep` is None), or what the model says with and without the features in `keep`."""

    item: Any
    keep: tuple[int, ...] | None = None
    classes: tuple[int, ...] = ()
    top: int = 10
    by: str = "weight"
    view: bool = False
    """Whether a page wants to draw the answer."""


class Served:
    """An explainer that answers jobs. Explainers of one black box take turns: `lock` is theirs together."""

    def __init__(self, name: str, explainer: Explainer, lock: threading.Lock, *, as_pil: bool = False) -> None:
        self.name, self.explainer, self.lock = name, explainer, lock
        self.box = explainer._fitted()
        self.reader = reader_of(explainer, as_pil=as_pil)
        self.classes = explainer.classes_

    def about(self) -> dict[str, Any]:
        """What clients should know of it, as JSON values."""
        return {
            "name": self.name,
            "kind": self.reader.kind,
            "field": self.reader.field,
            "method": self.explainer.method,
            "classes": list(self.classes),
            "every_class": self.explainer.every_class,
            "features": type(self.box.features).__name__,
            "fill": self.box.features.fill,
            "model": self.box.blackbox.called,
            "input": self.reader.about(),
        }

    def numbers(self, classes: Sequence[str | int] | None) -> tuple[int, ...]:
        """The classes that are asked about, by name or number; all of them where nothing is said."""
        if classes is None:
            return () if self.explainer.every_class else (-1,)
        out = []
        for one in classes:
            known = one in self.classes if isinstance(one, str) else 0 <= one < len(self.classes)
            if not known:
                raise unknown("class", one, self.classes)
            out.append(self.classes.index(one) if isinstance(one, str) else one)
        return tuple(dict.fromkeys(out))

    def work(self, jobs: Sequence[Job]) -> list[Any]:
        """The answer to every job, an error where it has none."""
        results: list[Any] = [None] * len(jobs)
        with self.lock:
            for asking in (False, True):
                at = [i for i, job in enumerate(jobs) if (job.keep is not None) == asking]
                if at:
                    part = [jobs[i] for i in at]
                    for i, result in zip(at, self._asked(part) if asking else self._explained(part), strict=True):
                        results[i] = result
        return results

    def _explained(self, jobs: Sequence[Job]) -> list[Any]:
        explanation = self.explainer.explain(self.reader.together([job.item for job in jobs]))
        orders = {by: ordered(explanation, by) for by in {job.by for job in jobs}}
        out: list[Any] = []
        for i, job in enumerate(jobs):
            try:
                out.append(self._result(explanation, i, job, orders[job.by][i]))
            except AimwiseError as e:
                out.append(e)
        return out

    def _result(self, explanation: Explanation, i: int, job: Job, order: torch.Tensor) -> dict[str, Any]:
        predicted = int(explanation.probs[i].argmax())
        wanted = job.classes or tuple(range(len(self.classes)))
        if explanation.only is not None:
            own = int(explanation.only[i])
            wanted = tuple(own if c == -1 else c for c in wanted)
            if wanted != (own,):
                raise SingleClass(f"{explanation.method} explains the predicted class alone, {self.classes[own]!r}.")
        made: dict[str, Any] = {
            "prediction": self.classes[predicted],
            "probabilities": [digits(p, DIGITS) for p in explanation.probs[i].tolist()],
            "evidence": [
                {"class": self.classes[c], "features": features(explanation, i, c, order[:, c], job.top)} for c in wanted
            ],
            "unexplained": 0 if explanation.unexplained is None else int(explanation.unexplained[i]),
        }
        if job.view:
            made["view"] = record(explanation[i]._opened(), None)
        return made

    def _asked(self, jobs: Sequence[Job]) -> list[Any]:
        """What the model says with the kept features alone and without them; a random fill is drawn for each input by itself."""
        data = self.box.features.encode(self.reader.together([job.item for job in jobs])).to(torch.device("cpu"))
        out: list[Any] = []
        z = torch.zeros_like(data.present, dtype=torch.float32)
        for i, job in enumerate(jobs):
            here = int(data.present[i].sum())
            beyond = [j for j in job.keep or () if j >= here]
            out.append(
                BadFeatures(f"There is no feature {beyond[0]}; this input has {here}, counted from 0.") if beyond else None
            )
            z[i, [j for j in job.keep or () if j < here]] = 1.0
        for rows in [[i] for i in range(len(jobs))] if self.box.features.random else [list(range(len(jobs)))]:
            part, kept = data.pick(torch.tensor(rows)), z[rows]
            rng = torch.Generator().manual_seed(self.explainer.seed_ + 2)
            said = self.box.averaged(CHECK_DRAWS).each(part, torch.stack([kept, 1 - kept], 1), rng)  # (n, 2, C)
            for n, i in enumerate(rows):
                if out[i] is None:
                    kept_says, rest_says = ([digits(p, DIGITS) for p in row] for row in said[n].tolist())
                    out[i] = {"kept": kept_says, "rest": rest_says}
                    if jobs[i].view:
                        out[i]["view"] = self._pictures(part.pick(torch.tensor([n])), kept[n : n + 1])
        return out

    def _pictures(self, data: Batch, kept: torch.Tensor) -> dict[str, Any] | None:
        """The image with the kept features alone and without them, laid over the image itself; None where there is none."""
        features = self.box.features
        whole = features.pictures(data.raw)
        if whole is None:
            return None
        images, made = [shrunk(each, LARGEST) for each in whole], {}
        for name, z in (("kept", kept), ("rest", 1 - kept)):
            rng = torch.Generator().manual_seed(self.explainer.seed_ + 2)
            made[name] = changes(images, features.pictures(features.dim(data, z * data.present, rng)))
        return made


def reader_of(explainer: Explainer, *, as_pil: bool) -> Reader:
    """How the inputs of an explainer come in."""
    features = explainer._fitted().features
    if isinstance(features, Columns):
        return RowReader(features)
    if isinstance(features, Tokens):
        return IdsReader(features, MOST_IDS)
    if isinstance(features, Images):
        return ImageReader(features, as_pil=as_pil)
    return TextReader(MOST_CHARACTERS)


def ordered(explanation: Explanation, by: str) -> torch.Tensor:
    """For every class the features from the one that speaks most for it (or says most) down, absent ones last: (B, d, C)."""
    weights = explanation.weights.abs() if by == "size" else explanation.weights
    return weights.masked_fill(~explanation.present[:, :, None], -torch.inf).argsort(dim=1, descending=True, stable=True)


def features(explanation: Explanation, i: int, c: int, order: torch.Tensor, top: int) -> list[dict[str, Any]]:
    """The first features of a row for a class, with what is known of them."""
    chosen = order[: min(top, int(explanation.present[i].numpy().sum()))].tolist()
    weights = explanation.weights[i, :, c].numpy()[chosen].tolist()
    values, spans = explanation.values[i], None if explanation.spans is None else explanation.spans[i][chosen].tolist()
    out = []
    for n, (j, weight) in enumerate(zip(chosen, weights, strict=True)):
        one: dict[str, Any] = {"index": j, "weight": digits(weight, DIGITS)}
        if explanation.names is None:
            one["feature"] = str(values[j])
        else:
            one["feature"] = explanation.names[j]
            if explanation.images is None:
                one["value"] = plain(values[j])
        if spans is not None:
            one["start"], one["end"] = spans[n]
        out.append(one)
    return out


def plain(value: Any) -> Any:
    """A cell as a JSON value; what JSON has no form for is written out."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else cell(value)
