"""An explainer and its model by name: light enough to be sent anywhere, loaded once in every process that uses them."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aimwise.blackbox import as_blackbox
from aimwise.blackbox.named import Asking, by_name
from aimwise.errors import BadFile
from aimwise.explainers.saved import CONFIG
from aimwise.matched import Saved, saved
from aimwise.scale.portion import Patience

MOST = 4  # explainers that a process keeps


@dataclass(frozen=True, eq=False)
class Loading:
    """Where a saved explainer lies and what it explains.

    model: a name as the command line takes it, or the model itself. folder: the current folder where this was made; packages and
    the explainer are looked for there, and in the current folder of the process that loads them where there is no such folder.
    """

    explainer: str
    model: Any
    asking: Asking = field(default_factory=Asking)
    folder: str = field(default_factory=lambda: str(Path.cwd()))
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which a model that has no name is known in other processes."""

    @property
    def root(self) -> Path:
        """The folder where names are looked for."""
        return Path(self.folder) if Path(self.folder).is_dir() else Path.cwd()

    def check(self) -> None:
        """Refuse a place where no explainer is, before anything is sent anywhere."""
        if not (self.root / self.explainer / CONFIG).is_file():
            raise BadFile(f"{self.explainer} is not a saved explainer: it has no {CONFIG}. Pass the folder that save() wrote.")

    def load(self) -> Saved:
        """The explainer with its model."""
        self.check()
        if isinstance(self.model, str):
            box = by_name(self.model, asking=self.asking, folder=self.root)
        else:
            box = as_blackbox(self.model, class_names=self.asking.class_names)
        return saved(self.root / self.explainer, box)

    def key(self) -> tuple[Any, ...]:
        """What two loadings of the same thing have in common: the file as it is now, the model and how it is asked."""
        config = (self.root / self.explainer / CONFIG).absolute()
        model = self.model if isinstance(self.model, str) else self.token
        return str(config), config.stat().st_mtime_ns, model, repr(self.asking)


@dataclass(frozen=True, eq=False)
class Kept:
    """An explainer in this process, the lock by which threads take turns with it, and how many rows it failed on."""

    saved: Saved
    lock: threading.Lock = field(default_factory=threading.Lock)
    patience: Patience = field(default_factory=Patience)


@dataclass(eq=False)
class Shelf:
    """The explainers that this process has loaded, the latest few of them."""

    found: OrderedDict[tuple[Any, ...], Kept] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, loading: Loading) -> Kept:
        """The explainer, loaded if it is not here yet."""
        with self.lock:
            loading.check()
            key = loading.key()
            if key not in self.found:
                self.found[key] = Kept(loading.load())
            self.found.move_to_end(key)
            while len(self.found) > MOST:
                self.found.popitem(last=False)
            return self.found[key]


KEPT_HERE = Shelf()
