"""The command line. Nothing heavy is imported before a command runs, so that help comes at once."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from aimwise.cli import completion, data, demo, doctor, evaluate, explain, fit, reproduce, serve, show, study

COMMANDS = (fit, explain, evaluate, show, serve, study, demo, data, reproduce, doctor, completion)
QUIET = ("explain", "evaluate")  # say in their own words what was done till Ctrl-C
EXITS = """exit codes:
  0    done
  1    could not be done; one or two lines on standard error say why, --debug shows where
  2    the command was not understood
  3    done, but some rows could not be explained; a file beside the output names them
  130  stopped by Ctrl-C; what is done is kept, and the same command goes on from there"""
EXAMPLES = """examples:
  aimwise demo
  aimwise fit --model mypkg.models:clf --data train.parquet --text-column body --out news-explainer
  aimwise explain news-explainer --model mypkg.models:clf --data new.parquet --out why.parquet --html why.html --top 10
  aimwise evaluate news-explainer --model mypkg.models:clf --data test.parquet --rivals lime,ig,random
  aimwise show why.parquet --row 17"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as `EXITS` has them."""
    options = parser().parse_args(arguments)
    log = logging.getLogger("aimwise")
    before = log.level
    if options.command in QUIET:
        log.setLevel(logging.ERROR)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return failed(options, "stopped", 130)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as e:
        if getattr(options, "debug", False) or isinstance(e, AssertionError):  # an assertion is a mistake of ours
            raise
        from aimwise.errors import AimwiseError

        if isinstance(e, AimwiseError):
            return failed(options, str(e), 1, type(e).__name__)
        what = f"{e.strerror}: {e.filename}" if isinstance(e, OSError) and e.filename else f"{type(e).__name__}: {e}"
        hint = " (--debug shows where)" if "debug" in options else ""
        return failed(options, " ".join(what.split()) + hint, 1, type(e).__name__)
    finally:
        log.setLevel(before)


def failed(options: argparse.Namespace, why: str, code: int, kind: str = "Stopped") -> int:
    """Say why a command ended early, to people and to machines."""
    sys.stderr.write(f"aimwise: {why}\n")
    if getattr(options, "json", False):
        import json

        said = {"command": options.command, "exit": code, "error": why, "kind": kind}
        sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")
    return code


def parser() -> argparse.ArgumentParser:
    """The commands and what they take."""
    top = argparse.ArgumentParser(
        prog="aimwise",
        description="Explain any black-box model: train a small explainer once, then one pass weighs every feature\n"
        "for every class.",
        epilog=f"{EXAMPLES}\n\n{EXITS}\n\n`aimwise COMMAND --help` says more and has examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    return top


class Version(argparse.Action):
    """Print the version; it is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"aimwise {version('aimwise')}\n")
        parser.exit()
