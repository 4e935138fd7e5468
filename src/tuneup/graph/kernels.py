"""Sparse products as operators of our own over torch's CSR kernels.

Each operator takes plain tensors and carries its own transpose, so that a backward pass never has
to sort: ``t_rowptr, t_col, t_value`` describe the transposed matrix.  Nothing here ever holds an
edges-by-width tensor.  They are ``torch.library`` operators with fake, autograd and autocast rules:
``torch.compile`` sees through them and autocast runs them in float32.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from . import csr


@cache
def _hear_out_torch() -> None:
    """Torch says once that CSR is in beta: let it say so here, to no one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.empty(0, dtype=torch.long), [], (1, 1))


def csr_matrix(rowptr: Tensor, col: Tensor, value: Tensor, num_cols: int) -> Tensor:
    """Torch's own matrix of the entries, which are not checked."""
    _hear_out_torch()
    size = (rowptr.numel() - 1, num_cols)
    return torch.sparse_csr_tensor(rowptr, col, value, size, check_invariants=False)


def csr_reduce(rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, how: str) -> Tensor:
    """``out[i] = reduce over k in row i of value[k] * x[col[k]]``; an empty row gives zeros."""
    if x.is_cpu:
        matrix = csr_matrix(rowptr, col, value, x.shape[0])
        out: Tensor = torch.sparse.mm(matrix, x.contiguous(), how)
        return out
    return reduce_by_segments(rowptr, col, value, x, how)


def reduce_by_segments(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, how: str, budget: int = 1 << 26
) -> Tensor:
    """The same product for devices without the CSR kernel, a slice of the width at a time.

    Gathered messages are ``[E, w]``; ``w`` is chosen so that they stay below ``budget`` entries.
    """
    out = x.new_zeros(rowptr.numel() - 1, x.shape[1])
    row = torch.arange(out.shape[0], device=x.device).repeat_interleave(rowptr.diff())
    width = max(1, budget // max(1, col.numel()))
    for start in range(0, x.shape[1], width):
        part = x[:, start : start + width].index_select(0, col) * value[:, None]
        target = out[:, start : start + width]
        if how == "sum":
            target.index_add_(0, row, part)
        else:
            index = row[:, None].expand_as(part)
            target.scatter_reduce_(0, index, part, "amax", include_self=False)
    return out


def is_special(x: Tensor) -> bool:
    """Whether only an operator will do: torch traces it, or decides on its precision."""
    return torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)


def propagate(
    rowptr: Tensor, col: Tensor, value: Tensor, diagonal: Tensor | None, x: Tensor
) -> Tensor:
    """``A x + diag(diagonal) x[:rows]`` without a gradient."""
    out = csr_reduce(rowptr, col, value.to(x.dtype), x, "sum")
    if diagonal is not None:
        rows = diagonal.numel()
        out[:rows].addcmul_(x[:rows], diagonal[:, None].to(x.dtype))
    return out


@custom_op("tuneup::spmm", mutates_args=())
def spmm(
    rowptr: Tensor,
    col: Tensor,
    value: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_value: Tensor,
    diagonal: Tensor | None,
    x: Tensor,
) -> Tensor:
    """``out = A x + diag(diagonal) x[:rows]`` for a CSR matrix ``A [R, C]`` and ``x [C, d]``."""
    return propagate(rowptr, col, value, diagonal, x)


@spmm.register_fake
def _(rowptr: Tensor, *others: Tensor) -> Tensor:
    return others[-1].new_empty(rowptr.numel() - 1, others[-1].shape[1])


def _spmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:-1])


def _spmm_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    rowptr, col, value, t_rowptr, t_col, t_value, diagonal = ctx.saved_tensors
    grad_x = spmm(t_rowptr, t_col, t_value, rowptr, col, value, diagonal, grad)
    return (None,) * 7 + (grad_x,)


spmm.register_autograd(_spmm_backward, setup_context=_spmm_setup)


@custom_op("tuneup::spmax", mutates_args=())
def spmax(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Largest neighbour value per row and column, and which node it came from.

    ``out[i, j] = max over k in row i of x[col[k], j]``; ``winner[i, j]`` is that node, the first of
    tied neighbours, and -1 (with ``out = 0``) for a row without neighbours.
    """
    ones = x.new_ones(col.numel())
    if x.is_cpu and col.numel():  # without entries the CSR kernel names no winner
        # The public `torch.sparse.mm(..., "amax")` keeps the winning entries to itself, and keeps
        # them only if it thinks that a gradient is wanted: hence the operator underneath it.
        with torch.enable_grad():
            wanted = x.detach().contiguous()
            wanted = (wanted.clone() if wanted.is_inference() else wanted).requires_grad_()
            matrix = csr_matrix(rowptr, col, ones, x.shape[0])
            out, entry = torch.ops.aten._sparse_mm_reduce_impl(matrix, wanted, "amax")
        out = out.detach()
    else:
        out = reduce_by_segments(rowptr, col, ones, x, "amax")
        entry = first_winner(rowptr, col, x, out)
    nobody = col.new_full((1,), -1)
    return out, torch.cat([col, nobody]).to(torch.int32)[entry]


def first_winner(rowptr: Tensor, col: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The first entry of each row that attains ``out``, a column at a time; ``E`` for none."""
    row = torch.arange(out.shape[0], device=x.device).repeat_interleave(rowptr.diff())
    entry = torch.arange(col.numel(), device=x.device)
    winners = torch.full(out.shape, col.numel(), dtype=torch.long, device=x.device)
    for j in range(out.shape[1]):
        attained = x[:, j].index_select(0, col) == out[:, j].index_select(0, row)
        candidate = torch.where(attained, entry, col.numel())
        winners[:, j].scatter_reduce_(0, row, candidate, "amin")
    return winners


@spmax.register_fake
def _(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    shape = (rowptr.numel() - 1, x.shape[1])
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)


def _spmax_setup(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])
    ctx.num_cols = inputs[2].shape[0]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _spmax_backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[None, None, Tensor | None]:
    if grad is None:
        return None, None, None
    (winner,) = ctx.saved_tensors
    # One row more than there are nodes takes what empty rows send to node -1.
    index = winner.long().remainder_(ctx.num_cols + 1)
    grad_x = grad.new_zeros(ctx.num_cols + 1, grad.shape[1]).scatter_add_(0, index, grad)
    return None, None, grad_x[:-1]


spmax.register_autograd(_spmax_backward, setup_context=_spmax_setup)


# Inner products of listed pairs


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
    """``<a_i, b_j>`` of every listed pair ``[E]``, without gathering a row per pair.

    Both gradients are sparse products with the pairs' gradients as weights: ``P(g) b`` and
    ``P(g)^T a`` with ``P(g)_ij = g_k``. Indexing would hold three pairs-by-width tensors, and add
    their gradients up one pair at a time.
    """
    row = csr.rows_of(rowptr, col.numel())
    return sampled_product(rowptr, col, row, a, b.contiguous())


@pair_dots.register_fake
def _(rowptr: Tensor, col: Tensor, *others: Tensor) -> Tensor:
    return others[-1].new_empty(col.numel())


def _pairs_setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _pairs_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    rowptr, col, t_rowptr, t_col, order, a, b = ctx.saved_tensors
    grad_a = csr_reduce(rowptr, col, grad, b, "sum")
    grad_b = csr_reduce(t_rowptr, t_col, grad.index_select(0, order), a, "sum")
    return (None,) * 5 + (grad_a, grad_b)


pair_dots.register_autograd(_pairs_backward, setup_context=_pairs_setup)

for _operator in (spmm, spmax, pair_dots):
    for _device in ("cpu", "cuda"):
        _operator.register_autocast(_device, torch.float32)


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
