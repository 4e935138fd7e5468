"""Inner products at listed places of a matrix product, without the rest of it."""

from __future__ import annotations

import torch
from torch import Tensor

from .kernels import csr_matrix


def sampled_product(rowptr: Tensor, col: Tensor, row: Tensor, g: Tensor, x: Tensor) -> Tensor:
    """``<g_i, x_j>`` for every stored entry (i, j): the gradient of a weight ``[E]``."""
    size = (rowptr.numel() - 1, x.shape[0])
    if g.is_cpu and col.numel() <= size[0] * size[1]:  # torch refuses more entries than places
        pattern = csr_matrix(rowptr, col, g.new_zeros(col.numel()), size[1])
        product = torch.sparse.sampled_addmm(pattern, g.contiguous(), x.t(), beta=0.0)
        values: Tensor = product.values()
        return values
    return sampled_by_parts(col, row, g, x)


def sampled_by_parts(
    col: Tensor, row: Tensor, g: Tensor, x: Tensor, budget: int = 1 << 26
) -> Tensor:
    """The same for devices without the CSR kernel, as many edges at a time as ``budget`` allows."""
    out = g.new_empty(col.numel())
    step = max(1, budget // max(1, g.shape[1]))
    for k in range(0, col.numel(), step):
        part = slice(k, k + step)
        out[part] = (g.index_select(0, row[part]) * x.index_select(0, col[part])).sum(1)
    return out
