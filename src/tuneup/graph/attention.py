"""Attention over neighbours as one operator that never holds an edges-by-width tensor.

For one head, with logits ``s_ij = LeakyReLU(a_j + b_i)`` over ``j`` in N(i) and, if asked for,
i itself::

    w_ij = exp(s_ij - m_i) / sum_k exp(s_ik - m_i)        out_i = sum_j w_ij x_j

LeakyReLU is monotone, so ``m_i = LeakyReLU(b_i + max_j a_j)`` costs one pass over nodes' numbers.
Only ``m`` and the denominators (nodes by heads) are kept for the backward pass, which recomputes
the weights head by head; the gradient of a weight is a sampled product.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import custom_op

from .csr import rows_of
from .kernels import csr_reduce


def _logits(row: Tensor, col: Tensor, a: Tensor, b: Tensor, slope: float) -> Tensor:
    """``s_ij`` of every entry ``[E]`` for one head."""
    return F.leaky_relu_(a.index_select(0, col).add_(b.index_select(0, row)), slope)


def _row_sum(rowptr: Tensor, col: Tensor, value: Tensor, num_cols: int) -> Tensor:
    """Sum of an entry-wise quantity ``[E]`` over each row: the matrix times a vector of ones."""
    return csr_reduce(rowptr, col, value, value.new_ones(num_cols, 1), "sum")[:, 0]


def _peak(rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor, slope: float) -> Tensor:
    """``m_i`` for one head; 0 for a row without neighbours."""
    top = csr_reduce(rowptr, col, a.new_ones(col.numel()), a[:, None], "amax")[:, 0]
    return torch.where(rowptr.diff() > 0, F.leaky_relu(top + b, slope), 0.0)


def sampled_product(rowptr: Tensor, col: Tensor, row: Tensor, g: Tensor, x: Tensor) -> Tensor:
    """``<g_i, x_j>`` for every stored entry (i, j): the gradient of a weight ``[E]``."""
    size = (rowptr.numel() - 1, x.shape[0])
    if g.is_cpu and col.numel() <= size[0] * size[1]:  # torch refuses more entries than places
        pattern = torch.sparse_csr_tensor(
            rowptr, col, g.new_zeros(col.numel()), size, check_invariants=False
        )
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


@custom_op("tuneup::attend", mutates_args=())
def attend(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    slope: float,
    self_loops: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted sums ``[R, H, D]`` with the row maxima and denominators ``[R, H]``.

    ``a [C, H]`` and ``x [C, H, D]`` belong to the nodes that send, ``b [R, H]`` to those that
    receive; receivers are the first R senders. ``order`` is the entry behind each transposed one.
    """
    rows, heads = b.shape
    row, isolated = rows_of(rowptr, col.numel()), rowptr.diff() == 0
    out = x.new_empty(rows, heads, x.shape[2])
    peak, total = torch.empty_like(b), torch.empty_like(b)
    for h in range(heads):
        top = _peak(rowptr, col, a[:, h], b[:, h], slope)
        if self_loops:
            own = F.leaky_relu(a[:rows, h] + b[:, h], slope)
            top = torch.where(isolated, own, torch.maximum(top, own))
        weight = _logits(row, col, a[:, h], b[:, h], slope).sub_(top.index_select(0, row)).exp_()
        norm = _row_sum(rowptr, col, weight, x.shape[0])
        mixed = csr_reduce(rowptr, col, weight, x[:, h], "sum")
        if self_loops:
            own = own.sub_(top).exp_()
            norm += own
            mixed.addcmul_(x[:rows, h], own[:, None])
        norm = norm.masked_fill_(norm == 0, 1)  # no neighbour and no self-loop: the sum is zero
        out[:, h] = mixed.div_(norm[:, None])
        peak[:, h], total[:, h] = top, norm
    return out, peak, total


@attend.register_fake
def _(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    slope: float,
    self_loops: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(*b.shape, x.shape[2]), torch.empty_like(b), torch.empty_like(b)


@custom_op("tuneup::attend_backward", mutates_args=())
def attend_backward(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    peak: Tensor,
    total: Tensor,
    grad: Tensor,
    slope: float,
    self_loops: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``a``, ``b`` and ``x``: the weights are computed anew, a head at a time."""
    rows, heads = b.shape
    row, one = rows_of(rowptr, col.numel()), a.new_ones(())
    grad_a, grad_b, grad_x = torch.empty_like(a), torch.empty_like(b), torch.empty_like(x)
    for h in range(heads):
        g, x_h = grad[:, h].contiguous(), x[:, h].contiguous()
        logit = _logits(row, col, a[:, h], b[:, h], slope)
        slopes = torch.where(logit > 0, one, slope)
        weight = logit.sub_(peak[:, h].index_select(0, row)).exp_()
        weight = weight.div_(total[:, h].index_select(0, row))
        grad_weight = sampled_product(rowptr, col, row, g, x_h)
        mean = _row_sum(rowptr, col, weight * grad_weight, x.shape[0])
        back = csr_reduce(t_rowptr, t_col, weight.index_select(0, order), g, "sum")
        if self_loops:
            own = F.leaky_relu(a[:rows, h] + b[:, h], slope)
            own_slope = torch.where(own > 0, one, slope)
            own_weight = own.sub(peak[:, h]).exp_().div_(total[:, h])
            own_grad = (g * x_h[:rows]).sum(1)
            mean += own_weight * own_grad
            back[:rows].addcmul_(g, own_weight[:, None])
        grad_logit = grad_weight.sub_(mean.index_select(0, row)).mul_(weight).mul_(slopes)
        grad_b[:, h] = _row_sum(rowptr, col, grad_logit, x.shape[0])
        grad_a[:, h] = _row_sum(t_rowptr, t_col, grad_logit.index_select(0, order), rows)
        if self_loops:
            own_logit = (own_grad - mean) * own_weight * own_slope
            grad_b[:, h] += own_logit
            grad_a[:rows, h] += own_logit
        grad_x[:, h] = back
    return grad_a, grad_b, grad_x


@attend_backward.register_fake
def _(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    order: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    peak: Tensor,
    total: Tensor,
    grad: Tensor,
    slope: float,
    self_loops: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(a), torch.empty_like(b), torch.empty_like(x)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:8], *output[1:])
    ctx.slope, ctx.self_loops = inputs[8:]
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 10
    grads = attend_backward(*ctx.saved_tensors, grad.contiguous(), ctx.slope, ctx.self_loops)
    return (None,) * 5 + tuple(grads) + (None, None)


attend.register_autograd(_backward, setup_context=_setup)

for _device in ("cpu", "cuda"):
    attend.register_autocast(_device, torch.float32)
