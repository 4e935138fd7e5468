"""How much each neighbour's message counts: the matrices that models read off a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from tuneup.errors import InputError

from .balance import balance
from .matrix import SparseMatrix

if TYPE_CHECKING:
    from .adjacency import Adjacency

Scaling = Literal["sum", "mean", "gcn", "symmetric", "doubly-stochastic"]
"""How messages are weighted: ``A``; ``D^-1 A``; ``D^-1/2 (A + I) D^-1/2`` with D of A + I (GCN);
``D^-1/2 A D^-1/2`` (LightGCN); ``S (A + I) S`` with unit row and column sums (RAWLS-GCN)."""


def scaled(graph: Adjacency, scaling: Scaling) -> SparseMatrix:
    """The propagation matrix of a scaling."""
    value, diagonal = weights(graph, scaling)
    rowptr, col = graph.rowptr, graph.col
    if graph.undirected:  # the index is its own transpose; so are all weights but "mean"
        t_value = value
        if scaling == "mean":
            t_value = graph.degree.clamp(min=1).float().reciprocal().index_select(0, col)
        return SparseMatrix(rowptr, col, value, rowptr, col, t_value, diagonal)
    t_rowptr, t_col, order = graph.reverse
    return SparseMatrix(rowptr, col, value, t_rowptr, t_col, value[order], diagonal)


def weights(graph: Adjacency, scaling: Scaling) -> tuple[Tensor, Tensor | None]:
    """Entry weights ``[E]`` and the diagonal ``[R]``, if the scaling has one."""
    if scaling not in get_args(Scaling):
        raise InputError(f"scaling is one of {get_args(Scaling)}; got {scaling!r}.")
    if scaling == "sum":
        return torch.ones(graph.num_entries, device=graph.device), None
    if scaling == "mean":
        share = graph.rowptr.diff().clamp(min=1).float().reciprocal()
        return share.index_select(0, graph.row), None
    loops = scaling != "symmetric"
    if scaling == "doubly-stochastic":
        sent = balance(graph)
        received = sent[: graph.num_rows]
    else:  # senders may have kept more of their edges than the rows here tell
        sent, received = (
            (degree + int(loops)).clamp(min=1).float().rsqrt()
            for degree in (graph.degree, graph.rowptr.diff())
        )
    value = received.index_select(0, graph.row).mul_(sent.index_select(0, graph.col))
    return value, received.square() if loops else None
