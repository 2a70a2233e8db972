"""What every method shares: settings as fields, `fit`, `explain`, `save`."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.blackbox import BlackBox, as_blackbox
from aimwise.blackbox.base import as_matrix, check_rows
from aimwise.device import seeded
from aimwise.errors import BadBlackBox, BadFeatures, BadFile, BadSetting, NotFitted, OutOfQueries, SingleClass
from aimwise.explainers.tried import tried
from aimwise.explainers.weighed import Weighed
from aimwise.explanation import About, Check, Explanation, Training
from aimwise.features import as_features
from aimwise.features.base import Features
from aimwise.masked import Masked, Meter
from aimwise.nn.sampling import shared_masks
from aimwise.processes import ALONE, joined
from aimwise.progress import bar

T = TypeVar("T", bound="Explainer")
log = logging.getLogger("aimwise")

EXPLAIN_CELLS = 1 << 18  # weighed at once
EMPTY_ROWS = 256
CHECK_DRAWS = 8
CHECK_CELLS = 1 << 22
SMALLEST = 1e-3


@dataclass(eq=False, repr=False)
class Explainer(ABC):
    """A method of explaining: the constructor stores settings, `fit` learns, `explain` answers."""

    method: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("table", "text", "image")
    """The kinds of features it can weigh."""
    rows_at_once: ClassVar[int] = 4096
    """How many inputs are weighed together, and lost together when the black box may not be asked any more."""

    device: str = "auto"

    leads_ = True  # of one process, and of the first of several that fit together

    @abstractmethod
    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        """Learn what the method needs from inputs and the black box's answers to them."""

    @abstractmethod
    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        """A weight for every feature and class."""

    @property
    def every_class(self) -> bool:
        """Whether it weighs features for every class, or for the predicted one alone."""
        return True

    @property
    def asks(self) -> bool:
        """Whether explaining asks the black box about changed inputs, and not about the inputs themselves alone."""
        return False

    scores: ClassVar[bool] = False
    """Whether softmax(base + weights) is meant to be the black box's probabilities, so that classes compete for them."""

    @property
    def gradients(self) -> bool:
        """Whether it needs a black box through which gradients flow."""
        return False

    @property
    def sampled(self) -> bool:
        """Whether the weights hang on the seed; if not, a random fill's draws alone can change them."""
        return True

    def _suits(self, box: Masked) -> None:
        """Refuse a black box or features that the method cannot work with, before any work."""
        if box.features.kind not in self.kinds:
            raise BadFeatures(
                f"{type(self).__name__} explains {' and '.join(f'{kind}s' for kind in self.kinds)}, got features of the kind "
                f"{box.features.kind!r}. Choose another method."
            )

    def _training(self) -> Training | None:
        """How the training went, where there was one."""
        return None

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What `_fit` learned, for the file: JSON values and tensors."""
        return {}, {}

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Take back what `_learned` gave."""

    def fit(
        self: T,
        model: Any,
        inputs: Any,
        *,
        features: Features | None = None,
        class_names: Sequence[str] | None = None,
        probs: Any = None,
        seed: int = 0,
        folder: str | Path | None = None,
        max_queries: int | None = None,
        retries: int = 0,
        engine: Any = None,
    ) -> T:
        """Learn to explain a model on inputs like these.

        model: a fitted classifier with predict_proba, a torch module, a text-classification pipeline of transformers, a function
        inputs -> (n, C) probabilities, or a `BlackBox` such as `TextBox(module, tokenizer)`.
        features: what the features are; by default the kind that suits the inputs.
        probs: the model's answers to these inputs, if they are known; it is not asked about them then.
        folder: keep a checkpoint there each epoch; a fit that was killed goes on from it and ends with the same weights.
        max_queries: the most inputs the model may be asked about; the fit ends well with the best it has by then.
        retries: how often to ask again when the model raises.
        engine: a lightning_fabric.Fabric, such as Fabric(accelerator="cpu", devices=2, strategy="ddp"): its processes, started by
        torchrun, SLURM or Ray Train, share each step's rows and questions and end with what one process would have learned. The
        first of them writes the folder. If one is gone or silent for half an hour, the others raise `LostProcess`.
        """
        started = time.perf_counter()
        self.__dict__.pop("box_", None)
        check_fit(inputs, seed=seed, folder=folder, max_queries=max_queries, retries=retries)
        blackbox = as_blackbox(model, class_names=class_names)
        learned = as_features(features, inputs, word_fill=blackbox.word_fill)
        with joined(engine) as processes:
            place = processes.place(self.device)
            box = Masked(blackbox, learned, retries=retries, meter=Meter(most=max_queries), processes=processes)
            self._suits(box)
            data = learned.encode(inputs).to(place)
            with seeded(seed, place):
                answers = box.whole(data) if probs is None else None  # first: what the outputs are is told from whole inputs
                self.base_ = empty_log_odds(box, data, seed).to(place)
                self.classes_, self.named_, self.seed_ = box.classes(), class_names is not None, seed
                self.fitted_on_: int | None = len(data)
                if answers is None:
                    answers = self._checked_probs(probs, len(data)).to(place)
                self._fit(box, data, answers, seed, Path(folder) if folder is not None else None)
        self.queries_, self.fit_seconds_ = box.meter.queries, time.perf_counter() - started
        box.meter.most = None  # the limit was for this fit
        self.box_, self.leads_ = replace(box, processes=ALONE), processes.leads
        return self

    def explain(
        self, inputs: Any, *, probs: Any = None, check: int = 0, top: int | Sequence[int] = 0, max_queries: int | None = None
    ) -> Explanation:
        """Weigh every feature of every input for every class.

        probs: the model's answers to these inputs, if they are known; it is not asked then.
        check: ask the model about so many masks of each row and record how far weights and model agree on them; a
        random fill is averaged over several draws for each mask.
        top: ask the model about so many features that speak most for its prediction alone, and about all the others, and record
        what it says of both; several numbers, as in top=(1, 3, 10), are asked about together.
        max_queries: the most inputs the model may be asked about; the error beyond that holds what was explained till then.
        """
        ks = tuple(top) if isinstance(top, Sequence) else (top,)
        for name, value, what in (("check", check, "masks"), *(("top", k, "features") for k in ks)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise BadSetting(
                    f"{name}={value!r}, wanted how many {what} to ask about for each row: a whole number, 0 for none."
                )
        check_count("max_queries", max_queries, 0)
        box, features = self._fitted(), self._fitted().features
        asked = box.meter.queries
        data = features.encode(inputs).to(torch.device("cpu"))
        known = None if probs is None else self._checked_probs(probs, len(data))
        found = Weighed.nothing(data.present, len(self.classes_))
        by_size = data.present.sum(1).argsort(stable=True)  # inputs of like size go together
        done = 0
        try:
            with box.meter.limit(max_queries):
                with bar(len(data), "explain") as shown:
                    fits = max(64, EXPLAIN_CELLS // max(data.present.shape[1], features.cells))
                    for rows in torch.split(by_size, min(self.rows_at_once, fits)) if len(data) else ():
                        batch = features.trim(data.pick(rows)).to(self.base_.device)
                        part = self._explained(box, batch, None if known is None else known[rows].to(self.base_.device))
                        found = found.placed(rows, part, batch.present)
                        done += len(batch)
                        shown.update(len(batch))
                explanation = self._explanation(features, data, found)
                explanation = replace(
                    explanation,
                    check=self._checked(box, data, explanation, check) if check else None,
                    trials=tried(box.averaged(CHECK_DRAWS), data, explanation, sorted({k for k in ks if k}), self.seed_ + 2),
                    about=self._about(box.meter.queries - asked, len(data)),
                )
            self._remembered()[explanation] = data
            return explanation
        except (KeyboardInterrupt, OutOfQueries) as e:
            e.rows = by_size[:done].sort().values  # type: ignore[union-attr]
            e.explanation = self._explanation(features, data, found)[e.rows]  # type: ignore[union-attr]
            log.warning(
                "%d of %d inputs were explained: the error's `explanation` has them, its `rows` their numbers", done, len(data)
            )
            raise

    def _explanation(self, features: Features, data: Batch, found: Weighed) -> Explanation:
        """The record of what was found."""
        return Explanation(
            weights=found.W,
            probs=found.probs,
            base=self.base_.cpu(),
            present=data.present,
            names=features.names,
            values=features.values(data),
            classes=self.classes_,
            method=self.method,
            spans=features.spans(data),
            sources=features.sources(data),
            unexplained=features.unexplained(data),
            images=features.pictures(data.raw),
            regions=features.regions(data),
            scores=self.scores,
            pairs=found.pairs,
            only=None if self.every_class else found.probs.argmax(-1),
        )

    def refine(self, explanation: Explanation, inputs: Any = None, *, budget: int = 512) -> Explanation:
        """The explanation improved row by row with `budget` more questions to the model about each row.

        Each row's weights start where they are and follow the model's answers to random masks of that row alone for as long as
        they get better on masks held back; so what one pass missed of a row is made good. inputs: those that were explained; they
        are remembered while the explanation is kept, but not for parts of it.
        """
        from aimwise.explainers.refined import refined

        check_count("budget", budget, 8)
        if explanation.only is not None:
            raise SingleClass(f"{self.method} weighs one class; what is refined is the additive explanation of all classes.")
        if inputs is None:
            if explanation not in self._remembered():
                raise BadSetting("These inputs are not known any more. Pass them: refine(explanation, inputs, budget=...).")
            data = self._remembered()[explanation]
        else:
            data = self._fitted().features.encode(inputs).to(torch.device("cpu"))
        if data.present.shape != explanation.present.shape or not torch.equal(data.present, explanation.present):
            raise BadFeatures(
                f"Got {len(data)} inputs that are not those of the explanation of {len(explanation)}. Pass the same."
            )
        return refined(self._fitted(), data, explanation, budget, self.seed_ + 3)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "inputs_"}

    def _remembered(self) -> WeakKeyDictionary[Explanation, Batch]:
        """The inputs of explanations that are still kept by someone."""
        kept: WeakKeyDictionary[Explanation, Batch] = self.__dict__.setdefault("inputs_", WeakKeyDictionary())
        return kept

    def explain_batches(
        self, inputs: Iterable[Any], *, rows: int = 1024, check: int = 0, top: int | Sequence[int] = 0
    ) -> Iterator[Explanation]:
        """Explain inputs from any iterable, a generator too, so many at a time: memory does not grow with their number."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise BadSetting(f"rows={rows!r}, wanted how many inputs to explain at a time: a whole number of at least 1.")
        if isinstance(inputs, str):
            raise BadFeatures("Got one text, wanted an iterable of texts. Pass [text].")
        self._fitted()
        return (self.explain(part, check=check, top=top) for part in portions(inputs, rows))

    def _checked(self, box: Masked, data: Batch, explanation: Explanation, masks: int) -> Check:
        """Compare the additive explanation with the black box on the same random masks of every row."""
        box, base = box.averaged(CHECK_DRAWS), explanation.base.softmax(-1)
        rng = torch.Generator().manual_seed(self.seed_ + 1)
        size = max(1, CHECK_CELLS // (masks * data.present.shape[1]))
        agreement, without = [torch.zeros(0)], [torch.zeros(0)]
        with bar(len(data), "check") as shown:
            for start in range(0, len(data), size):
                batch, part = data.cut(start, start + size), explanation[start : start + size]
                z = shared_masks(batch.present, masks, self.seed_ + 1)  # (B, M, d)
                said = box.each(batch, z, rng)  # (B, M, C)
                agreement.append(overlap(part.additive(z), said).mean(1))
                without.append(overlap(base, said).mean(1))
                shown.update(len(batch))
        return Check(torch.cat(agreement), torch.cat(without), masks)

    def _about(self, queries: int, explained: int) -> About:
        """What the reader of an explanation should know of the explainer."""
        box = self._fitted()
        return About(
            explainer=repr(self),
            blackbox=box.blackbox.called,
            features=type(box.features).__name__,
            fill=box.features.fill,
            seed=self.seed_,
            rows=self.fitted_on_,
            fit_queries=self.queries_,
            fit_seconds=self.fit_seconds_,
            queries=queries,
            explained=explained,
            training=self._training(),
        )

    def _checked_probs(self, probs: Any, n: int) -> Tensor:
        found = as_matrix(probs, len(probs)).detach().cpu()
        if tuple(found.shape) != (n, len(self.classes_)):
            raise BadSetting(f"probs has shape {tuple(found.shape)}, wanted {(n, len(self.classes_))}: one row per input.")
        return check_rows(found)

    def _explained(self, box: Masked, batch: Batch, known: Float[Tensor, "B C"] | None) -> Weighed:
        """What the black box says of inputs, where that is not known yet, and what each of their features weighs."""
        probs = box.whole(batch) if known is None else known
        self._same_classes(box.blackbox)
        return Weighed(probs, self._weigh(box, batch, probs))

    def _same_classes(self, blackbox: BlackBox) -> None:
        if blackbox.n_classes is not None and blackbox.n_classes != len(self.classes_):
            raise BadBlackBox(
                f"The black box has {blackbox.n_classes} classes, the explainer was fitted for {len(self.classes_)} "
                f"({', '.join(self.classes_)}). Hand over the model it was fitted on."
            )

    def _fitted(self) -> Masked:
        if "box_" not in self.__dict__:
            raise NotFitted(f"{type(self).__name__} has not been fitted. Call fit(model, inputs) first, or aimwise.load.")
        return self.box_

    def save(self, path: str | Path) -> Path:
        """Write a folder with config.json and weights.safetensors; the model itself is not stored.

        Of several processes that fitted together only the first writes.
        """
        from aimwise.explainers.saved import save

        self._fitted()
        return save(self, Path(path)) if self.leads_ else Path(path)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn asks for them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __repr__(self) -> str:
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _fingerprint(self, box: Masked, data: Batch, seed: int) -> str:
        """What a checkpoint must have been made with to be continued."""
        digest = hashlib.sha256()
        facts = [self.method, self.get_params(), box.features.config(), self.classes_, seed]
        digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
        for tensor in (data.x, *box.features.tensors().values()):
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()


def portions(inputs: Any, rows: int) -> Iterator[Any]:
    """Tables and arrays in slices, other iterables in lists of so many."""
    if hasattr(inputs, "shape"):
        table = getattr(inputs, "iloc", inputs)
        yield from (table[start : start + rows] for start in range(0, len(inputs), rows))
        return
    rest = iter(inputs)
    while part := list(islice(rest, rows)):
        yield part


def check_fit(inputs: Any, *, seed: int, folder: str | Path | None, max_queries: int | None, retries: int) -> None:
    """Refuse what cannot be fitted with, before any work."""
    if not isinstance(inputs, Sized):
        raise BadFeatures(f"Got {type(inputs).__name__} for inputs, wanted a table or a list: fit(model, inputs).")
    if len(inputs) < 2:
        raise BadFeatures(f"Got {len(inputs)} inputs to learn from, wanted at least 2.")
    for name, value, least in (("retries", retries, 0), ("max_queries", max_queries, 1), ("seed", seed, -(2**63))):
        check_count(name, value, least)
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise BadFile(f"folder={str(folder)!r} is a file, wanted a folder for checkpoints.")


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least so much."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63):
        raise BadSetting(f"{name}={value!r}, wanted a whole number{f' of at least {least}' if least >= 0 else ''}.")


def empty_log_odds(box: Masked, data: Batch, seed: int) -> Float[Tensor, " C"]:
    """What the black box says when no feature is kept, as log-probabilities: where every explanation starts from."""
    rng = torch.Generator().manual_seed(seed)
    index = torch.randint(len(data), (EMPTY_ROWS,), generator=rng)
    some = data.pick(index)
    said = box(some, torch.zeros_like(some.present, dtype=torch.float32), rng).mean(0)
    said = said.clamp_min(SMALLEST)
    return (said / said.sum()).log()


def overlap(p: Float[Tensor, "*#B C"], q: Float[Tensor, "*#B C"]) -> Tensor:
    """What two rows of probabilities share: 1 if they are the same, 0 if they exclude each other."""
    return 1 - (p - q).abs().sum(-1) / 2
