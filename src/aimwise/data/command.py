"""The command `aimwise data`: what data sets there are, which are here, whether they are right, and networks trained on them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from aimwise.data import zoo
from aimwise.data.catalog import CATALOG, Entry, entry, here
from aimwise.data.store import VARIABLE, cache, checked, given
from aimwise.errors import MissingData

EXAMPLES = f"""examples:
  aimwise data list              what there is, and where it lies on this machine
  aimwise data get adult         download it into the cache; after a cut, the same command goes on
  aimwise data check             verify the checksums of all that is here
  {VARIABLE}=~/data aimwise data check imdb    the same for one data set in a folder of your own
  aimwise data train mnist       train the paper's network for it, once; `aimwise data train --help` says more

Files are looked for in the folder that {VARIABLE} names, then in the cache (XDG_CACHE_HOME or ~/.cache,
aimwise/data), in one folder for each data set. In Python: aimwise.data.load("adult")."""

TRAINING = """examples:
  aimwise data train mnist                 once: about a minute on one core; then it is read from the cache
  aimwise data train imdb --device cuda    a network over texts is for a GPU: hours on a processor
  aimwise data train mnist3 --seed 1       another initialisation, kept beside the first
  aimwise data train digits --epochs 2     a short training, kept under a name of its own
  aimwise data train digits --out box      save it in the folder box
  aimwise data train digits --again        train anew, and replace what is there

The epoch that is best on the dev part is kept; training ends when it has not become better for five epochs. Ctrl-C keeps the best
so far. The cache is XDG_CACHE_HOME or ~/.cache, aimwise/zoo. In Python: aimwise.data.zoo.trained("mnist")."""


def add(commands: Any) -> None:
    """Add `data` and its own commands to a parser's commands."""
    data = commands.add_parser(
        "data",
        help="list, download and check data sets, and train networks on them",
        description="Lists, downloads and checks the data sets of the library, and trains the paper's networks on them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = data.add_subparsers(dest="data_command", required=True, metavar="list | get | check | train")
    shown = inner.add_parser("list", help="every data set, and whether it is here", description="Lists every data set.")
    shown.set_defaults(run=show)
    got = inner.add_parser(
        "get",
        help="download a data set from its publisher, or say where it is published",
        description="Downloads a data set from its publisher into the cache, checksums verified, or says where it is published "
        "and where to put it.",
        epilog="example: aimwise data get adult",
    )
    got.add_argument("name", help="the data set, as `aimwise data list` names it")
    got.set_defaults(run=get)
    verified = inner.add_parser(
        "check",
        help="verify the checksums of what is here",
        description="Verifies the checksums of one data set or of all that are here; exits with 1 if one is wrong.",
        epilog="example: aimwise data check adult",
    )
    verified.add_argument("name", nargs="?", help="the data set (all that are here)")
    verified.set_defaults(run=check)
    learned = inner.add_parser(
        "train",
        help="train the paper's network for a data set, or say that it is trained",
        description="Trains the paper's network for a data set of texts or images, and keeps it with its accuracies.",
        epilog=TRAINING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    learned.add_argument("name", help=f"the data set: {', '.join(zoo.NETWORKS)}")
    learned.add_argument("--seed", type=int, default=0, help="seed of weights and order (%(default)s)")
    learned.add_argument("--device", default="auto", help="auto, cpu or cuda (%(default)s: the GPU where there is one)")
    learned.add_argument("--epochs", type=int, help="how many at most (what the data set needs)")
    learned.add_argument("--out", type=Path, metavar="FOLDER", help="where to save it (the cache)")
    learned.add_argument("--again", action="store_true", help="train it even if it is there, and replace it")
    learned.set_defaults(run=train)


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
