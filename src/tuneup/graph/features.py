"""Node features: dense, or sparse rows that stay sparse through the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

from tuneup.errors import InputError

from .adjacency import SparseMatrix, sparse_matrix
from .csr import rowptr_of, rows_of

Features = Tensor | SparseMatrix
"""Node features ``[N, d]``."""


def take_features(x: Features, nodes: Tensor) -> Features:
    """Rows ``nodes`` of dense or sparse features."""
    return x.take_rows(nodes) if isinstance(x, SparseMatrix) else x.index_select(0, nodes)


def dense(x: Features) -> Tensor:
    """The features as a dense tensor."""
    if isinstance(x, Tensor):
        return x
    out = torch.zeros(x.shape, device=x.col.device)
    out[rows_of(x.rowptr, x.col.numel()), x.col] = x.value
    return out


def sparse_features(x: Tensor) -> SparseMatrix:
    """Features of any torch layout as sparse rows."""
    if x.layout == torch.sparse_csr:
        rowptr, col, value = x.crow_indices().long(), x.col_indices().long(), x.values()
    else:  # not by way of torch's CSR, which warns that it is young
        coo = x.to_sparse_coo().coalesce()
        rowptr, col = rowptr_of(coo.indices()[0], x.shape[0]), coo.indices()[1]
        value = coo.values()
    return sparse_matrix(rowptr, col, value.float(), x.shape[1])


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
    rowptr = torch.zeros(known.numel() + 1, dtype=torch.long, device=known.device)
    torch.cumsum(known, 0, out=rowptr[1:])
    count = int(rowptr[-1])
    each = torch.arange(count, device=known.device)
    return sparse_matrix(rowptr, each, torch.ones(count, device=known.device), count)


def feature_tensors(x: Features) -> tuple[Tensor, ...]:
    """What the features consist of, for a digest."""
    return (x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)
