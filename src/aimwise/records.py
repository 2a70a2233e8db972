"""Explanations as JSON text, and back; arrays of images are base64 of their bytes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aimwise.errors import BadFile
from aimwise.explanation import About, Check, Explanation, Training, Trial
from aimwise.pairs import Pairs

NAME, FORMAT = "aimwise-explanation", 4
KNOWN = 3, FORMAT  # the third knew no pairs


def to_text(explanation: Explanation) -> str:
    """The whole record as JSON text."""
    e, check = explanation, explanation.check
    record = {
        "format": NAME,
        "version": FORMAT,
        "method": e.method,
        "names": None if e.names is None else list(e.names),
        "classes": list(e.classes),
        "base": e.base.tolist(),
        "probs": e.probs.tolist(),
        "present": e.present.tolist(),
        "values": [[json_value(v) for v in row] for row in e.values.tolist()],
        "weights": e.weights.tolist(),
        "spans": None if e.spans is None else e.spans.tolist(),
        "sources": None if e.sources is None else list(e.sources),
        "unexplained": None if e.unexplained is None else e.unexplained.tolist(),
        "scores": e.scores,
        "pairs": None
        if e.pairs is None
        else {"parts": packed(e.pairs.parts.numpy(), np.float32), "forms": packed(e.pairs.forms.numpy(), np.float32)},
        "only": None if e.only is None else e.only.tolist(),
        "images": packed(e.images, np.uint8),
        "regions": packed(e.regions, np.int32),
        "check": None
        if check is None
        else {"agreement": check.agreement.tolist(), "without": check.without.tolist(), "masks": check.masks},
        "trials": [
            {
                "k": trial.k,
                "kept": trial.kept.tolist(),
                "rest": trial.rest.tolist(),
                "kept_images": packed(trial.kept_images, np.uint8),
                "rest_images": packed(trial.rest_images, np.uint8),
            }
            for trial in e.trials
        ],
        "about": None if e.about is None else finite(asdict(e.about)),
    }
    return json.dumps(record, allow_nan=False)


def from_text(text: str | Path) -> Explanation:
    """The record that `to_text` made, from its text or from a file's path."""
    try:
        path = Path(text) if isinstance(text, Path) or not text.lstrip().startswith(("{", "[")) else None
        record = json.loads(path.read_text(encoding="utf-8") if path is not None else str(text))
        if record["format"] != NAME or record["version"] not in KNOWN:
            raise BadFile(
                f"Got format {record['format']} version {record['version']}, wanted {NAME} {' or '.join(map(str, KNOWN))}."
            )
        return rebuilt(record)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, AttributeError) as e:
        raise BadFile(f"This is not an explanation written by to_json ({type(e).__name__}: {e}).") from e


def rebuilt(record: Mapping[str, Any]) -> Explanation:
    """The explanation that a record describes."""
    rows, c, names = len(record["probs"]), len(record["classes"]), record["names"]
    d = len(names) if names is not None else len(record["present"][0]) if rows else 1
    values = np.empty((rows, d), dtype=object)
    if [len(row) for row in record["values"]] != [d] * rows:
        raise BadFile(f"The values are not a table of shape {(rows, d)}.")
    values[:] = record["values"] if rows else values
    check, about = record["check"], record["about"]
    return Explanation(
        weights=torch.tensor(record["weights"], dtype=torch.float32).reshape(rows, d, c),
        probs=torch.tensor(record["probs"], dtype=torch.float32).reshape(rows, c),
        base=torch.tensor(record["base"], dtype=torch.float32),
        present=torch.tensor(record["present"], dtype=torch.bool).reshape(rows, d),
        names=None if names is None else tuple(names),
        spans=None if record["spans"] is None else np.array(record["spans"], dtype=np.int64).reshape(rows, d, 2),
        sources=None if record["sources"] is None else tuple(map(str, record["sources"])),
        unexplained=None if record["unexplained"] is None else np.array(record["unexplained"], dtype=np.int64),
        images=unpacked(record["images"], np.uint8),
        regions=unpacked(record["regions"], np.int32),
        scores=bool(record["scores"]),
        pairs=None if record.get("pairs") is None else told_pairs(record["pairs"]),
        only=None if record.get("only") is None else torch.tensor(record["only"], dtype=torch.int64),
        values=values,
        classes=tuple(record["classes"]),
        method=record["method"],
        check=None if check is None else Check(torch.tensor(check["agreement"]), torch.tensor(check["without"]), check["masks"]),
        trials=tuple(
            Trial(
                int(trial["k"]),
                torch.tensor(trial["kept"], dtype=torch.float32).reshape(rows, c),
                torch.tensor(trial["rest"], dtype=torch.float32).reshape(rows, c),
                unpacked(trial["kept_images"], np.uint8),
                unpacked(trial["rest_images"], np.uint8),
            )
            for trial in record["trials"]
        ),
        about=None if about is None else told(about),
    )


def told_pairs(record: Mapping[str, Any]) -> Pairs:
    """What features say in twos, as its record says."""
    parts, forms = (unpacked(record[name], np.float32) for name in ("parts", "forms"))
    return Pairs(torch.from_numpy(parts), torch.from_numpy(forms))


def told(record: Mapping[str, Any]) -> About:
    """What made an explanation, as its record says."""
    training = record["training"]
    if training is not None:
        history = tuple({k: math.nan if v is None else v for k, v in epoch.items()} for epoch in training["history"])
        training = Training(history, int(training["best"]), str(training["stopped"]))
    return About(**{**record, "training": training})


def finite(value: Any) -> Any:
    """Plain data without numbers that JSON does not know; they become null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def packed(values: np.ndarray | None, dtype: type) -> dict[str, Any] | None:
    """An array as its shape and the base64 of its bytes."""
    if values is None:
        return None
    data = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"shape": list(data.shape), "base64": base64.b64encode(data.tobytes()).decode("ascii")}


def unpacked(record: Mapping[str, Any] | None, dtype: type) -> np.ndarray | None:
    """The array that `packed` took."""
    if record is None:
        return None
    shape = [int(n) for n in record["shape"]]
    data = base64.b64decode(record["base64"], validate=True)
    kind = np.dtype(dtype).newbyteorder("<")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(data):
        raise BadFile(f"{len(data)} bytes are not an array of shape {shape}.")
    return np.frombuffer(data, dtype=kind).reshape(shape).astype(dtype)


def json_value(value: Any) -> Any:
    """A cell as JSON knows it: numbers, strings, booleans, null; everything else as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
