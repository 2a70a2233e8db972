"""LIME: a linear model fitted around each input (Ribeiro et al., KDD 2016), by the `lime` package itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadSetting, extra
from aimwise.explainers.base import Explainer
from aimwise.features.cells import LEVELLED
from aimwise.features.columns import Columns
from aimwise.masked import Masked

SAMPLES = {"table": 5000, "text": 5000, "image": 1000}  # lime's own
TEXT_WIDTH, IMAGE_WIDTH = 25.0, 0.25  # lime's own; for tables it is 0.75 * sqrt(columns)
PAPER_SAMPLES = 5000
PAPER_KERNEL_WIDTH = {"imdb": 20, "hatexplain": 35, "ag_news": 25}  # as tuned in the paper on AIM, appendix H
TABLE_ROWS = 100_000  # of the training data, evenly spaced, from which quartiles and frequencies are taken

Predict = Callable[[Any], np.ndarray]
Found = Mapping[int, Sequence[tuple[Any, Any]]]  # for each class, numbers of features and their weights


@dataclass(eq=False, repr=False)
class Lime(Explainer):
    """Perturb each input many times and fit a weighted ridge regression to the model's answers, one for each class.

    Sampling, distances, kernel and regression are those of the `lime` package. Words and parts of images are taken away by the
    fill; columns of tables are perturbed as lime does it, by quartiles and frequencies of the training data, and the weight of a
    group is the sum over its columns. lime knows no missing numbers: it is told the column's median in their place.
    samples: how many perturbed inputs each input is explained by, 5,000 for texts and tables, 1,000 for images if not given.
    kernel_width: 25 for texts, 0.25 for images, 0.75 * sqrt(columns) for tables if not given. The paper's tuned values are
    `PAPER_SAMPLES` and `PAPER_KERNEL_WIDTH`.
    """

    method: ClassVar[str] = "lime"
    rows_at_once: ClassVar[int] = 16

    samples: int | None = None
    kernel_width: float | None = None

    @property
    def asks(self) -> bool:
        return True

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        extra("lime", "rivals")
        if (self.samples is not None and self.samples < 2) or (self.kernel_width is not None and self.kernel_width <= 0):
            raise BadSetting(
                f"Got samples={self.samples}, kernel_width={self.kernel_width}; wanted at least 2 samples and a width above 0, "
                "or None for lime's own."
            )

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        self.rows_: np.ndarray | None = None
        self.tabular_: Any = None  # made when it is needed first
        if isinstance(box.features, Columns):
            some = torch.linspace(0, len(data) - 1, min(len(data), TABLE_ROWS)).long()
            self.rows_ = coded(box.features, data.pick(some))

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        classes, seed = range(probs.shape[1]), self.seed_ % 2**32
        if isinstance(box.features, Columns):
            return self._weigh_rows(box, box.features, batch, classes, seed).to(probs.device)
        around = self._around_text if box.features.kind == "text" else self._around_image
        W = torch.zeros(*batch.present.shape, len(classes), device=probs.device)
        for i in range(len(batch)):
            one, players = batch.pick(torch.tensor([i])), batch.present[i].nonzero()[:, 0]
            if len(players):
                predict = asking(box, one, players, self.seed_)
                W[i, players] = as_weights(around(len(players), predict, classes, seed), len(players)).to(W)
        return W

    def _around_text(self, d: int, predict: Predict, classes: range, seed: int) -> Found:
        """LIME on a text whose words are the numbers of the features."""
        extra("lime", "rivals")
        from lime.lime_text import LimeTextExplainer

        explainer = LimeTextExplainer(
            kernel_width=self.kernel_width or TEXT_WIDTH, split_expression=r"\s+", feature_selection="none", random_state=seed
        )
        found: Found = explainer.explain_instance(
            " ".join(map(str, range(d))),
            lambda texts: predict(places_left(texts, d)),
            labels=classes,
            num_features=d,
            num_samples=self.samples or SAMPLES["text"],
        ).local_exp
        return found

    def _around_image(self, d: int, predict: Predict, classes: range, seed: int) -> Found:
        """LIME on an image of ones with a pixel and segment for every feature, so that what it hides is read off as z."""
        extra("lime", "rivals")
        from lime import lime_image

        samples = self.samples or SAMPLES["image"]
        explainer = lime_image.LimeImageExplainer(
            kernel_width=self.kernel_width or IMAGE_WIDTH, feature_selection="none", random_state=seed
        )
        with without_bar(lime_image):
            found: Found = explainer.explain_instance(
                np.ones((1, d, 1)),
                lambda images: predict(images.reshape(len(images), d)),
                labels=classes,
                top_labels=None,
                hide_color=0,
                num_features=d,
                num_samples=samples,
                batch_size=samples,
                segmentation_fn=lambda image: np.arange(d)[None],
            ).local_exp
        return found

    def _weigh_rows(self, box: Masked, columns: Columns, batch: Batch, classes: range, seed: int) -> Tensor:
        """LIME on rows as numbers; the black box is asked about perturbed rows in the form the user's table has."""
        if self.tabular_ is None:
            self.tabular_ = self._tabular(columns)
        W = torch.zeros(*batch.present.shape, len(classes))
        owner = torch.from_numpy(columns.facts_.owner)
        for i, row in enumerate(coded(columns, batch)):
            self.tabular_.random_state.seed(seed)  # the one that its discretizer and regression use too
            found = self.tabular_.explain_instance(
                row,
                perturbing(box, columns, batch.pick(torch.tensor([i])), row),
                labels=classes,
                num_features=len(row),
                num_samples=self.samples or SAMPLES["table"],
            ).local_exp
            W[i].index_add_(0, owner, as_weights(found, len(row)))
        return W

    def _tabular(self, columns: Columns) -> Any:
        extra("lime", "rivals")
        from lime.lime_tabular import LimeTabularExplainer

        facts = columns.facts_
        return LimeTabularExplainer(
            self.rows_,
            feature_names=[c.name for c in facts.columns],
            categorical_features=np.flatnonzero(levels(columns)).tolist(),
            class_names=list(self.classes_),
            kernel_width=self.kernel_width,
            feature_selection="none",
            random_state=0,
        )

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {} if self.rows_ is None else {"rows": torch.from_numpy(self.rows_)}

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.rows_ = self.tabular_ = None
        if isinstance(box.features, Columns):
            self.rows_ = tensors["rows"].numpy()


def asking(box: Masked, one: Batch, players: Tensor, seed: int) -> Predict:
    """A function from masks of one input's features, (n, players), to the black box's answers."""
    rng = torch.Generator().manual_seed(seed)

    def predict(kept: np.ndarray) -> np.ndarray:
        z = torch.zeros(1, len(kept), one.present.shape[1], device=one.present.device)  # (1, n, d)
        z[0][:, players] = torch.from_numpy(kept).to(z)
        return box.each(one, z, rng)[0].cpu().double().numpy()

    return predict


def perturbing(box: Masked, columns: Columns, one: Batch, own: np.ndarray) -> Predict:
    """A function from perturbed numbers of one row, (n, p), to the black box's answers; its own cells stay as they are."""
    codes = levels(columns)

    def predict(numbers: np.ndarray) -> np.ndarray:
        answers = []
        for part in np.split(numbers, range(box.rows_per_call, len(numbers), box.rows_per_call)):
            keep = torch.from_numpy(part == own)
            part = np.where((codes > 0) & (part == codes), np.nan, part)
            rows = one.pick(torch.zeros(len(part), dtype=torch.long))
            answers.append(box.answers(columns.changed(rows, keep, torch.from_numpy(part))))
        return torch.cat(answers).cpu().double().numpy()

    return predict


def levels(columns: Columns) -> np.ndarray:
    """How many levels a column has that lime samples as a category, 0 for numbers: (p,)."""
    counts = [len(c.levels) if c.kind in LEVELLED else 2 * (c.kind == "boolean") for c in columns.facts_.columns]
    return np.array(counts, dtype=np.float64)


def coded(columns: Columns, batch: Batch) -> np.ndarray:
    """Rows as finite numbers, (B, p): a missing number is the median, a missing or unknown level is one level more."""
    numbers, codes = columns.numbers(batch), levels(columns)
    median = np.nan_to_num(columns.facts_.fills.median.numpy())
    lacking = ~np.isfinite(numbers) | ((codes > 0) & (numbers < 0))
    return np.where(lacking, np.where(codes > 0, codes, median), numbers)


def as_weights(found: Found, d: int) -> Tensor:
    """What lime found as weights (d, C)."""
    W = torch.zeros(d, len(found))
    for c, pairs in found.items():
        for j, weight in pairs:
            W[int(j), c] = float(weight)
    return W


def places_left(texts: Sequence[str], d: int) -> np.ndarray:
    """Which of the numbers below d are left in each text: (n, d)."""
    numbers = np.fromstring(" -1 ".join(texts), dtype=np.int64, sep=" ")  # -1 stands between two texts
    row, word = np.cumsum(numbers < 0), numbers >= 0
    z = np.zeros((len(texts), d))
    z[row[word], numbers[word]] = 1
    return z


@contextmanager
def without_bar(module: Any) -> Iterator[None]:
    """Inside, a module that always shows a progress bar shows none."""
    before, module.tqdm = module.tqdm, iter
    try:
        yield
    finally:
        module.tqdm = before
