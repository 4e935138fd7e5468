"""Node features: dense, or sparse rows that stay sparse through the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

from .adjacency import SparseMatrix, sparse_matrix

Features = Tensor | SparseMatrix
"""Node features ``[N, d]``."""


def take_features(x: Features, nodes: Tensor) -> Features:
    """Rows ``nodes`` of dense or sparse features."""
    return x.take_rows(nodes) if isinstance(x, SparseMatrix) else x.index_select(0, nodes)


def sparse_features(x: Tensor) -> SparseMatrix:
    """Features of any torch layout as sparse rows."""
    csr = x.to_sparse_csr() if x.layout != torch.sparse_csr else x
    value = csr.values().float()
    return sparse_matrix(csr.crow_indices().long(), csr.col_indices().long(), value, x.shape[1])


def feature_tensors(x: Features) -> tuple[Tensor, ...]:
    """What the features consist of, for a digest."""
    return (x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)
