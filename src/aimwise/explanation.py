"""The answer: a weight for every feature and every class of every input, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aimwise.errors import BadSetting, SingleClass, UnknownName, extra, unknown
from aimwise.files import write_text
from aimwise.pairs import Pairs
from aimwise.ranking import by_weight, enough, needed

Target = str | int | Int[Tensor, " B"] | None
BY = ("enough", "needed", "weight", "size")
MANY = 20  # classes for which all features are ranked together; of more, by their weights alone


@dataclass(frozen=True)
class Check:
    """How far the additive explanation and the black box agree on masks of each row; 1 means the same probabilities."""

    agreement: Float[Tensor, " B"]
    without: Float[Tensor, " B"]
    """The agreement if every weight were 0: what knowing nothing of the row would give."""
    masks: int


@dataclass(frozen=True, eq=False)
class Trial:
    """What the black box said of the k features that speak most for the prediction alone, and of all the others."""

    k: int
    kept: Float[Tensor, "B C"]
    rest: Float[Tensor, "B C"]
    kept_images: np.ndarray | None = None
    """The inputs with those features alone, where inputs are images."""
    rest_images: np.ndarray | None = None

    def rows(self, take: Tensor) -> Trial:
        """Some of the rows."""
        images = (None if one is None else one[take.numpy()] for one in (self.kept_images, self.rest_images))
        return Trial(self.k, self.kept[take], self.rest[take], *images)


@dataclass(frozen=True)
class Training:
    """How a fit went: the numbers of every epoch, which epoch was kept, and why it ended."""

    history: tuple[dict[str, Any], ...]
    best: int
    stopped: str


@dataclass(frozen=True)
class About:
    """What made an explanation, told by the explainer in plain words and numbers."""

    explainer: str
    blackbox: str
    features: str
    fill: str
    seed: int
    rows: int | None
    """How many inputs it was fitted on, where that is known."""
    fit_queries: int
    fit_seconds: float
    queries: int
    """How many questions the black box was asked to explain so many inputs, their checks and trials included."""
    explained: int
    training: Training | None = None


@dataclass(frozen=True, eq=False)
class Explanation:
    """A plain record of weights (B, d, C) and of what they are about; slice it, rank it, export it."""

    weights: Float[Tensor, "B d C"]
    probs: Float[Tensor, "B C"]
    base: Float[Tensor, " C"]
    present: Bool[Tensor, "B d"]
    names: tuple[str, ...] | None
    """What the features are called; None where each row has features of its own, which are called by their values."""
    values: np.ndarray
    classes: tuple[str, ...]
    method: str
    check: Check | None = None
    spans: np.ndarray | None = None
    """Where each feature stands in its input, (B, d, 2), if it has such a place."""
    sources: tuple[str, ...] | None = None
    """The inputs themselves where the places are places in a text."""
    unexplained: np.ndarray | None = None
    """How many features at the end of each input were too many to be explained, (B,)."""
    images: np.ndarray | None = None
    """The inputs to look at, (B, h, w) or (B, h, w, 3) of 0 to 255, where they are images."""
    regions: np.ndarray | None = None
    """Which feature every pixel belongs to, (B, h, w), or (1, h, w) if that is the same for all."""
    trials: tuple[Trial, ...] = ()
    """What was tried of each row, the fewest features first."""
    about: About | None = None
    scores: bool = False
    """Whether softmax(base + the weights of what is there) is close to the probabilities: then features are ranked by what they
    do to those together, and else by their weights alone."""
    pairs: Pairs | None = None
    """What features say in twos beyond their weights, by which they are ranked; None if the method does not tell."""
    only: Int[Tensor, " B"] | None = None
    """The one class of each row that the weights are about, where the method explains one; those of the others are 0."""

    def __post_init__(self) -> None:
        rows, d, c = self.weights.shape
        names = d if self.names is None else len(self.names)
        found = (tuple(self.probs.shape), tuple(self.present.shape), self.values.shape, names, len(self.classes))
        if found != ((rows, c), (rows, d), (rows, d), d, c):
            raise BadSetting(
                f"Weights of shape {(rows, d, c)} do not fit probs {found[0]}, present {found[1]}, values {found[2]}, "
                f"{found[3]} names and {found[4]} classes."
            )
        if self.pairs is not None:
            parts, forms = tuple(self.pairs.parts.shape), tuple(self.pairs.forms.shape)
            if (parts[:2], forms) != ((rows, d), (rows, *parts[2:], c)) or len(parts) != 3:
                raise BadSetting(f"Weights of shape {(rows, d, c)} do not fit pairs of parts {parts} and forms {forms}.")

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int | np.integer | slice | Sequence[int] | np.ndarray | Tensor) -> Explanation:
        """Some of the rows, as an explanation; a single number gives an explanation of one row."""
        rows = np.arange(len(self))[index.cpu().numpy() if isinstance(index, Tensor) else index]
        take = torch.from_numpy(np.atleast_1d(rows))
        check = self.check
        if check is not None:
            check = Check(check.agreement[take], check.without[take], check.masks)
        return replace(
            self,
            weights=self.weights[take],
            probs=self.probs[take],
            present=self.present[take],
            values=self.values[take.numpy()],
            check=check,
            spans=None if self.spans is None else self.spans[take.numpy()],
            sources=None if self.sources is None else tuple(self.sources[i] for i in take.tolist()),
            unexplained=None if self.unexplained is None else self.unexplained[take.numpy()],
            images=None if self.images is None else self.images[take.numpy()],
            regions=self.regions if self.regions is None or len(self.regions) == 1 < len(self) else self.regions[take.numpy()],
            trials=tuple(each.rows(take) for each in self.trials),
            pairs=None if self.pairs is None else self.pairs.rows(take),
            only=None if self.only is None else self.only[take],
        )

    @classmethod
    def concat(cls, parts: Sequence[Explanation]) -> Explanation:
        """Explanations that one explainer gave of several batches, as one."""
        from aimwise.joined import joined

        return joined(parts)

    @property
    def trial(self) -> Trial | None:
        """The trial of most features, if there was any."""
        return self.trials[-1] if self.trials else None

    @property
    def prediction(self) -> Int[Tensor, " B"]:
        """The number of the most probable class of every row."""
        return self.probs.argmax(-1)

    def classes_of(self, target: Target) -> Int[Tensor, " B"]:
        """The class number meant for each row: the predicted one, or one given by name, number or a number per row."""
        if target is None:
            return self.prediction
        if isinstance(target, Tensor):
            if target.shape != (len(self),) or not bool(((target >= 0) & (target < len(self.classes))).all()):
                raise BadSetting(f"target has shape {tuple(target.shape)}, wanted a class number for each of {len(self)} rows.")
            return target.long()
        if isinstance(target, str):
            if target not in self.classes:
                raise unknown("class", target, self.classes)
            return torch.full((len(self),), self.classes.index(target))
        if str(target) in self.classes and self.classes.index(str(target)) != target:
            raise UnknownName(
                f"target={target} could mean the class named {str(target)!r} or class number {target}, "
                f"which is {self.classes[target]!r}. Pass the name as a string."
                if -len(self.classes) <= target < len(self.classes)
                else f"There is no class number {target}. Pass target={str(target)!r} for the class of that name."
            )
        if not -len(self.classes) <= int(target) < len(self.classes):
            raise UnknownName(
                f"There is no class number {target}; the {len(self.classes)} classes count from 0: {', '.join(self.classes)}."
            )
        return torch.full((len(self),), int(target) % len(self.classes))

    def towards(self, target: Target = None) -> Float[Tensor, "B d"]:
        """Every feature's weight for one class."""
        index = self.classes_of(target)
        if self.only is not None and bool((index != self.only).any()):
            row = int((index != self.only).nonzero()[0])
            raise SingleClass(
                f"{self.method} explained row {row} for {self.classes[int(self.only[row])]!r} alone, and was asked about "
                f"{self.classes[int(index[row])]!r}. Ask about the predicted class, or use a method of all classes, as AIM is."
            )
        return self.weights.gather(2, index[:, None, None].expand(-1, self.weights.shape[1], 1)).squeeze(2)

    def order(self, target: Target = None, *, by: str = "enough") -> Int[Tensor, "B d"]:
        """Feature numbers from the one that speaks most for the class down.

        by: "enough" (each adds most to the class, among all classes, given those before it), "needed" (without it and those
        before it least is left), "weight" (the largest weight first) or "size" (of either sign). The first two count what
        features say in twos (`pairs`); without pairs, the first three are the same for two classes, and for weights that are
        not scores.
        """
        if by not in BY:
            raise BadSetting(f"by={by!r}, wanted one of {', '.join(map(repr, BY))}.")
        weights, wanted = self.towards(target), self.classes_of(target)
        if by == "size" or by == "weight" or not self.scores:
            return by_weight(weights.abs() if by == "size" else weights, self.present)
        nothing = self.base.expand_as(self.probs)  # (B, C)
        if by == "enough":
            return enough(self.weights, self.present, nothing, wanted, self.pairs)
        whole = nothing + (self.weights * self.present[..., None]).sum(1)  # its own, not the model's, for what it is to leave
        if self.pairs is not None:
            whole = whole + self.pairs.whole()
        return needed(self.weights, self.present, whole, wanted, self.pairs)

    def top(self, k: int = 5, *, target: str | int | None = None, by: str = "enough") -> list[tuple[Any, ...]]:
        """The k features of one row that together speak most for a class (see `order`), with their weights, the largest first."""
        if len(self) != 1:
            raise BadSetting(f"top is about one row, this explanation has {len(self)}. Pick one: explanation[0].top({k}).")
        if k < 0:
            raise BadSetting(f"k={k}, wanted how many features: 0 or more.")
        weights, order = self.towards(target)[0], self.order(target, by=by)[0]
        chosen = [int(i) for i in order[:k] if self.present[0, i]]
        if by != "size":
            chosen.sort(key=lambda i: -float(weights[i]))
        named = self.values[0] if self.names is None else self.names
        places = [] if self.spans is None else [self.spans[0, chosen].tolist()]
        return [(named[i], float(weights[i]), *(tuple(p[j]) for p in places)) for j, i in enumerate(chosen)]

    def chosen(self, k: int, target: Target = None, *, by: str = "enough") -> Float[Tensor, "B d"]:
        """1 for the k features of each row that together speak most for a class, else 0; see `order`."""
        if k < 0:
            raise BadSetting(f"k={k}, wanted 0 or more.")
        z = torch.zeros_like(self.present, dtype=torch.float32)
        return z.scatter(1, self.order(target, by=by)[:, :k], 1.0) * self.present

    def ranks(self) -> Int[Tensor, "B d C"]:
        """The place of every feature in the order of each class, from 1; by weight where there are more than 20 classes."""
        shown, by = self._opened(), "enough" if len(self.classes) <= MANY else "weight"
        return torch.stack([shown.order(c, by=by).argsort(1) + 1 for c in range(len(self.classes))], 2)

    def additive(self, z: Float[Tensor, "B M d"]) -> Float[Tensor, "B M C"]:
        """The probabilities that the weights alone give to masks of every row: softmax(base + W^T z)."""
        return (self.base + torch.einsum("bdc,bmd->bmc", self.weights, z)).softmax(-1)

    def to_frame(self, *, top: int | None = None) -> Any:
        """A tidy pandas table: row, feature, value (or start and end), class, weight, rank; only the first ranks with `top`."""
        pd = extra("pandas", "table")
        rows, d, c = self.weights.shape
        rank = self.ranks()
        kept = self.present[:, :, None].expand(rows, d, c)
        if self.only is not None:
            kept = kept & (torch.arange(c) == self.only[:, None])[:, None]
        if top is not None:
            kept = kept & (rank <= top)
        b, f, k = (i.numpy() for i in kept.nonzero(as_tuple=True))
        if self.names is None:
            about = {"feature": self.values[b, f]}
        else:
            about = {"feature": np.array(self.names, dtype=object)[f], "value": self.values[b, f]}
        if self.spans is not None:
            about |= {"start": self.spans[b, f, 0], "end": self.spans[b, f, 1]}
        return pd.DataFrame(
            {
                "row": b,
                **about,
                "class": np.array(self.classes, dtype=object)[k],
                "weight": self.weights.numpy()[b, f, k],
                "rank": rank.numpy()[b, f, k],
            }
        )

    def to_shap(self, *, target: Target = None) -> Any:
        """A shap.Explanation for shap's own plots: of all classes, to be indexed as [..., c], or of one.

        Values are log-odds that add up to the score of a class. Of texts each row has its own words, of images every pixel has a
        share of its region's weight.
        """
        from aimwise.render.others import for_shap

        return for_shap(self._opened(), target)

    def to_captum(self, *, target: Target = None) -> Any:
        """What captum's viewers take, for the predicted class of each row or for a given one.

        Of images two arrays (B, h, w, c), attributions and pictures of 0 to 1: visualize_image_attr(made[0][i], made[1][i]). Of
        texts a list for visualize_text, a VisualizationDataRecord each, attributions scaled to -1 to 1. Of tables it is (B, d).
        """
        from aimwise.render.others import for_captum

        return for_captum(self._opened(), target)

    def to_json(self, path: str | Path | None = None) -> str:
        """The whole record as JSON text, also written to a file if a path is given."""
        from aimwise.records import to_text

        text = to_text(self)
        if path is not None:
            write_text(Path(path), text)
        return text

    @classmethod
    def from_json(cls, text: str | Path) -> Explanation:
        """The record that `to_json` wrote, from its text or from a file's path."""
        from aimwise.records import from_text

        return from_text(text)

    def to_html(
        self, path: str | Path, *, title: str = "Explanations", truth: Iterable[Any] | None = None, most: int = 1000
    ) -> Path:
        """Write one self-contained page with the evidence for every class of every row; returns its path.

        truth: the true classes, numbers or names, so that mistakes are marked and can be picked out.
        most: how many rows, the first ones, are shown one by one; what is said of all rows together is about all.
        """
        from aimwise.render.html import page, section

        path = Path(path)
        about = title if self.only is None else f"{title} ({self.method} explains the predicted class alone)"
        text = page(title, [section(about, self._opened(), truth=truth, most=most)])
        write_text(path, text)
        return path

    def plot(
        self,
        path: str | Path | None = None,
        *,
        target: Target = None,
        classes: int | Sequence[str | int] | None = None,
        truth: Iterable[Any] | None = None,
        k: int | None = None,
        columns: int | None = None,
    ) -> Any:
        """A matplotlib figure of the first rows, at most 12, also written to a .png, .svg or .pdf file if a path is given.

        Of an image it has the picture, the evidence for each class over it on one scale, and what `explain(..., top=k)` tried;
        of texts and tables a chart of bars for each class. target: the class that comes first, by default the predicted one.
        classes: which classes, or how many; by default the 6 most probable. truth: the true classes, so that mistakes are seen.
        k: how many regions are outlined, or how many bars a chart has. columns: how many panels stand beside each other.
        """
        extra("matplotlib", "plot")
        from aimwise.render.figures import checked_path, drawn, saved

        file = None if path is None else checked_path(path)
        figure = drawn(self._opened(), target=target, classes=classes, truth=truth, k=k, columns=columns)
        if file is not None:
            saved(figure, file)
        return figure

    def show(self, *, target: str | int | None = None, k: int = 10) -> None:
        """Print the first rows to the terminal: every probability, and the k strongest features for or against a class.

        target="all" shows every class at once: each word or region in the colour of the class it speaks most for. Pictures are
        drawn where the terminal has colours enough.
        """
        from aimwise.render.terminal import show

        show(self._opened(), target=target, k=k)

    def _repr_html_(self) -> str:
        from aimwise.render.notebook import inline

        return inline(self._opened())

    def _opened(self) -> Explanation:
        """The same record to draw: a class that was not explained has weights of 0."""
        return self if self.only is None else replace(self, only=None)

    def __repr__(self) -> str:
        rows, d, c = self.weights.shape
        head = f"Explanation by {self.method}: {rows} row{'s' * (rows != 1)}, {d} features, {c} classes"
        head += " (the predicted one alone)" if self.only is not None else ""
        if self.check is not None and rows:
            head += (
                f", agreement with the black box {float(self.check.agreement.mean()):.2f} "
                f"(without weights {float(self.check.without.mean()):.2f})"
            )
        lines = [head]
        for i, row in enumerate(self[:5]):
            c = int(row.prediction[0])
            best = ", ".join(f"{name} {weight:+.2f}" for name, weight, *_ in row.top(3))
            trust = f" [agreement {float(row.check.agreement[0]):.2f}]" if row.check is not None else ""
            lines.append(f"  {i}: {self.classes[c]} ({float(row.probs[0, c]):.2f}): {best}{trust}")
        if rows > 5:
            lines.append(f"  ... {rows - 5} more")
        return "\n".join(lines)
