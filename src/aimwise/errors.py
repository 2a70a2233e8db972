"""Every error this library raises on purpose, as one tree.

AimwiseError
├── BadBlackBox      the model answered something that is not a row of probabilities per input
├── BadFeatures      the inputs cannot be read as the features they were said to be
├── BadFile          a saved explainer, checkpoint or explanation cannot be read
├── BadSetting       a setting has a value that makes no sense
├── Collapsed        a fit ended in weights that explain nothing
├── LostProcess      a process of a fit over several is gone
├── MissingData      a data set is not on this machine, or not the file it should be
├── MissingExtra     an optional package is not installed
├── NoAnswer         the service behind a model cannot be reached
├── NotFitted        an explainer was used before `fit`
├── OutOfQueries     the black box may not be asked any more
├── SingleClass      a class was asked for that a method of one class has not explained
└── UnknownName      a class, feature, method, metric or data set of that name does not exist

Each message says what was found, what was wanted, and what to do.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class AimwiseError(Exception):
    """The root of all errors raised by aimwise."""


class BadBlackBox(AimwiseError):
    """The model answered something that is not a row of probabilities per input."""


class BadFeatures(AimwiseError):
    """The inputs cannot be read as the features they were said to be."""


class BadFile(AimwiseError):
    """A saved explainer, checkpoint or explanation cannot be read."""


class BadSetting(AimwiseError):
    """A setting has a value that makes no sense."""


class Collapsed(AimwiseError):
    """A fit ended in weights that explain nothing."""


class LostProcess(AimwiseError):
    """A process of a fit over several is gone."""


class MissingData(AimwiseError):
    """A data set is not on this machine, or not the file it should be."""


class MissingExtra(AimwiseError):
    """An optional package is not installed."""


class NoAnswer(AimwiseError):
    """The service behind a model cannot be reached."""


class NotFitted(AimwiseError):
    """An explainer was used before `fit`."""


class OutOfQueries(AimwiseError):
    """The black box may not be asked any more."""


class SingleClass(AimwiseError):
    """A class was asked for that a method of one class has not explained."""


class UnknownName(AimwiseError):
    """A class, feature, method, metric or data set of that name does not exist."""


def unknown(what: str, name: object, known: Iterable[object]) -> UnknownName:
    """The error for a name that is not among the known ones, with the nearest known one."""
    names = [str(k) for k in known]
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownName(f"There is no {what} {name!r}; known: {', '.join(names)}.{hint}")


def extra(package: str, name: str) -> ModuleType:
    """Import an optional package, or say which extra of aimwise installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as e:
        raise MissingExtra(
            f"This needs the package {package!r}, which could not be imported ({e}). "
            f"Install it with: pip install 'aimwise[{name}]'"
        ) from e
