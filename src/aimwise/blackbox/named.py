"""Black boxes by name: package.module:object, hf:FOLDER, onnx:FILE or an http address."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aimwise.blackbox import as_blackbox
from aimwise.blackbox.base import BlackBox
from aimwise.blackbox.http import HttpBox
from aimwise.blackbox.onnx import OnnxBox
from aimwise.blackbox.text import TextBox
from aimwise.errors import BadBlackBox, BadFile, BadSetting, UnknownName, extra, unknown

RUNS_CODE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt", ".dill", ".npy")
FORMS = "package.module:object, hf:FOLDER, onnx:FILE, http://... or https://..."
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Asking:
    """How a model that was named is asked.

    batch_size: how many inputs at once (what suits the kind of model). headers: name -> "env:VARIABLE", for http alone.
    """

    class_names: Sequence[str] | None = None
    batch_size: int | None = None
    timeout: float = 30.0
    retries: int = 3
    headers: Mapping[str, str] = field(default_factory=dict)


def by_name(name: str, *, asking: Asking | None = None, folder: Path | None = None) -> BlackBox:
    """The model that a name stands for. folder: where packages are looked for first, by default the current one."""
    asking = asking or Asking()
    if name.startswith(("http://", "https://")):
        return HttpBox(
            name,
            batch_size=asking.batch_size or 256,
            timeout=asking.timeout,
            retries=asking.retries,
            headers=from_environment(asking.headers),
            class_names=asking.class_names,
        )
    if asking.headers:
        raise BadSetting(f"A header goes to an http address, and the model is {name!r}.")
    kind, _, place = name.partition(":")
    if kind == "onnx" and place:
        return OnnxBox(refuse_code(place), class_names=asking.class_names, batch_size=asking.batch_size or 1024)
    if kind == "hf" and place:
        return resized(of_folder(Path(place), asking.class_names), asking)
    refuse_code(name)
    if not kind or not place:
        raise BadSetting(f"Got the model {name!r}, wanted {FORMS}.")
    found = found_object(kind, place, folder or Path.cwd())
    return resized(as_blackbox(found, class_names=asking.class_names), asking)


def resized(box: BlackBox, asking: Asking) -> BlackBox:
    """The box, asked about as many inputs at once as was wanted."""
    if asking.batch_size is not None:
        box.rows_per_call = asking.batch_size
    return box


def refuse_code(name: str) -> str:
    """The name itself, or an error if it is a file that runs code when it is opened."""
    if name.lower().endswith(RUNS_CODE):
        raise BadBlackBox(
            f"{name} is a pickle or may hold one, and opening it would run whatever code is inside. Name the model from a module "
            "of yours that loads it (package.module:object), or use onnx:FILE, hf:FOLDER with safetensors, or an http address."
        )
    return name


def found_object(module: str, path: str, folder: Path) -> Any:
    """An object in a module; a name that ends in () is called without arguments."""
    if "/" in module or module.endswith(".py"):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise BadSetting(f"Got the file {module!r}, wanted a module's name. Write {dotted}:{path}.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name is not None and (module == e.name or module.startswith(e.name + ".")):
            raise UnknownName(
                f"There is no module {e.name!r}, neither installed nor in {folder}. Run where the package lies, or install it."
            ) from e
        raise BadBlackBox(f"The module {module!r} needs {e.name!r}, which is not installed.") from e
    except Exception as e:
        raise BadBlackBox(f"The module {module!r} raised {type(e).__name__} when it was imported: {e}.") from e
    called = path.endswith("()")
    for part in path.removesuffix("()").split("."):
        if not hasattr(found, part):
            known = [n for n, v in vars(found).items() if not n.startswith("_") and not inspect.ismodule(v)]
            raise unknown(f"object in {module}:", part, known[:20])
        found = getattr(found, part)
    return result_of(found, f"{module}:{path}") if called else used(found, f"{module}:{path}")


def result_of(make: Any, name: str) -> Any:
    """What a function without arguments makes."""
    if not callable(make):
        raise BadBlackBox(f"{name} is called, but it is {type(make).__name__}. Leave the brackets out.")
    try:
        made = make()
    except Exception as e:
        raise BadBlackBox(f"{name} raised {type(e).__name__}: {e}.") from e
    return used(made, name)


def used(found: Any, name: str) -> Any:
    """The object itself, or an error if it must be called before it is a model."""
    how = f"Write {name}() if it needs no arguments, or make the model in the module and name that."
    if inspect.isclass(found):
        raise BadBlackBox(f"{name} is a class, wanted a model made from it. {how}")
    if inspect.ismodule(found):
        raise BadBlackBox(f"{name} is a module, wanted a model in it: {name}.object.")
    if inspect.isfunction(found):
        takes = [p for p in inspect.signature(found).parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        if not takes:
            raise BadBlackBox(f"{name} is a function without arguments, wanted one of inputs -> (n, C) probabilities. {how}")
    return found


def of_folder(folder: Path, class_names: Sequence[str] | None) -> TextBox:
    """A classifier of texts and its tokenizer from a folder that `save_pretrained` wrote; no code and no network is used."""
    if not (folder / "config.json").is_file():
        raise BadFile(f"{folder} is not a folder of transformers: it has no config.json. Pass what save_pretrained wrote.")
    if not any((folder / name).is_file() for name in WEIGHTS):
        raise BadFile(
            f"{folder} has no model.safetensors, and other files of weights may run code when they are opened. Write it again: "
            "model.save_pretrained(folder, safe_serialization=True)."
        )
    transformers = extra("transformers", "text")
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True, **safe)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as e:
        said = " ".join(str(e).split())[:300]
        raise BadFile(f"{folder} does not hold a text classifier with its tokenizer ({type(e).__name__}: {said}).") from e
    return TextBox(model.eval(), tokenizer, class_names=class_names)


def from_environment(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their values read from the environment, where they are not seen by others."""
    found = {}
    for name, value in headers.items():
        variable = value.removeprefix("env:")
        if variable == value or not variable:
            raise BadSetting(
                f"Got the header {name}={value!r}, wanted {name}=env:VARIABLE, so that its value is written nowhere."
            )
        if variable not in os.environ:
            raise BadSetting(f"The header {name} takes its value from ${variable}, which is not set.")
        found[name] = os.environ[variable]
    return found
