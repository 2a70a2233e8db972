"""What a cell is: plain facts that determine its result, and the name that follows from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from aimwise.errors import BadSetting
from aimwise.explainers.base import Explainer

Facts = dict[str, Any]


def fingerprint(cell: Mapping[str, Any]) -> str:
    """The sha256 of a cell's facts as canonical JSON: sorted names, no blanks, no NaN."""
    try:
        said = json.dumps(cell, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise BadSetting(f"A cell's facts must be plain JSON values ({e}), got {dict(cell)}.") from e
    return hashlib.sha256(said.encode()).hexdigest()


def settings_of(explainer: Explainer) -> Facts:
    """The settings of a method that determine what it finds: all but where it runs."""
    return {f.name: getattr(explainer, f.name) for f in fields(explainer) if f.name != "device"}


def holds(record: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether all these facts are true of a record."""
    return all(name in record and record[name] == value for name, value in facts.items())


def mean_of(records: Sequence[Facts], name: str) -> str:
    """The mean of a figure over the records that have it, as text; empty where none has."""
    values = [record[name] for record in records if name in record]
    return f"{sum(values) / len(values):.2f}" if values else ""
