"""Attention over neighbours as one operator that never holds an edges-by-width tensor.

For one head, with logits ``s_ij = LeakyReLU(a_j + b_i)`` over ``j`` in N(i) and, if asked for,
i itself::

    w_ij = exp(s_ij - m_i) / sum_k exp(s_ik - m_i)        out_i = sum_j w_ij x_j

LeakyReLU is monotone, so ``m_i = LeakyReLU(b_i + max_j a_j)`` costs one pass over nodes' numbers.
Only ``m`` and the denominators (nodes by heads) are kept for the backward pass, which recomputes
the weights head by head; the gradient of a weight is a sampled product.

A number per entry lives no longer than the part of the rows it belongs to.  What the senders need
of it, the sums over columns, is computed anew from both ends of each entry of the transpose: that
takes another sampled product, but no permutation of entries, which would be a sort for every graph
and a walk through memory for every head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import custom_op

from .csr import row_ranges, rows_of
from .kernels import csr_reduce, sampled_product

CHUNK = 1 << 18
"""Entries worked on at a time: a dozen numbers for each of them stay in the processor's cache."""


class _Part(NamedTuple):
    """Consecutive rows of a CSR matrix, with positions that count from the first of them."""

    rows: slice
    rowptr: Tensor
    col: Tensor
    row: Tensor

    def spread(self, value: Tensor) -> Tensor:
        """Each of the rows' numbers, once for each of the row's entries."""
        return value.index_select(0, self.row)

    def gather(self, value: Tensor) -> Tensor:
        """The number of each entry's column."""
        return value.index_select(0, self.col)

    def sum(self, value: Tensor) -> Tensor:
        """Sum of a number per entry over each row, 0 over none."""
        return torch.segment_reduce(value, "sum", offsets=self.rowptr)


def _parts(rowptr: Tensor, col: Tensor, ranges: list[tuple[int, int]]) -> Iterator[_Part]:
    for start, stop in ranges:
        pointer = rowptr[start : stop + 1]
        entries = slice(int(pointer[0]), int(pointer[-1]))
        pointer, part = pointer - pointer[0], col[entries]
        yield _Part(slice(start, stop), pointer, part, rows_of(pointer, part.numel()))


def _peak(part: _Part, a: Tensor, b: Tensor, slope: float) -> Tensor:
    """``m_i`` of the part's rows for one head; 0 for a row without neighbours."""
    top = torch.segment_reduce(part.gather(a), "max", offsets=part.rowptr)
    return torch.where(part.rowptr.diff() > 0, F.leaky_relu(top + b[part.rows], slope), 0.0)


@custom_op("tuneup::attend", mutates_args=())
def attend(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    slope: float,
    self_loops: bool,
    average: bool,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted sums ``[R, H, D]`` with the row maxima and denominators ``[R, H]``.

    ``a [C, H]`` and ``x [C, H, D]`` belong to the nodes that send, ``b [R, H]`` to those that
    receive; receivers are the first R senders.  ``average`` answers the mean over heads ``[R, D]``
    without ever holding what it is the mean of.
    """
    rows, heads = b.shape
    ranges = row_ranges(rowptr, chunk)
    out = x.new_zeros(rows, x.shape[2]) if average else x.new_empty(rows, heads, x.shape[2])
    peak, total = torch.empty_like(b), torch.empty_like(b)
    for h in range(heads):
        a_h, b_h, x_h = (t[:, h].contiguous() for t in (a, b, x))
        for part in _parts(rowptr, col, ranges):
            r = part.rows
            top = _peak(part, a_h, b_h, slope)
            if self_loops:
                own = F.leaky_relu(a_h[r] + b_h[r], slope)
                top = torch.where(part.rowptr.diff() == 0, own, torch.maximum(top, own))
            weight = F.leaky_relu_(part.gather(a_h).add_(part.spread(b_h[r])), slope)
            weight = weight.sub_(part.spread(top)).exp_()
            norm = part.sum(weight)
            mixed = csr_reduce(part.rowptr, part.col, weight, x_h, "sum")
            if self_loops:
                own = own.sub_(top).exp_()
                norm += own
                mixed.addcmul_(x_h[r], own[:, None])
            norm = norm.masked_fill_(norm == 0, 1)  # neither neighbour nor self-loop: the sum is 0
            mixed.div_(norm[:, None])
            if average:
                out[r] += mixed
            else:
                out[r, h] = mixed
            peak[r, h], total[r, h] = top, norm
    return out.div_(heads) if average else out, peak, total


@attend.register_fake
def _(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    b, x, average = args[5], args[6], args[9]
    shape = (b.shape[0], x.shape[2]) if average else (*b.shape, x.shape[2])
    return x.new_empty(shape), torch.empty_like(b), torch.empty_like(b)


class _Head(NamedTuple):
    """What the backward pass reads of one head, of senders j and receivers i."""

    a: Tensor
    """[C]"""
    b: Tensor
    """[R]"""
    x: Tensor
    """[C, D]"""
    g: Tensor
    """[R, D], the gradient of the output"""
    peak: Tensor
    """[R]"""
    total: Tensor
    """[R]"""
    slope: float

    def weights(self, logit: Tensor, peak: Tensor, total: Tensor) -> Tensor:
        """``w_ij`` from its logit and the receiver's numbers, in place of the first of these."""
        return torch.sub(logit, peak, out=peak).exp_().div_(total)

    def own(self, r: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, weights and the weights' gradients of the self-loops of the rows ``r``."""
        logit = F.leaky_relu_(self.a[r] + self.b[r], self.slope)
        weight = self.weights(logit, self.peak[r].clone(), self.total[r])
        return logit, weight, (self.g[r] * self.x[r]).sum(1)

    def back(self, grad_weight: Tensor, mean: Tensor, weight: Tensor, logit: Tensor) -> Tensor:
        """The gradient of ``a_j + b_i`` in place of the weight's: through softmax and LeakyReLU."""
        grad = grad_weight.sub_(mean).mul_(weight)
        out: Tensor = torch.ops.aten.leaky_relu_backward(grad, logit, self.slope, True)
        return out

    def receive(self, part: _Part, self_loops: bool) -> tuple[Tensor, Tensor]:
        """``mean_i = sum_j w_ij <g_i, x_j>`` and the gradient of ``b_i`` for a part's rows."""
        r = part.rows
        logit = F.leaky_relu_(part.gather(self.a).add_(part.spread(self.b[r])), self.slope)
        weight = self.weights(logit, part.spread(self.peak[r]), part.spread(self.total[r]))
        grad_weight = sampled_product(part.rowptr, part.col, part.row, self.g[r], self.x)
        mean = part.sum(weight * grad_weight)
        if self_loops:
            own_logit, own_weight, own_grad = self.own(r)
            mean += own_weight * own_grad
        grad_b = part.sum(self.back(grad_weight, part.spread(mean), weight, logit))
        if self_loops:
            grad_b += self.back(own_grad, mean, own_weight, own_logit)
        return mean, grad_b

    def send(self, part: _Part, mean: Tensor, self_loops: bool) -> tuple[Tensor, Tensor]:
        """The gradients of ``a_j`` and ``x_j`` for a part's rows of the transpose."""
        r = part.rows
        logit = F.leaky_relu_(part.gather(self.b).add_(part.spread(self.a[r])), self.slope)
        weight = self.weights(logit, part.gather(self.peak), part.gather(self.total))
        grad_weight = sampled_product(part.rowptr, part.col, part.row, self.x[r], self.g)
        grad_a = part.sum(self.back(grad_weight, part.gather(mean), weight, logit))
        grad_x = csr_reduce(part.rowptr, part.col, weight, self.g, "sum")
        both = slice(r.start, min(r.stop, mean.numel()))  # of these senders, those that receive
        if self_loops and both.start < both.stop:
            own_logit, own_weight, own_grad = self.own(both)
            count = own_weight.numel()
            grad_a[:count] += self.back(own_grad, mean[both], own_weight, own_logit)
            grad_x[:count].addcmul_(self.g[both], own_weight[:, None])
        return grad_a, grad_x


@custom_op("tuneup::attend_backward", mutates_args=())
def attend_backward(
    rowptr: Tensor,
    col: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    peak: Tensor,
    total: Tensor,
    grad: Tensor,
    slope: float,
    self_loops: bool,
    average: bool,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``a``, ``b`` and ``x``: the weights are computed anew, a head at a time."""
    rows, heads = b.shape
    ranges, t_ranges = row_ranges(rowptr, chunk), row_ranges(t_rowptr, chunk)
    grad_a, grad_b, grad_x = torch.empty_like(a), torch.empty_like(b), torch.empty_like(x)
    mean = b.new_empty(rows)
    if average:
        grad = grad / heads
    for h in range(heads):
        a_h, b_h, x_h, peak_h, total_h = (t[:, h].contiguous() for t in (a, b, x, peak, total))
        g = grad if average else grad[:, h].contiguous()
        head = _Head(a_h, b_h, x_h, g, peak_h, total_h, slope)
        for part in _parts(rowptr, col, ranges):
            mean[part.rows], grad_b[part.rows, h] = head.receive(part, self_loops)
        for part in _parts(t_rowptr, t_col, t_ranges):
            grad_a[part.rows, h], grad_x[part.rows, h] = head.send(part, mean, self_loops)
    return grad_a, grad_b, grad_x


@attend_backward.register_fake
def _(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(args[4]), torch.empty_like(args[5]), torch.empty_like(args[6])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:7], *output[1:])
    ctx.options = inputs[7:]
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    grads = attend_backward(*ctx.saved_tensors, grad.contiguous(), *ctx.options)
    return (None,) * 4 + tuple(grads) + (None,) * 4


attend.register_autograd(_backward, setup_context=_setup)

for _device in ("cpu", "cuda"):
    attend.register_autocast(_device, torch.float32)
