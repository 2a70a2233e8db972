"""Files from their publishers: resumed where they were cut off, and put in place only once their bytes are the right ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from aimwise.data.catalog import File, Source, by_hand, entry, here
from aimwise.data.store import cache, checked, locate
from aimwise.errors import MissingData
from aimwise.files import sha256
from aimwise.progress import bar

BLOCK = 1 << 16
TIMEOUT = 30.0


def get(name: str) -> list[Path]:
    """Bring a data set here from its publisher, and give the paths of what was downloaded: none if all was here."""
    made = entry(name)
    if any(not file.sources and not here(made.folder, file) for file in made.files):
        raise by_hand(name)
    return [path for file in made.files for path in get_file(made.folder, file)]


def get_file(folder: str, file: File) -> list[Path]:
    """Bring one file's sources into the cache, unless it or they themselves are here and right."""
    copy = locate(folder, file.name)
    if copy is not None:
        checked(copy, file.sha256)
        return []
    return [cache() / folder / source.name for source in file.sources if get_source(folder, source)]


def get_source(folder: str, source: Source) -> bool:
    """Bring one publisher's file into the cache; False if it was here, and a damaged one of the cache is replaced."""
    place, found = cache() / folder / source.name, locate(folder, source.name)
    if found is not None and found != place:
        checked(found, source.sha256)
        return False
    try:
        if found is not None and sha256(found) == source.sha256:
            return False
        fetch(source, place)
    except OSError as e:
        raise MissingData(f"{place} cannot be written ({e}); wanted room for {source.size:,} bytes. Make it writable.") from e
    return True


def fetch(source: Source, place: Path) -> None:
    """Download a file beside its place, going on from the part that is there, and move it into place once it is right."""
    part = place.with_name(f"{place.name}.part")
    place.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.is_file() else 0
    if have != source.size:
        receive(source, part, have if have < source.size else 0)
    found = sha256(part)
    if found != source.sha256:
        part.unlink()
        raise MissingData(
            f"{source.url} gave {source.size:,} bytes with sha256 {found}, wanted {source.sha256}; they were removed. "
            "Run it again; if it stays so, the publisher has changed the file."
        )
    os.replace(part, place)


def receive(source: Source, part: Path, have: int) -> None:
    """Fill the part file up to the source's size, keeping its first `have` bytes if the server can go on from there."""
    with opened(source, have) as (answer, start), open(part, "ab" if start else "wb") as f:
        left, why = source.size - start, "the server ended it"
        with bar(source.size, source.name, unit="B", start=start) as shown:
            while left:
                try:
                    block = answer.read(min(BLOCK, left))
                except (OSError, HTTPException) as e:
                    block, why = b"", f"{type(e).__name__}: {e}"
                if not block:
                    break
                f.write(block)
                shown.update(len(block))
                left -= len(block)
        f.flush()
        os.fsync(f.fileno())
    if left:
        raise MissingData(
            f"The download of {source.url} was cut off after {source.size - left:,} of {source.size:,} bytes ({why}); "
            f"the part is kept at {part}. Run it again to go on from there."
        )


@contextmanager
def opened(source: Source, have: int) -> Iterator[tuple[Any, int]]:
    """The server's answer and the byte it starts at, which is `have` or, from servers that do not resume, 0."""
    headers = {"User-Agent": "aimwise", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(Request(source.url, headers=headers), timeout=TIMEOUT)
    except HTTPError as e:
        e.close()
        if not (have and e.code == 416):
            raise MissingData(
                f"{source.url} answered {e.code} {e.reason}, wanted a file of {source.size:,} bytes. Try again later; "
                "if it stays so, the publisher has moved the file."
            ) from e
        answer = None  # the server refuses the range
    except (OSError, HTTPException) as e:
        raise MissingData(
            f"{source.url} cannot be reached ({getattr(e, 'reason', e)}), wanted a file of {source.size:,} bytes. "
            "Check the network and run it again; a proxy is taken from the variable https_proxy."
        ) from e
    if answer is not None:
        with answer:
            start = have if answer.status == 206 else 0
            span = answer.headers.get("Content-Range", "").partition("/")[0]
            if not start or span == f"bytes {start}-{source.size - 1}":
                yield checked_length(source, answer, start), start
                return
    with opened(source, 0) as whole:
        yield whole


def checked_length(source: Source, answer: Any, start: int) -> Any:
    """The answer, if it does not announce another length than is wanted."""
    length = answer.headers.get("Content-Length")
    if length is not None and length != str(source.size - start):
        raise MissingData(
            f"{source.url} offers {length} bytes, wanted {source.size - start}. The publisher has changed the file, or something "
            "between here and there answers in its place: look at the address in a browser."
        )
    return answer
