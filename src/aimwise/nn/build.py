"""Which networks read which features: E, S and G for every kind of features and every reading of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from aimwise.errors import unknown
from aimwise.nn import image, table, text


@dataclass(frozen=True)
class Family:
    """How to build E, S and G for one kind of features."""

    explainer: Callable[..., nn.Module]
    selector: Callable[[Any], nn.Module]
    approximator: Callable[[Any, int], nn.Module]
    looks: bool = False
    """Whether E takes, as a third number, how many numbers the black box shows of each feature, and then those numbers."""
    paired: bool = False
    """Whether E takes, as a third number, how many numbers of each feature tell what features say in twos: see `weighed`."""


NETWORKS: dict[tuple[str, str], Family] = {
    ("table", "default"): Family(table.TableExplainer, table.TableSelector, table.TableApproximator),
    ("table", "paper"): Family(table.PlainTableExplainer, table.TableSelector, table.TableApproximator),
    ("table", "released"): Family(table.CellExplainer, table.CellSelector, table.CellApproximator),
    ("text", "default"): Family(text.TextExplainer, text.TextSelector, text.TextApproximator, looks=True),
    ("text", "paper"): Family(text.PlainTextExplainer, text.TextSelector, text.TextApproximator),
    ("text", "released"): Family(text.PlainTextExplainer, text.TextSelector, text.TextApproximator),
    ("image", "default"): Family(image.ImageExplainer, image.ImageSelector, image.ImageApproximator, paired=True),
    ("image", "paper"): Family(image.PlainImageExplainer, image.ImageSelector, image.ImageApproximator),
    ("image", "released"): Family(image.PlainImageExplainer, image.ImageSelector, image.ImageApproximator),
}


def family(kind: str, networks: str) -> Family:
    """The networks for one kind of features, by the name of the reading."""
    known = [name for k, name in NETWORKS if k == kind]
    if networks not in known:
        raise unknown(f"networks for {kind}", networks, known)
    return NETWORKS[kind, networks]
