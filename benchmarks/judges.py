"""EVAL-X's judges: one for each data set, trained once and kept beside the black boxes, so that all methods face the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aimwise.data.store import home
from aimwise.device import repeatable, resolve_device
from aimwise.files import load_tensors, save_tensors, write_whole
from aimwise.masked import Masked
from aimwise.metrics.leakage import Predictor
from aimwise.nn.build import family
from aimwise.scores.evaluate import trained_judge
from aimwise.study.locks import made_once

LEARNED = 10_000  # training inputs that a judge learns from


def kept_judge(name: str, box: Masked, train: Any) -> Predictor:
    """The judge of that name, from the cache or else trained and put there; of several processes one trains it."""
    file = home() / "judges" / f"{name}.safetensors"

    def make() -> None:
        with repeatable(resolve_device("auto")):  # another machine's judge is the same one
            keep(trained_judge(box, train[:LEARNED], 0), file)

    made_once(file, make)
    tensors, facts = load_tensors(file)
    net = family(box.features.kind, "default").approximator(box.features.layout, len(box.classes()))
    net.load_state_dict(tensors)
    return Predictor(net.to(resolve_device("auto")).eval(), float(facts["agreement"]))


def keep(judge: Predictor, file: Path) -> None:
    """Write a judge to a file."""
    facts = {"agreement": str(judge.agreement)}
    write_whole(file, lambda path: save_tensors(path, judge.net.state_dict(), facts))
