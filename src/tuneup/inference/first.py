"""Layer 1 on new nodes: it reads features where they lie, instead of gathering them first.

Layer 1's receivers have most of the field's entries.  Their senders are rows of the features of all
old nodes, which the products read by number; only what arrived is a small table of its own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuneup.graph import Scaling
from tuneup.graph.kernels import csr_reduce
from tuneup.graph.oneway import forward_max

from .arrivals import Ints
from .field import ArrivalField, Floats, degrees, inverse_root, sender_keys

WEIGHTED = ("gcn", "symmetric")
"""Scalings that read the degrees of senders."""


def own_inputs(field: ArrivalField, x: Tensor, x_new: Tensor) -> Tensor:
    """Inputs of layer 1's receivers ``[R, d]``."""
    return torch.cat([x_new, x.index_select(0, _at(x, field.old_receivers))])


def first_max(field: ArrivalField, x: Tensor, x_new: Tensor) -> Tensor:
    """Largest input among each receiver's senders ``[R, d]``, 0 without any."""
    senders = field.senders
    out = forward_max(_at(x, senders.old_rowptr), _at(x, senders.old), x)
    row, rowptr, place, table = _arrived(field, x, x_new)
    more = forward_max(_at(x, rowptr), _at(x, place), table)
    alone = _at(x, np.diff(senders.old_rowptr)[row] == 0)[:, None]
    rows = _at(x, row)
    return out.index_copy_(0, rows, torch.where(alone, more, torch.maximum(out[rows], more)))


def first_sum(
    field: ArrivalField, scaling: Scaling, x: Tensor, x_new: Tensor, own: Tensor
) -> Tensor:
    """``matrix(scaling) @ inputs`` on layer 1's receivers ``[R, d]``; ``own`` are their inputs."""
    senders, loops = field.senders, int(scaling == "gcn")
    row, rowptr, place, table = _arrived(field, x, x_new)
    if scaling in WEIGHTED:
        value = _at(x, _old_roots(field, loops))
        more = _at(x, _arrived_roots(field, loops))
    else:
        value, more = x.new_ones(senders.old.size), x.new_ones(senders.new.size)
    out = csr_reduce(_at(x, senders.old_rowptr), _at(x, senders.old), value, x, "sum")
    arrived = csr_reduce(_at(x, rowptr), _at(x, place), more, table, "sum")
    out.index_add_(0, _at(x, row), arrived)
    if scaling == "sum":
        return out
    if scaling == "mean":
        return out.div_(_at(x, np.maximum(senders.degree, 1))[:, None])
    root = _at(x, inverse_root(senders.degree, loops))[:, None]
    if loops:
        out.addcmul_(own, root)
    return out.mul_(root)


def _at(x: Tensor, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
    """An array where ``x`` is; without a copy if that is here."""
    return torch.from_numpy(array).to(x.device)


def _arrived(field: ArrivalField, x: Tensor, x_new: Tensor) -> tuple[Ints, Ints, Ints, Tensor]:
    """Receivers with entries that arrived, these in compressed rows, and the table they read."""
    senders, num_old = field.senders, field.arrivals.num_old
    row = np.flatnonzero(np.diff(senders.new_rowptr))
    rowptr = np.append(senders.new_rowptr[:1], senders.new_rowptr[1:][row])
    number, place = np.unique(senders.new, return_inverse=True)
    old = int(np.searchsorted(number, num_old))  # ascending: old ones first
    found = np.searchsorted(senders.number[: field.wanted], number[old:])
    table = [x.index_select(0, _at(x, number[:old])), x_new.index_select(0, _at(x, found))]
    return row, rowptr, place, torch.cat(table)


def _old_roots(field: ArrivalField, loops: int) -> Floats:
    """``(degree + loops)^-1/2`` of the sender of each of the graph's entries ``[E]``.

    Of these, few have new neighbours: the kept roots serve for all others.
    """
    senders, arrivals = field.senders, field.arrivals
    value = field.graph.root(loops)[senders.old]
    keys = sender_keys(field.keys, senders.number, senders.old_rowptr, senders.old)
    gained = np.flatnonzero(arrivals.keys[np.searchsorted(arrivals.keys, keys)] == keys)
    value[gained] = inverse_root(degrees(field.graph, arrivals, keys[gained]), loops)
    return value


def _arrived_roots(field: ArrivalField, loops: int) -> Floats:
    """The same of each entry that arrived ``[F]``."""
    senders = field.senders
    keys = sender_keys(field.keys, senders.number, senders.new_rowptr, senders.new)
    return inverse_root(degrees(field.graph, field.arrivals, keys), loops)
