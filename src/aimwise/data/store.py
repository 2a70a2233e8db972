"""Where the files of data sets lie, and whether they are the right ones."""

from __future__ import annotations

import os
from pathlib import Path

from aimwise.errors import MissingData
from aimwise.files import sha256

VARIABLE = "AIMWISE_DATA"


def home() -> Path:
    """The user's folder of what can be downloaded or made again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    caches = Path(base) if os.path.isabs(base) else Path.home() / ".cache"  # XDG: a relative path counts as not set
    return caches / "aimwise"


def cache() -> Path:
    """The user's folder of data sets."""
    return home() / "data"


def given() -> Path | None:
    """The folder of data sets that AIMWISE_DATA names, if it is set."""
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise MissingData(
            f"{VARIABLE} is set to {value!r}, which is not a folder; wanted a folder of data sets, each a folder of its own. "
            f"Set {VARIABLE} to such a folder, or unset it to use {cache()}."
        )
    return folder


def places(dataset: str, file: str) -> list[Path]:
    """Where a data set's file may lie, AIMWISE_DATA before the cache."""
    return [folder / dataset / file for folder in (given(), cache()) if folder is not None]


def locate(dataset: str, file: str) -> Path | None:
    """Where a data set's file lies, if it does."""
    return next((place for place in places(dataset, file) if place.is_file()), None)


def find(dataset: str, file: str, digest: str, *, hint: str = "") -> Path:
    """The path of a data set's file with this sha256, from AIMWISE_DATA or else the cache."""
    place = locate(dataset, file)
    if place is not None:
        return checked(place, digest)
    unset = "" if given() else f" ({VARIABLE} is not set)"
    raise MissingData(
        f"The data set {dataset!r} is not on this machine; looked for {' and '.join(map(str, places(dataset, file)))}{unset}. "
        f"Put the file {file!r} with sha256 {digest} at {cache() / dataset / file}, or set {VARIABLE} to a folder of data sets "
        f"that holds {dataset}/{file}.{hint}"
    )


def checked(place: Path, digest: str) -> Path:
    """The path, if the file there has this sha256."""
    try:
        found = sha256(place)
    except OSError as e:
        raise MissingData(f"{place} cannot be read ({e}); wanted a file with sha256 {digest}. Make it readable.") from e
    if found != digest:
        raise MissingData(
            f"{place} has sha256 {found}, wanted {digest}. It is damaged or another version: replace it, or remove it."
        )
    return place
