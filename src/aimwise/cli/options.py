"""The options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

MODELS = """models:
  package.module:object   a function inputs -> (n, C), a fitted estimator, a torch module; the current folder is looked in;
                          package.module:make() calls make without arguments
  hf:FOLDER               a text classifier and its tokenizer that transformers saved, safetensors only
  onnx:FILE               run by onnxruntime; takes tables, token ids, texts or images, as its input says
  http://... https://...  is sent {"inputs": [...]} and answers {"probs": [[...], ...]}, if it likes with "classes": [...];
                          texts come as strings, rows of tables as objects, images as nested lists
  Files that run code when they are opened (.pkl, .joblib, .pt, .bin ...) are refused.

data:
  CSV (.csv, .tsv, also .gz), JSON lines (.jsonl), Parquet, or a folder of them; a folder of images; a folder or list of text
  files (one text each; --format lines: one text a line); or - for standard input, texts or JSON objects, one a line.
  What each column is taken for is printed before work starts. Rows count from 0, a header not counted."""


def command(commands: Any, name: str, *, help: str, description: str, examples: str, more: str = "") -> argparse.ArgumentParser:
    """A command with examples in its help and the options all commands have."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"examples:\n{examples}" + (f"\n\n{more}" if more else ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group = made.add_argument_group("for scripts")
    group.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    group.add_argument("--quiet", action="store_true", help="print nothing but results and errors")
    group.add_argument("--debug", action="store_true", help="show where an error came from")
    return made


def add_model(made: argparse.ArgumentParser, *, required: bool = True) -> None:
    """What the black box is and how it is asked."""
    group = made.add_argument_group("the model")
    group.add_argument(
        "--model", required=required, metavar="NAME", help="package.module:object, hf:FOLDER, onnx:FILE or http://..."
    )
    group.add_argument("--classes", type=names, metavar="A,B", help="names of the classes, in the order of the model's columns")
    group.add_argument("--model-batch", type=positive, metavar="N", help="how many inputs it is asked about at once")
    group.add_argument(
        "--http-timeout", type=float, default=30.0, metavar="S", help="seconds to wait for an answer (%(default)s)"
    )
    group.add_argument("--http-retries", type=natural, default=3, metavar="N", help="how often to ask again (%(default)s)")
    group.add_argument(
        "--http-header",
        action="append",
        default=[],
        metavar="NAME=env:VAR",
        help="a header with its value from an environment variable, such as Authorization=env:TOKEN; may be repeated",
    )


def add_data(made: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Where the rows are, and what their columns are."""
    group = made.add_argument_group("the data")
    group.add_argument(
        "--data", required=required, nargs="+", metavar="PLACE", help="files, folders, patterns, or - for standard input"
    )
    group.add_argument(
        "--format", choices=("csv", "jsonl", "parquet", "lines", "texts", "images"), help="where the names do not tell"
    )
    group.add_argument("--delimiter", metavar="D", help="what stands between the cells of a CSV file (detected)")
    group.add_argument("--text-column", metavar="NAME", help="the column of the texts")
    group.add_argument("--columns", type=names, metavar="A,B", help="the columns that are features")
    group.add_argument("--ids-column", metavar="NAME", help="the column of lists of token ids")
    group.add_argument("--key", type=names, metavar="A,B", help="columns by which a row is known again; they are written out")
    group.add_argument("--label", metavar="NAME", help="the column of the true class")
    group.add_argument("--table-as", choices=("frame", "array"), help="how the model takes a table (as it was trained)")
    group.add_argument(
        "--images-as", choices=("array", "chw", "hwc", "pil"), help="how the model takes images: whole numbers, floats, or PIL"
    )
    group.add_argument("--image-size", type=size, metavar="HxW", help="resize images (that of the first)")
    group.add_argument("--image-mode", choices=("RGB", "L"), help="colour or grey (as the first is)")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number of at least 1")
    return int(text)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number of at least 0")
    return int(text)


def share(text: str) -> float:
    """A number of at least 0."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a number of at least 0 such as 0.25")
    return found


def names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise argparse.ArgumentTypeError("got no names, wanted a,b")
    return found


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    return tuple(positive(name) for name in names(text))


def size(text: str) -> tuple[int, int]:
    """A height and a width."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted HEIGHTxWIDTH such as 28x28")
    return int(parts[0]), int(parts[1])


def page(text: str) -> Path:
    """The name of an HTML file."""
    if not text.lower().endswith((".html", ".htm")):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a name that ends in .html")
    return Path(text)
