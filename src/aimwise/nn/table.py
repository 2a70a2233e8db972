"""Networks for tables. All but the released ones know which column a value stands in and see the rest of the row."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aimwise.features.columns import TableLayout

CELL = 8
HIDDEN = 256


class Cells(nn.Module):
    """Every cell of a row as a small vector of its own column: piecewise linear in a number, looked up for a category."""

    numeric: Tensor
    left: Tensor
    width: Tensor
    offset: Tensor

    def __init__(self, layout: TableLayout, size: int = CELL) -> None:
        super().__init__()
        self.register_buffer("numeric", layout.numeric)
        self.register_buffer("left", layout.edges[:, :-1].contiguous())
        width = layout.edges[:, 1:] - layout.edges[:, :-1]
        self.register_buffer("width", width)
        self.register_buffer("offset", layout.codes.cumsum(0) - layout.codes)
        columns, bins = width.shape
        self.slope = nn.Parameter(torch.randn(columns, bins + 1, size) / (bins + 1) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(columns, size))
        self.missing = nn.Parameter(torch.randn(columns, size) * 0.1)
        self.table = nn.Embedding(max(int(layout.codes.sum()), 1), size)
        self.size = columns * size

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B p e"]:
        missing = x.isnan() & self.numeric
        value = torch.where(self.numeric, x, 0.0).nan_to_num().clamp(-8, 8)  # (B, p)
        share = (value[..., None] - self.left) / self.width.clamp_min(1e-6)  # (B, p, bins)
        share = torch.where(self.width > 0, share.clamp(0, 1), 0.0)
        numbers = torch.einsum("bpt,pte->bpe", torch.cat([share, value[..., None]], -1), self.slope) + self.bias
        codes = torch.where(self.numeric, 0.0, x.nan_to_num()).long() + self.offset
        levels = self.table(codes.clamp_max(self.table.num_embeddings - 1))
        cells = torch.where(self.numeric[:, None], numbers, levels)
        return torch.where(missing[..., None], self.missing, cells)


class RowReader(nn.Module):
    """A whole row, cell by cell, through two dense layers; `also` more numbers may come with it."""

    def __init__(self, layout: TableLayout, also: int = 0) -> None:
        super().__init__()
        self.cells = Cells(layout)
        self.dense = nn.Sequential(nn.Linear(self.cells.size + also, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU())

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B h"]:
        return self.read(self.cells(x))

    def read(self, cells: Float[Tensor, "B p e"], also: Float[Tensor, "B a"] | None = None) -> Float[Tensor, "B h"]:
        """The row from its cells."""
        row = cells.flatten(1)
        out: Tensor = self.dense(row if also is None else torch.cat([row, also], 1))
        return out


class TableExplainer(nn.Module):
    """E: what each cell says by itself, changed by the rest of the row and by what the black box says of it.

    The weights of a feature add up to 0 over the classes, since softmax cannot tell them from any other that do not.
    """

    owner: Tensor

    def __init__(self, layout: TableLayout, classes: int) -> None:
        super().__init__()
        self.register_buffer("owner", layout.owner)
        self.row = RowReader(layout, classes)
        self.alone = nn.Parameter(torch.randn(len(layout.owner), CELL, classes) * 0.1 / CELL**0.5)
        self.head = small_head(layout.features * classes)
        self.shape = (layout.features, classes)

    def forward(self, x: Float[Tensor, "B p"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        cells = self.row.cells(x)  # (B, p, e)
        alone = torch.einsum("bpe,pec->bpc", cells, self.alone)
        W: Tensor = self.head(self.row.read(cells, probs)).unflatten(1, self.shape)
        W = W.index_add(1, self.owner, alone)
        return W - W.mean(-1, keepdim=True)


class PlainTableExplainer(nn.Module):
    """E of the paper: the whole row to a weight for every feature and class, from the input alone."""

    def __init__(self, layout: TableLayout, classes: int) -> None:
        super().__init__()
        self.row = RowReader(layout)
        self.head = small_head(layout.features * classes)
        self.shape = (layout.features, classes)

    def forward(self, x: Float[Tensor, "B p"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        W: Tensor = self.head(self.row(x)).unflatten(1, self.shape)
        return W


class TableSelector(nn.Module):
    """S: the whole row to the probability that each feature is kept."""

    def __init__(self, layout: TableLayout) -> None:
        super().__init__()
        self.row = RowReader(layout)
        self.head = small_head(layout.features)

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B d"]:
        pi: Tensor = self.head(self.row(x)).sigmoid()
        return pi


class TableApproximator(nn.Module):
    """G: the kept part of a row to the class scores of the whole; what is not kept is a zero vector."""

    def __init__(self, layout: TableLayout, classes: int) -> None:
        super().__init__()
        self.row = RowReader(layout)
        self.head = nn.Linear(HIDDEN, classes)

    def forward(self, x: Float[Tensor, "B p"], z: Float[Tensor, "B p"]) -> Float[Tensor, "B C"]:
        scores: Tensor = self.head(self.row.read(self.row.cells(x) * z[..., None]))
        return scores


class CellExplainer(nn.Module):
    """E as released: one small network for all cells, which sees the value of a cell and nothing else."""

    owner: Tensor

    def __init__(self, layout: TableLayout, classes: int) -> None:
        super().__init__()
        self.register_buffer("owner", layout.owner)
        self.features = layout.features
        self.net = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, classes))

    def forward(self, x: Float[Tensor, "B p"], probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        cells: Tensor = self.net(x.nan_to_num()[..., None])  # (B, p, C)
        return cells.new_zeros(len(x), self.features, cells.shape[2]).index_add(1, self.owner, cells)


class CellSelector(nn.Module):
    """S as released: one small network for all cells."""

    owner: Tensor

    def __init__(self, layout: TableLayout) -> None:
        super().__init__()
        self.register_buffer("owner", layout.owner)
        self.features = layout.features
        self.net = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 1))

    def forward(self, x: Float[Tensor, "B p"]) -> Float[Tensor, "B d"]:
        cells: Tensor = self.net(x.nan_to_num()[..., None]).squeeze(-1)  # (B, p)
        return cells.new_zeros(len(x), self.features).index_add(1, self.owner, cells).sigmoid()


class CellApproximator(nn.Module):
    """G as released: the kept values to the class scores."""

    def __init__(self, layout: TableLayout, classes: int) -> None:
        super().__init__()
        sizes = len(layout.owner), 20, 20, classes
        self.net = nn.Sequential(
            nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]), nn.ReLU(), nn.Linear(sizes[2], sizes[3])
        )

    def forward(self, x: Float[Tensor, "B p"], z: Float[Tensor, "B p"]) -> Float[Tensor, "B C"]:
        scores: Tensor = self.net(x.nan_to_num() * z)
        return scores


def small_head(outputs: int) -> nn.Linear:
    """A last layer that starts near 0: no feature speaks for anything until the data make it."""
    head = nn.Linear(HIDDEN, outputs)
    with torch.no_grad():
        head.weight *= 0.1
    return head
