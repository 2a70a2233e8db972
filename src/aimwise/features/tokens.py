"""Token ids as features, for black boxes that take a matrix of ids made by their own tokenizer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import BadFeatures, BadSetting, unknown
from aimwise.features.base import Features
from aimwise.features.words import SWAPPED, TextLayout, lacking_texts
from aimwise.gates import GatedIds

TOKEN_FILLS = ("in_place", "packed", "zero")


@dataclass(eq=False)
class Tokens(Features):
    """Every token that is not padding is a feature.

    fill: "in_place" (the token is replaced by `token`, by default padding, where it stands), "packed" (the kept tokens move
    to the front, padding follows) or "zero" (its embedding is scaled; only then may a token be kept by a share).
    ids: how many different ids there are; learned from the inputs if not given. words: what each id stands for, to show it.
    """

    kind: ClassVar[str] = "text"

    fill: str = "in_place"
    pad: int = 0
    token: int | None = None
    ids: int | None = None
    words: Sequence[str] | None = None
    count_: int = field(init=False, repr=False)

    def fit(self, inputs: Any) -> Tokens:
        """A copy that knows how many ids there are."""
        self._check_settings()
        table = as_ids(inputs)
        new = copy.copy(self)
        seen = int(table.max()) + 1 if table.numel() else 1
        new.words = None if self.words is None else list(self.words)
        new.count_ = max(self.ids or 0, len(new.words or ()), seen, self.pad + 1)
        if new.words is not None and len(new.words) < seen:
            raise BadFeatures(f"Got the id {seen - 1}, but words names only {len(new.words)} ids. Pass a word for every id.")
        return new

    def _check_settings(self) -> None:
        if self.fill not in TOKEN_FILLS:
            raise unknown("fill", self.fill, TOKEN_FILLS)
        if self.pad < 0 or (self.token is not None and self.token < 0):
            raise BadSetting(f"Got pad={self.pad}, token={self.token}; ids are not below 0.")

    @property
    def fitted(self) -> bool:
        return "count_" in self.__dict__

    @property
    def names(self) -> None:
        return None

    @property
    def soft(self) -> Bool[Tensor, ""]:
        return torch.tensor(self.fill == "zero")

    @property
    def inside(self) -> str | None:
        return "zero" if self.fill == "zero" else None

    @property
    def fills(self) -> tuple[str, ...]:
        return self.fill, "in_place" if self.fill == "packed" else "packed"

    @property
    def random(self) -> bool:
        return False

    def softened(self) -> Tokens:
        return self.filled("zero")

    @property
    def layout(self) -> TextLayout:
        return TextLayout(self.count_ + 1)

    def encode(self, inputs: Any) -> Batch:
        table = as_ids(inputs)
        if table.numel() and int(table.max()) >= self.count_:
            raise BadFeatures(f"Got the id {int(table.max())}, wanted ids below {self.count_}. Pass ids=... when making Tokens.")
        present = table != self.pad
        x = torch.where(present, table + 1, 0).int()  # networks take 0 for padding
        return Batch(x, present, table)

    def trim(self, batch: Batch) -> Batch:
        last = torch.where(batch.present, torch.arange(1, batch.present.shape[1] + 1, device=batch.present.device), 0)
        width = max(int(last.max()), 1) if len(batch) else 1
        return Batch(batch.x[:, :width], batch.present[:, :width], batch.raw)

    def dim(self, batch: Batch, z: Float[Tensor, "B d"], rng: torch.Generator) -> Tensor | GatedIds:
        table = ids_of(batch)
        if self.fill == "zero":
            beyond = torch.ones(len(z), table.shape[1] - z.shape[1], dtype=z.dtype, device=z.device)
            share = torch.cat([torch.where(batch.present, z, 1.0), beyond], 1)
            return GatedIds(table, share)
        keep = torch.zeros_like(table, dtype=torch.bool)
        keep[:, : z.shape[1]] = z.to(table.device) > 0.5
        keep &= table != self.pad
        if self.fill == "packed":
            order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)
            return torch.where(keep, table, self.pad).gather(1, order)
        instead = self.pad if self.token is None else self.token
        return torch.where(keep | (table == self.pad), table, instead)

    def placed(self, batch: Batch) -> Tensor:
        return ids_of(batch)

    def lacking(self, rows: int, least: int) -> int:
        return lacking_texts(rows, least)

    def enlarged(self, batch: Batch, more: int, rng: torch.Generator) -> Batch:
        table, there = ids_of(batch).cpu(), batch.present.cpu()
        rows = torch.randint(len(table), (more,), generator=rng)
        new, free = table[rows], there[rows]
        other = torch.randint(self.count_ - 1, new.shape, generator=rng) if self.count_ > 1 else new
        other = other + (other >= self.pad)  # any id but padding, those of words that stand in no text here too
        new = torch.where((torch.rand(new.shape, generator=rng) < SWAPPED) & free, other, new)
        return self.encode(torch.cat([table, new]).to(ids_of(batch).device)).to(batch.x.device)

    def spread(self, batch: Batch, z: Float[Tensor, "*B d"]) -> Float[Tensor, "*B d"]:
        return z

    def values(self, batch: Batch) -> np.ndarray:
        named = list(map(str, range(self.count_))) if self.words is None else list(self.words)
        shown = np.array([*named, ""], dtype=object)  # the last is for places that have no token
        found: np.ndarray = shown[torch.where(batch.present, ids_of(batch).to(batch.present.device), len(named)).cpu().numpy()]
        return found

    def config(self) -> dict[str, Any]:
        return {"settings": {f.name: getattr(self, f.name) for f in fields(self) if f.init}, "count": self.count_}

    def tensors(self) -> dict[str, Tensor]:
        return {}

    @classmethod
    def restore(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Tokens:
        new = cls(**config["settings"])
        new._check_settings()
        new.count_ = int(config["count"])
        return new


def ids_of(batch: Batch) -> Tensor:
    """The raw ids of a batch that `encode` made."""
    assert isinstance(batch.raw, Tensor)
    return batch.raw


def as_ids(inputs: Any) -> Tensor:
    """A matrix of ids."""
    try:
        table = (
            inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.asarray(inputs).astype(np.int64, casting="same_kind"))
        )
    except (ValueError, TypeError) as e:
        raise BadFeatures(f"Tokens expects whole numbers of shape (n, length) ({e}). Pad the rows to one length.") from e
    if table.ndim != 2 or table.is_floating_point() or table.dtype == torch.bool or table.is_complex():
        raise BadFeatures(f"Tokens expects whole numbers of shape (n, length), got {table.dtype} {tuple(table.shape)}.")
    if table.numel() and int(table.min()) < 0:
        raise BadFeatures(f"Got the id {int(table.min())}, wanted ids of 0 and above.")
    return table.long()
