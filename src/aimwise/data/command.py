"""What `aimwise data` does: what data sets there are, which are here, whether they are right, and networks trained on them."""

from __future__ import annotations

import argparse
import time
from typing import Any

from aimwise.data import zoo
from aimwise.data.catalog import CATALOG, Entry, entry, here
from aimwise.data.store import VARIABLE, cache, checked, given
from aimwise.errors import MissingData


def show(options: argparse.Namespace) -> int:
    """Print every data set with where it lies, its size and what it is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("name", "left"), ("here", "left"), ("size", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what it is")
    for name, made in CATALOG.items():
        table.add_row(name, where(made), megabytes(made), made.about)
    console = terminal()
    console.print(table)
    downloads = ", ".join(name for name, made in CATALOG.items() if any(file.sources for file in made.files))
    console.print(f"env: {given() or 'not set'} ({VARIABLE}); cache: {cache()}", style="dim", soft_wrap=True)
    console.print(f"`aimwise data get` downloads {downloads}, and says where the others are published.", style="dim")
    return 0


def get(options: argparse.Namespace) -> int:
    """Download a data set, or say that it is here."""
    from aimwise.data.download import get as download

    made = entry(options.name)
    new = download(options.name)
    console = terminal()
    if not made.files:
        console.print(f"{options.name} needs no file: it comes with {made.home}.", soft_wrap=True)
        return 0
    for path in new:
        console.print(f"downloaded and checked: {path}", soft_wrap=True)
    if not new:
        paths = [str(path) for file in made.files for path, _ in here(made.folder, file)]
        console.print(f"{options.name} is already here: {', '.join(paths)}", soft_wrap=True)
    return 0


def check(options: argparse.Namespace) -> int:
    """Print for each file that is here whether its checksum is right; 1 if one is not, or a data set asked for is not here."""
    chosen = {options.name: entry(options.name)} if options.name else {made.folder: made for made in CATALOG.values()}
    console, bad = terminal(), False
    for name, made in chosen.items():
        found = [pair for file in made.files for pair in here(made.folder, file)]
        for path, digest in found:
            try:
                checked(path, digest)
                console.print(f"ok       {path}", soft_wrap=True)
            except MissingData as e:
                bad = True
                console.print(f"bad      {e}", soft_wrap=True)
        if not made.files or not all(here(made.folder, file) for file in made.files):
            console.print(f"{where(made):<8} {name}", soft_wrap=True)
        if options.name and made.files and not found:
            raise MissingData(f"{name!r} is not on this machine, so there is nothing to check. Run: aimwise data get {name}")
    return int(bad)


def train(options: argparse.Namespace) -> int:
    """Train a network, or read it, and print how good it is and where it lies; 130 if Ctrl-C ended the training early."""
    started = time.perf_counter()
    done = zoo.kept(
        options.name, seed=options.seed, device=options.device, epochs=options.epochs, out=options.out, again=options.again
    )
    seconds, network = time.perf_counter() - started, done.network
    stopped = done.new and network.stopped == "interrupted"
    epochs = f"{network.epochs} epoch{'s' * (network.epochs != 1)}"
    if done.new:
        how = f"{'stopped after' if stopped else 'trained for'} {epochs} in {seconds:.0f} s"
    else:
        how = f"already trained for {epochs}; --again trains it anew"
    console = terminal()
    console.print(f"{network.data}: {network.network} of seed {network.seed}, {how}", soft_wrap=True)
    console.print(f"accuracy: {100 * network.accuracy:.1f} % on dev, {100 * network.test_accuracy:.1f} % on test")
    console.print(f"saved: {done.path}", soft_wrap=True)
    return 130 if stopped else 0


def where(made: Entry) -> str:
    """Where a data set lies: embedded, env, cache, env and cache, absent, or how many of its files are here."""
    if not made.files:
        return "embedded"
    found = [here(made.folder, file) for file in made.files]
    if not any(found):
        return "absent"
    if not all(found):
        return f"{sum(map(bool, found))} of {len(found)} files"
    in_cache = {path.is_relative_to(cache()) for paths in found for path, _ in paths}
    return " and ".join({False: "env", True: "cache"}[place] for place in sorted(in_cache))


def megabytes(made: Entry) -> str:
    """The size of a data set's files: of those here, or else of those that would be downloaded or put here."""
    size = 0
    for file in made.files:
        paths = here(made.folder, file)
        if paths:
            size += sum(path.stat().st_size for path, _ in paths)
        else:
            size += sum(source.size for source in file.sources) or file.size
    return f"{size / 1e6:.2f} MB" if size else "-"


def terminal() -> Any:
    """Where results are printed, names and paths left as they are."""
    from rich.console import Console

    return Console(highlight=False, markup=False)
