"""Inner products of listed pairs, without gathering a row per pair.

For pairs (i, j) listed in CSR, ``out_k = <a_i, b_j>`` is a sampled matrix product, and both
gradients are sparse products with the pairs' gradients as weights::

    grad_a = P(g) b        grad_b = P(g)^T a        P(g)_ij = g_k

Indexing would hold three pairs-by-width tensors, and add their gradients up one pair at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from . import csr
from .kernels import csr_reduce
from .sampled import sampled_product


@custom_op("tuneup::pair_dots", mutates_args=())
def pair_dots(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
) -> Tensor:
    """``<a_i, b_j>`` of every listed pair ``[E]``."""
    row = csr.rows_of(rowptr, col.numel())
    return sampled_product(rowptr, col, row, a, b.contiguous())


@pair_dots.register_fake
def _(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
) -> Tensor:
    return a.new_empty(col.numel())


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    rowptr, col, t_rowptr, t_col, order, a, b = ctx.saved_tensors
    grad_a = csr_reduce(rowptr, col, grad, b, "sum")
    grad_b = csr_reduce(t_rowptr, t_col, grad.index_select(0, order), a, "sum")
    return (None,) * 5 + (grad_a, grad_b)


pair_dots.register_autograd(_backward, setup_context=_setup)

for _device in ("cpu", "cuda"):
    pair_dots.register_autocast(_device, torch.float32)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (row, column) listed row after row, with their transpose."""

    rowptr: Tensor
    col: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    order: Tensor

    def dots(self, a: Tensor, b: Tensor) -> Tensor:
        """``<a_i, b_j>`` of every pair ``[E]``; ``a [rows, d]``, ``b [columns, d]``."""
        out: Tensor = pair_dots(self.rowptr, self.col, self.t_rowptr, self.t_col, self.order, a, b)
        return out


def pairs(rowptr: Tensor, col: Tensor, num_cols: int) -> Pairs:
    """Pairs from their rows; the transpose is made here."""
    t_rowptr, t_col, order = csr.transpose(rowptr, col, num_cols)
    return Pairs(rowptr, col, t_rowptr, t_col, order)
