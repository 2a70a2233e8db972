"""Several explanations by one explainer as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from aimwise.errors import BadSetting
from aimwise.explanation import About, Check, Explanation, Trial
from aimwise.pairs import Pairs

T = TypeVar("T")


def joined(parts: Sequence[Explanation]) -> Explanation:
    """The rows of all parts, one behind the other; a part of shorter texts gets room for the longest."""
    if not parts:
        raise BadSetting("Got no explanations to put together, wanted at least one.")
    first = parts[0]
    for i, part in enumerate(parts):
        for name in ("classes", "method", "names"):
            if getattr(part, name) != getattr(first, name):
                raise BadSetting(
                    f"Part {i} has {name} {getattr(part, name)!r}, the first has {getattr(first, name)!r}. "
                    "Put together what one explainer explained."
                )
        if not torch.equal(part.base, first.base):
            raise BadSetting(f"Part {i} starts from another base than the first. Put together what one explainer explained.")
    d = max(part.weights.shape[1] for part in parts)
    images = given([part.images for part in parts])
    if images is not None and len({each.shape[1:] for each in images}) > 1:
        raise BadSetting("The parts have images of different sizes. Put together images of one size.")
    checks, onlys, unexplained = (given([getattr(part, name) for part in parts]) for name in ("check", "only", "unexplained"))
    spans, sources = given([part.spans for part in parts]), given([part.sources for part in parts])
    return replace(
        first,
        weights=torch.cat([wide(part.weights, d) for part in parts]),
        probs=torch.cat([part.probs for part in parts]),
        present=torch.cat([wide(part.present, d) for part in parts]),
        values=np.concatenate([padded(part.values, d, "") for part in parts]),
        check=None if checks is None else one_check(checks),
        spans=None if spans is None else np.concatenate([padded(each, d, 0) for each in spans]),
        sources=None if sources is None else tuple(text for each in sources for text in each),
        unexplained=None if unexplained is None else np.concatenate(unexplained),
        images=None if images is None else np.concatenate(images),
        regions=one_map(parts),
        trials=one_trial_each(parts),
        about=one_about([part.about for part in parts]),
        pairs=all_pairs(parts, d),
        only=None if onlys is None else torch.cat(onlys),
    )


def given(values: Sequence[T | None]) -> list[T] | None:
    """The values if all are there."""
    there = [each for each in values if each is not None]
    return there if len(there) == len(values) else None


def wide(values: Tensor, d: int) -> Tensor:
    """Room for d features."""
    more = values.new_zeros(len(values), d - values.shape[1], *values.shape[2:])
    return torch.cat([values, more], 1)


def padded(values: np.ndarray, d: int, nothing: object) -> np.ndarray:
    """Room for d features, with what stands for one that is not there."""
    more = np.full((len(values), d - values.shape[1], *values.shape[2:]), nothing, dtype=values.dtype)
    return np.concatenate([values, more], 1)


def all_pairs(parts: Sequence[Explanation], d: int) -> Pairs | None:
    """What features say in twos, if all parts tell."""
    found = given([part.pairs for part in parts])
    return None if found is None else Pairs.joined([Pairs(wide(each.parts, d), each.forms) for each in found])


def one_check(checks: Sequence[Check]) -> Check | None:
    """The check of all rows, if all were checked by as many masks."""
    if len({each.masks for each in checks}) > 1:
        return None
    agreement, without = (torch.cat([getattr(each, name) for each in checks]) for name in ("agreement", "without"))
    return Check(agreement, without, checks[0].masks)


def one_map(parts: Sequence[Explanation]) -> np.ndarray | None:
    """The regions: one map if all rows share it, else one for each row."""
    maps = given([part.regions for part in parts])
    if maps is None:
        return None
    if all(len(each) == 1 and np.array_equal(each, maps[0]) for each in maps):
        return maps[0]
    rows = [each if len(each) == len(part) else np.repeat(each, len(part), 0) for each, part in zip(maps, parts, strict=True)]
    return np.concatenate(rows)


def one_trial_each(parts: Sequence[Explanation]) -> tuple[Trial, ...]:
    """The trials of all rows, if the same were made of all."""
    if len({tuple(trial.k for trial in part.trials) for part in parts}) > 1:
        return ()
    out = []
    for trials in zip(*(part.trials for part in parts), strict=True):
        kept, rest = (torch.cat([getattr(each, name) for each in trials]) for name in ("kept", "rest"))
        images = [given([getattr(each, name) for each in trials]) for name in ("kept_images", "rest_images")]
        out.append(Trial(trials[0].k, kept, rest, *(None if each is None else np.concatenate(each) for each in images)))
    return tuple(out)


def one_about(abouts: Sequence[About | None]) -> About | None:
    """What made all parts, if it was one explainer; the questions are added up."""
    there = given(abouts)
    if there is None or any(replace(each, queries=0, explained=0) != replace(there[0], queries=0, explained=0) for each in there):
        return None
    return replace(there[0], queries=sum(a.queries for a in there), explained=sum(a.explained for a in there))
