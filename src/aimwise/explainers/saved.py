"""Explainers on disk: a folder with config.json and weights.safetensors. Nothing is pickled, and no model is stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aimwise.blackbox import as_blackbox
from aimwise.device import available_device
from aimwise.errors import AimwiseError, BadBlackBox, BadFile
from aimwise.explainers import METHODS
from aimwise.explainers.base import Explainer
from aimwise.features import FEATURES
from aimwise.files import load_tensors, read_json, save_tensors, sha256, write_folder, write_json
from aimwise.masked import Masked
from aimwise.training import taken

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
FORMAT, VERSION = "aimwise-explainer", 1


def save(explainer: Explainer, path: Path) -> Path:
    """Write an explainer as a folder, whole or not at all."""
    features = explainer.box_.features
    facts, learned = explainer._learned()
    tensors = {"base": explainer.base_}
    tensors |= {f"features.{k}": v for k, v in features.tensors().items()}
    tensors |= {f"method.{k}": v for k, v in learned.items()}
    kinds = {cls: name for name, cls in FEATURES.items()}
    config = {
        "format": FORMAT,
        "version": VERSION,
        "method": explainer.method,
        "settings": explainer.get_params(),
        "classes": list(explainer.classes_),
        "named_by_user": explainer.named_,
        "output": explainer.box_.blackbox.output,
        "seed": explainer.seed_,
        "rows": explainer.fitted_on_,
        "queries": explainer.queries_,
        "fit_seconds": explainer.fit_seconds_,
        "features": {"kind": kinds[type(features)], **features.config()},
        "learned": facts,
    }

    def write(folder: Path) -> None:
        save_tensors(folder / WEIGHTS, tensors)
        try:
            refuse_other_than_json(config)
            write_json(folder / CONFIG, config | {"sha256": sha256(folder / WEIGHTS)})
        except (TypeError, ValueError) as e:
            raise BadFile(
                f"This explainer cannot be written as JSON ({e}). Categories must be strings, numbers or booleans: "
                "convert such columns with .astype(str) and fit again."
            ) from e

    write_folder(path, write, CONFIG)
    return path


def refuse_other_than_json(value: Any) -> None:
    """Raise for values that would not come back from JSON as they were, tuples included."""
    if isinstance(value, dict):
        for part in value.values():
            refuse_other_than_json(part)
    elif isinstance(value, list):
        for part in value:
            refuse_other_than_json(part)
    elif not isinstance(value, str | int | float | bool | None):
        raise TypeError(f"got {value!r} of type {type(value).__name__}")


def load(path: str | Path, model: Any) -> Explainer:
    """Read a saved explainer and give it back the model it explains."""
    folder = Path(path)
    if not folder.is_dir():
        raise BadFile(f"{folder} is not a folder. Pass the folder that save() wrote.")
    config = read_json(folder / CONFIG)
    check_header(folder, config)
    if not (folder / WEIGHTS).is_file() or sha256(folder / WEIGHTS) != config.get("sha256"):
        raise BadFile(
            f"{folder / WEIGHTS} is missing or is not the file that {CONFIG} was written with. Save the explainer again."
        )
    tensors, _ = load_tensors(folder / WEIGHTS)
    box = as_blackbox(model)
    try:
        return rebuilt(config, tensors, box)
    except BadBlackBox:
        raise
    except AimwiseError as e:
        raise BadFile(f"{folder} is damaged: {e}") from e
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError, AttributeError) as e:
        raise BadFile(f"{folder} is damaged ({type(e).__name__}: {e}). Save the explainer again.") from e


def check_header(folder: Path, config: Any) -> None:
    """Refuse what is not ours, or of another version."""
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BadFile(f"{folder / CONFIG} was not written by aimwise. Pass the folder that save() wrote.")
    if config.get("version") != VERSION:
        age = "an older" if isinstance(config.get("version"), int) and config["version"] < VERSION else "a newer or unknown"
        raise BadFile(
            f"{folder} has format version {config.get('version')!r}, {age} one; this aimwise reads version {VERSION}. "
            "Fit and save the explainer again, or use the aimwise that wrote it."
        )
    if config.get("method") not in METHODS:
        raise BadFile(f"{folder} holds the method {config.get('method')!r}; known here: {', '.join(METHODS)}.")


def rebuilt(config: Mapping[str, Any], tensors: Mapping[str, Tensor], blackbox: Any) -> Explainer:
    """The explainer that a folder describes."""
    explainer = METHODS[config["method"]](**config["settings"])
    kept = config["features"]
    features = FEATURES[kept["kind"]].restore(kept, taken(tensors, "features."))
    blackbox.output = config["output"] if blackbox.output == "auto" else blackbox.output
    box = Masked(blackbox, features)
    explainer.base_ = tensors["base"].to(available_device(explainer.device))
    explainer.named_ = bool(config["named_by_user"])
    explainer.classes_, explainer.seed_ = tuple(map(str, config["classes"])), int(config["seed"])
    explainer.queries_, explainer.fit_seconds_ = int(config["queries"]), float(config["fit_seconds"])
    rows = config.get("rows")  # not known of folders of the first versions
    explainer.fitted_on_ = None if rows is None else int(rows)
    if explainer.base_.shape != torch.Size([len(explainer.classes_)]):
        raise BadFile(f"{len(explainer.classes_)} classes but a base of shape {tuple(explainer.base_.shape)}.")
    own = blackbox.class_names
    if own is not None and own != explainer.classes_ and not explainer.named_:
        raise BadBlackBox(
            f"The black box has the classes {', '.join(own)}, the explainer was fitted for {', '.join(explainer.classes_)}. "
            "Hand over the model it was fitted on."
        )
    explainer._restore(box, config["learned"], taken(tensors, "method."))
    explainer.box_ = box
    return explainer
