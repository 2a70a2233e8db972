"""`aimwise data`: list, download and check data sets, and train networks on them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

NETWORKS = ("imdb", "ag_news", "hatexplain", "mnist", "mnist3", "fashion_mnist", "fashion3", "digits")
"""Those of `aimwise.data.zoo`, which are not imported for a line of help."""

EXAMPLES = """examples:
  aimwise data list              what there is, and where it lies on this machine
  aimwise data get adult         download it into the cache; after a cut, the same command goes on
  aimwise data check             verify the checksums of all that is here
  AIMWISE_DATA=~/data aimwise data check imdb    the same for one data set in a folder of your own
  aimwise data train imdb        train the paper's network for it, once; `aimwise data train --help` says more

Files are looked for in the folder that AIMWISE_DATA names, then in the cache (XDG_CACHE_HOME or ~/.cache,
aimwise/data), in one folder for each data set. In Python: aimwise.data.load("adult")."""

TRAINING = """examples:
  aimwise data train mnist                 nothing to train: the paper's networks for images come with aimwise
  aimwise data train imdb --device cuda    once; a network over texts is for a GPU: hours on a processor
  aimwise data train mnist3 --seed 1       another initialisation, kept beside the first
  aimwise data train digits --epochs 2     a short training, kept under a name of its own
  aimwise data train digits --out box      save it in the folder box
  aimwise data train mnist --again         train anew: about a minute on one core; the cache's is read from then on

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
    shown.set_defaults(run=later("show"))
    got = inner.add_parser(
        "get",
        help="download a data set from its publisher, or say where it is published",
        description="Downloads a data set from its publisher into the cache, checksums verified, or says where it is published "
        "and where to put it.",
        epilog="example: aimwise data get adult",
    )
    got.add_argument("name", help="the data set, as `aimwise data list` names it")
    got.set_defaults(run=later("get"))
    verified = inner.add_parser(
        "check",
        help="verify the checksums of what is here",
        description="Verifies the checksums of one data set or of all that are here; exits with 1 if one is wrong.",
        epilog="example: aimwise data check adult",
    )
    verified.add_argument("name", nargs="?", help="the data set (all that are here)")
    verified.set_defaults(run=later("check"))
    learned = inner.add_parser(
        "train",
        help="train the paper's network for a data set, or say that it is trained",
        description="Trains the paper's network for a data set of texts or images, and keeps it with its accuracies.",
        epilog=TRAINING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    learned.add_argument("name", help=f"the data set: {', '.join(NETWORKS)}")
    learned.add_argument("--seed", type=int, default=0, help="seed of weights and order (%(default)s)")
    learned.add_argument("--device", default="auto", help="auto, cpu or cuda (%(default)s: the GPU where there is one)")
    learned.add_argument("--epochs", type=int, help="how many at most (what the data set needs)")
    learned.add_argument("--out", type=Path, metavar="FOLDER", help="where to save it (the cache)")
    learned.add_argument("--again", action="store_true", help="train it even if it is there, and replace it")
    learned.set_defaults(run=later("train"))


def later(name: str) -> Callable[[argparse.Namespace], int]:
    """A function of `aimwise.data.command` that is imported when it is called."""

    def run(options: argparse.Namespace) -> int:
        from aimwise.data import command

        return int(getattr(command, name)(options))

    return run
