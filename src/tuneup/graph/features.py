"""Node features: dense, or sparse rows that stay sparse through the first layer.

Features that a network draws are a product of two narrow factors, and stay one: see
:class:`Factored`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .matrix import SparseMatrix

if TYPE_CHECKING:
    from .adjacency import Adjacency

Features = Tensor | SparseMatrix
"""Node features ``[N, d]``."""


@dataclass(frozen=True, eq=False)
class Factored:
    """Rows ``left @ right + bias`` ``[N, d]`` that are not multiplied out.

    What a linear map makes of them takes ``N r`` numbers, not ``N d``: it maps the factor.
    """

    left: Tensor
    """[N, r]"""
    right: Tensor
    """[r, d]"""
    bias: Tensor
    """[d]"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        return self.left.shape[0], self.right.shape[1]

    def detach(self) -> Factored:
        """The same rows, without a gradient."""
        return Factored(self.left.detach(), self.right.detach(), self.bias.detach())

    def linear(self, weight: Tensor) -> Tensor:
        """``x W^T`` for a weight ``[out, d]``."""
        mapped = weight @ torch.cat([self.right, self.bias[None]]).t()
        return torch.addmm(mapped[:, -1], self.left, mapped[:, :-1].t())

    def squared_distance(self, other: Features) -> Tensor:
        """From each row to that of the other ``[N]``; from sparse rows without being formed.

        ``|a - b|^2 = |a|^2 - 2 a b + |b|^2``, with ``|a|^2`` by way of ``right @ right^T``; not in
        half precision, since the terms cancel where rows are close.
        """
        if isinstance(other, Tensor):
            return (dense(self) - other).square().sum(1)
        with torch.autocast(self.left.device.type, enabled=False):
            left = torch.cat([self.left, torch.ones_like(self.left[:, :1])], 1).float()
            right = torch.cat([self.right, self.bias[None]]).float()
            norms = ((left @ (right @ right.t())) * left).sum(1)
            products = ((other @ right.t()) * left).sum(1)
            rows = csr.rows_of(other.rowptr, other.col.numel())
            own = torch.zeros_like(norms).index_add(0, rows, other.value.float().square())
            return norms - 2 * products + own


Inputs = Features | Factored
"""What a layer reads ``[N, d]``."""


def take_features(x: Features, nodes: Tensor) -> Features:
    """Rows ``nodes`` of dense or sparse features."""
    return x.take_rows(nodes) if isinstance(x, SparseMatrix) else x.index_select(0, nodes)


def stack_features(above: Features, below: Features) -> Features:
    """The rows of both, which are of one kind."""
    if isinstance(above, Tensor) and isinstance(below, Tensor):
        return torch.cat([above, below])
    assert isinstance(above, SparseMatrix)
    assert isinstance(below, SparseMatrix)
    rowptr = torch.cat([above.rowptr, below.rowptr[1:] + above.col.numel()])
    col, value = (
        torch.cat([getattr(part, name) for part in (above, below)]) for name in ("col", "value")
    )
    return SparseMatrix(rowptr, col, value, above.num_cols)


def dense(x: Inputs) -> Tensor:
    """The features as a dense tensor."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Factored):
        return torch.addmm(x.bias, x.left, x.right)
    out = x.value.new_zeros(x.shape)
    where = (csr.rows_of(x.rowptr, x.col.numel()), x.col)
    return out.index_put_(where, x.value, accumulate=True)


def sparse_features(x: Tensor) -> SparseMatrix:
    """Features of any torch layout as sparse rows; what is stored twice is added up."""
    if x.layout == torch.sparse_csr:  # which torch takes to hold nothing twice
        rowptr, col = x.crow_indices().long(), x.col_indices().long()
        row = csr.rows_of(rowptr, col.numel())
        x = torch.sparse_coo_tensor(torch.stack([row, col]), x.values(), x.shape)
    coo = x.to_sparse_coo().coalesce()  # not by way of torch's CSR, which warns that it is young
    row, col = coo.indices()
    return SparseMatrix(csr.rowptr_of(row, x.shape[0]), col, coo.values().float(), x.shape[1])


def identities(known: Tensor) -> SparseMatrix:
    """Who each node is, in place of features: a one-hot row for each node that is ``known [N]``.

    Columns are the known nodes in their order; the row of every other node is empty.  Such rows are
    taken, induced and saved like features, and never made dense.
    """
    if known.dtype != torch.bool or known.dim() != 1:
        raise InputError(
            f"known must be a boolean tensor, one value a node; got {known.dtype} of shape "
            f"{list(known.shape)}."
        )
    rowptr = csr.pointer(known)
    count = int(rowptr[-1])
    each = torch.arange(count, device=known.device)
    return SparseMatrix(rowptr, each, torch.ones(count, device=known.device), count)


def feature_tensors(x: Features) -> tuple[Tensor, ...]:
    """What the features consist of, for a digest."""
    return (x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)


_WORTH = 0.1
"""Entries to look at, as a share of a dense result's, up to which a sparse one is faster."""


def max_features(graph: Adjacency, x: SparseMatrix) -> Features:
    """Largest neighbour value per column ``[R, d]``, 0 without neighbours; without a gradient.

    Where no value is negative, a column's largest is one that is stored, if any neighbour has one:
    the result is as sparse as the features of a whole neighbourhood.  It is dense where there is
    nothing to gain by that.
    """
    graph.refuse_weights("a maximum over neighbours")
    sent = x.rowptr.diff()[graph.col]
    rows, columns = graph.num_rows, x.shape[1]
    if int(sent.sum()) > _WORTH * rows * columns or bool((x.value < 0).any()):
        return graph.max(dense(x))
    _, entries = csr.take_rows(x.rowptr, graph.col)
    place = graph.row.repeat_interleave(sent, output_size=entries.numel()) * columns
    place += x.col[entries]
    found, inverse = torch.unique(place, return_inverse=True)
    value = x.value.new_zeros(found.numel())
    value.scatter_reduce_(0, inverse, x.value[entries], "amax", include_self=False)
    return SparseMatrix(csr.rowptr_of(found // columns, rows), found % columns, value, columns)
