"""Layer 1 on new nodes: it reads features where they lie, instead of gathering them first.

Layer 1's receivers have most of the field's entries.  Their senders are rows of the features of all
old nodes, which the products read by number; only what arrived is a small table of its own.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.graph import Scaling
from tuneup.graph.kernels import csr_reduce

from .arrivals import Ints
from .field import ArrivalField, Floats, degrees, inverse_root

WEIGHTED = ("gcn", "symmetric")
"""Scalings that read the degrees of senders."""


def own_inputs(field: ArrivalField, x: Tensor, x_new: Tensor) -> Tensor:
    """Inputs of layer 1's receivers ``[R, d]``."""
    return torch.cat([x_new, x.index_select(0, _at(x, field.old_receivers))])


def first_max(field: ArrivalField, x: Tensor, x_new: Tensor) -> Tensor:
    """Largest input among each receiver's senders ``[R, d]``, 0 without any."""
    level = field.first
    out = _max(_at(x, level.old_rowptr), _at(x, level.old), x)
    row, rowptr, place, table = _arrived(field, x, x_new)
    more = _max(_at(x, rowptr), _at(x, place), table)
    alone = _at(x, level.old_count[row] == 0)[:, None]
    rows = _at(x, row)
    return out.index_copy_(0, rows, torch.where(alone, more, torch.maximum(out[rows], more)))


def first_sum(
    field: ArrivalField, scaling: Scaling, x: Tensor, x_new: Tensor, own: Tensor
) -> Tensor:
    """``matrix(scaling) @ inputs`` on layer 1's receivers ``[R, d]``; ``own`` are their inputs."""
    level, loops = field.first, int(scaling == "gcn")
    row, rowptr, place, table = _arrived(field, x, x_new)
    value: Tensor | None = None
    more: Tensor | None = None
    if scaling in WEIGHTED:
        value = _at(x, _old_roots(field, loops))
        more = _at(x, inverse_root(degrees(field.graph, field.arrivals, level.new_keys), loops))
    out = _bags(_at(x, level.old_rowptr), _at(x, level.old), value, x)
    out.index_add_(0, _at(x, row), _bags(_at(x, rowptr), _at(x, place), more, table))
    if scaling == "sum":
        return out
    if scaling == "mean":
        return out.div_(_at(x, np.maximum(level.degree, 1))[:, None])
    root = _at(x, inverse_root(level.degree, loops))[:, None]
    if loops:
        out.addcmul_(own, root)
    return out.mul_(root)


def _bags(rowptr: Tensor, col: Tensor, value: Tensor | None, x: Tensor) -> Tensor:
    """``out[i] = sum over k in row i of value[k] * x[col[k]]``.

    The same product as ever; this kernel fetches rows ahead, and here they are far apart.
    """
    if not col.numel():
        return x.new_zeros(rowptr.numel() - 1, x.shape[1])
    return F.embedding_bag(
        col, x, rowptr, mode="sum", per_sample_weights=value, include_last_offset=True
    )


def _at(x: Tensor, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
    """An array where ``x`` is; without a copy if that is here."""
    return torch.from_numpy(array).to(x.device)


def _arrived(field: ArrivalField, x: Tensor, x_new: Tensor) -> tuple[Ints, Ints, Ints, Tensor]:
    """Receivers with entries that arrived, these in compressed rows, and the table they read."""
    level, num_old = field.first, field.arrivals.num_old
    row = level.new_count.nonzero()[0]
    rowptr = np.concatenate([[0], level.new_rowptr[1:][row]])
    number, place = np.unique(level.new, return_inverse=True)
    old = int(number.searchsorted(num_old))  # ascending: old ones first
    found = level.number[: field.wanted].searchsorted(number[old:])
    table = [x.index_select(0, _at(x, number[:old])), x_new.index_select(0, _at(x, found))]
    return row, rowptr, place, torch.cat(table)


def _old_roots(field: ArrivalField, loops: int) -> Floats:
    """``(degree + loops)^-1/2`` of the sender of each of the graph's entries ``[E]``.

    Of these, few have new neighbours: the kept roots serve for all others.
    """
    level, keys = field.first, field.first.old_keys
    value = field.graph.root(loops)[level.old]
    gained = np.isin(keys, field.arrivals.keys[:-1]).nonzero()[0]
    value[gained] = inverse_root(degrees(field.graph, field.arrivals, keys[gained]), loops)
    return value


def _max(rowptr: Tensor, col: Tensor, x: Tensor) -> Tensor:
    """Largest value among each row's senders ``[R, d]``, 0 for an empty row."""
    if not col.numel():
        return x.new_zeros(rowptr.numel() - 1, x.shape[1])
    return csr_reduce(rowptr, col, x.new_ones(col.numel()), x, "amax")
