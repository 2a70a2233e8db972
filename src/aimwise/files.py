"""Files that are written whole or not at all, and read without running anything."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from aimwise.errors import BadFile


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside the wanted one, bring it to disk, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    beside = Path(name)
    try:
        write(beside)
        with open(beside, "rb+") as f:
            os.fsync(f.fileno())
        os.chmod(beside, 0o666 & ~umask())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""

    def write(beside: Path) -> None:
        beside.write_text(text, encoding="utf-8")

    write_whole(path, write)


def umask() -> int:
    """The process's file mode mask."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_folder(path: Path, write: Callable[[Path], None], marker: str) -> None:
    """Let `write` fill a new folder, then put it in place of an older one that holds the marker file."""
    if path.exists() and not (path.is_dir() and (path / marker).is_file()) and not is_empty_folder(path):
        raise BadFile(f"{path} exists and is not one that was saved before. Choose another name or remove it first.")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        write(new)
        os.chmod(new, 0o777 & ~umask())
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            os.replace(path, old / path.name)
            os.replace(new, path)
            shutil.rmtree(old)
        else:
            os.replace(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def is_empty_folder(path: Path) -> bool:
    """Whether there is a folder and nothing in it."""
    return path.is_dir() and not any(path.iterdir())


def sha256(path: Path) -> str:
    """The checksum of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_json(path: Path) -> Any:
    """A JSON file, or an error that says what is wrong with it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as e:
        raise BadFile(f"{path} is not readable JSON ({type(e).__name__}: {e}). It is damaged or not one of ours.") from e


def write_json(path: Path, value: Any) -> None:
    """A value as readable JSON."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Tensors by name in the safetensors format."""
    from safetensors.torch import save_file

    save_file({name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}, path, metadata=metadata)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, and the strings stored with them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as f:
            return {name: f.get_tensor(name) for name in f.keys()}, f.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as e:
        raise BadFile(f"{path} is not a readable safetensors file ({e}). It is damaged, cut off or not one of ours.") from e
