"""MAPLE: a local linear model on the neighbours that a forest finds (Plumb et al., NeurIPS 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadSetting
from aimwise.explainers.base import Explainer
from aimwise.explainers.plain import table_owner, table_rows, word_counts
from aimwise.masked import Masked

JUDGES = 200  # held-out rows, at most, that tell how many columns to keep
KEPT = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100)
MOST_COUNTED = 255  # a word that comes more often in a text counts as this often


@dataclass(frozen=True)
class Forest:
    """The trees of a forest one after the other, as far as finding leaves needs them; a leaf is its own child."""

    roots: np.ndarray  # (T,)
    feature: np.ndarray  # (nodes,)
    threshold: np.ndarray  # (nodes,)
    left: np.ndarray  # (nodes,)
    right: np.ndarray  # (nodes,)

    def leaves(self, rows: np.ndarray) -> np.ndarray:
        """The leaf that each row falls into in every tree: (n, T)."""
        at = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        number = np.arange(len(rows))[:, None]
        while True:
            down = np.where(rows[number, self.feature[at]] <= self.threshold[at], self.left[at], self.right[at])
            if (down == at).all():
                return at
            at = down

    def membership(self, rows: np.ndarray) -> Any:
        """The same as a sparse (n, nodes) matrix of ones."""
        from scipy.sparse import csr_matrix

        leaves = self.leaves(rows)
        row = np.repeat(np.arange(len(rows)), len(self.roots))
        return csr_matrix((np.ones(leaves.size), (row, leaves.ravel())), shape=(len(rows), len(self.left)))


@dataclass(eq=False, repr=False)
class MAPLE(Explainer):
    """A random forest says which training rows are neighbours of an input; a ridge regression on them explains it.

    A column's weight is its coefficient times how far its value is from the neighbours' mean; texts are bags of words, and a
    word that comes twice has half the weight at each place.
    trees, least_leaf, share: how many trees, the fewest rows in a leaf, and the share of columns tried at a split. ridge: the
    penalty of the local regression. words: how many of the most frequent words are read. most_rows: learn from so many inputs at
    most, evenly spaced.
    """

    method: ClassVar[str] = "maple"
    kinds: ClassVar[tuple[str, ...]] = ("table", "text")
    rows_at_once: ClassVar[int] = 64

    trees: int = 200
    least_leaf: int = 10
    share: float = 0.5
    ridge: float = 1e-3
    words: int = 1000
    most_rows: int = 5000

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        if min(self.trees, self.least_leaf, self.words) < 1 or not 0 < self.share <= 1 or self.ridge <= 0 or self.most_rows < 2:
            raise BadSetting(
                f"Got trees={self.trees}, least_leaf={self.least_leaf}, words={self.words}, most_rows={self.most_rows}, "
                f"share={self.share}, ridge={self.ridge}; wanted whole numbers of at least 1 (2 rows), a share in (0, 1] and a "
                "ridge above 0."
            )

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        some = torch.linspace(0, len(data) - 1, min(len(data), self.most_rows)).long()
        data, target = data.pick(some), probs[some.to(probs.device)].cpu().double().numpy()
        self.vocabulary_ = np.zeros(0, dtype=np.int64)
        if box.features.kind == "text":
            often = np.asarray(word_counts(data, box.features.layout.ids).sum(0)).ravel()
            self.vocabulary_ = np.sort(np.argsort(-often, kind="stable")[: min(self.words, max(int((often > 0).sum()), 1))])
        rows = self._rows(box, data)
        order = np.random.default_rng(seed % 2**32).permutation(len(rows))
        judges = order[: min(JUDGES, len(rows) // 5)]
        learn = np.setdiff1d(order, judges)
        self.forest_, rank = grown(rows[learn], target[learn], self.trees, self.least_leaf, self.share, seed % 2**32)
        self.rows_, self.target_ = rows[learn], target[learn]
        self.kept_ = rank[:1]
        self._settle()
        errors = {}
        for count in sorted({*(k for k in KEPT if k < len(rank)), min(len(rank), KEPT[-1])}) if len(judges) else ():
            guessed = [
                (x[rank[:count]] - mean) @ slope + level for x, mean, slope, level in self._local(rows[judges], rank[:count])
            ]
            errors[count] = float(((np.stack(guessed) - target[judges]) ** 2).mean())
        self.kept_ = rank[: min(errors, key=errors.__getitem__)] if errors else rank[: KEPT[-1]]

    def _rows(self, box: Masked, batch: Batch) -> np.ndarray:
        if box.features.kind == "text":
            counts = word_counts(batch, box.features.layout.ids)[:, self.vocabulary_].toarray()
            return np.asarray(np.minimum(counts, MOST_COUNTED), dtype=np.float32)
        return table_rows(box.features.layout, batch.x).astype(np.float32)

    def _settle(self) -> None:
        """Put the training rows into their leaves, each with the weight it has there."""
        from scipy.sparse import diags

        member = self.forest_.membership(self.rows_)
        size = np.asarray(member.sum(0)).ravel()
        self.members_ = (member @ diags(1 / np.maximum(size, 1) / len(self.forest_.roots))).T.tocsr()  # (nodes, N)

    def _local(self, rows: np.ndarray, kept: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """For each row: itself, its neighbours' mean of the kept columns, the coefficients (k, C), and the mean answer (C,)."""
        near = (self.forest_.membership(rows) @ self.members_).tocsr()  # (n, N), the weights of a row add up to 1
        for i, row in enumerate(rows):
            there = near.indices[near.indptr[i] : near.indptr[i + 1]]
            weight = near.data[near.indptr[i] : near.indptr[i + 1], None]
            x, y = self.rows_[there][:, kept].astype(np.float64), self.target_[there]
            mean, level = (weight * x).sum(0), (weight * y).sum(0)
            x = x - mean
            slope = np.linalg.solve(x.T @ (weight * x) + self.ridge * np.eye(len(kept)), x.T @ (weight * (y - level)))
            yield row, mean, slope, level

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        rows = self._rows(box, batch)
        parts = [(x[self.kept_] - mean)[:, None] * slope for x, mean, slope, _ in self._local(rows, self.kept_)]
        found = np.zeros((len(rows), rows.shape[1] + 1, probs.shape[1]))  # the last is for words that are not read
        if len(rows):
            found[:, self.kept_] = np.stack(parts)
        if box.features.kind == "text":
            found[:, :-1] /= np.maximum(rows, 1)[..., None]
            place = np.full(box.features.layout.ids, rows.shape[1])
            place[self.vocabulary_] = np.arange(rows.shape[1])
            W = found[np.arange(len(rows))[:, None], place[batch.x.cpu().numpy()]]  # (B, d, C)
        else:
            owner = table_owner(box.features.layout)[:, None] == np.arange(batch.present.shape[1])  # (q, d)
            W = np.einsum("bqc,qd->bdc", found[:, :-1], owner.astype(float))
        return torch.from_numpy(W).to(probs)

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        counts = len(self.vocabulary_) > 0
        arrays = {f"forest.{name}": array for name, array in vars(self.forest_).items()}
        arrays |= {"vocabulary": self.vocabulary_, "kept": self.kept_, "target": self.target_}
        arrays["rows"] = self.rows_.astype(np.uint8) if counts else self.rows_
        return {}, {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.forest_ = Forest(**{name.removeprefix("forest."): a for name, a in arrays.items() if name.startswith("forest.")})
        self.vocabulary_, self.kept_, self.target_ = arrays["vocabulary"], arrays["kept"], arrays["target"]
        self.rows_ = arrays["rows"].astype(np.float32)
        self._settle()


def grown(
    rows: np.ndarray, target: np.ndarray, trees: int, least_leaf: int, share: float, seed: int
) -> tuple[Forest, np.ndarray]:
    """A forest for the answers, and the columns by what the first split of every tree gains, those of no use left out."""
    from sklearn.ensemble import RandomForestRegressor

    target = target[:, 0] if target.shape[1] == 2 else target  # the other class would say the same
    model = RandomForestRegressor(trees, min_samples_leaf=least_leaf, max_features=share, random_state=seed).fit(rows, target)
    parts = [tree.tree_ for tree in model.estimators_]
    counts = np.array([tree.node_count for tree in parts])
    start = np.cumsum(counts) - counts
    gain = np.zeros(rows.shape[1])
    left, right, feature = [], [], []
    for tree, first in zip(parts, start, strict=True):
        own = np.arange(tree.node_count)
        leaf = tree.children_left < 0
        left.append(first + np.where(leaf, own, tree.children_left))
        right.append(first + np.where(leaf, own, tree.children_right))
        feature.append(np.where(leaf, 0, tree.feature))
        if not leaf[0]:
            a, b, n, impurity = tree.children_left[0], tree.children_right[0], tree.weighted_n_node_samples, tree.impurity
            gain[tree.feature[0]] += impurity[0] - (n[a] * impurity[a] + n[b] * impurity[b]) / n[0]
    threshold = np.concatenate([tree.threshold for tree in parts])
    forest = Forest(start, np.concatenate(feature), threshold, np.concatenate(left), np.concatenate(right))
    rank = np.argsort(-gain, kind="stable")[: max(int((gain > 0).sum()), 1)]
    return forest, rank
