"""Node features: dense, or sparse rows that stay sparse through the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

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


def feature_tensors(x: Features) -> tuple[Tensor, ...]:
    """What the features consist of, for a digest."""
    return (x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)
