"""Doubly stochastic scaling: every node sends as much as it receives, and all send the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuneup.errors import InputError

from .kernels import csr_reduce

if TYPE_CHECKING:
    from .adjacency import Adjacency

TOLERANCE = 1e-2
"""How far a row sum may be from 1."""

_MOST = 1000
"""Iterations before giving up; graphs with self-loops need some tens."""


def balance(graph: Adjacency, tolerance: float = TOLERANCE) -> Tensor:
    """``s [N]`` such that the rows and columns of ``diag(s) (A + I) diag(s)`` sum to 1.

    The symmetric form of Sinkhorn's iteration, ``s <- sqrt(s / ((A + I) s))``: a fixed point has
    ``s_i ((A + I) s)_i = 1`` for every i.  The self-loops make sure that there is one: an unequal
    bipartite graph cannot be balanced without them.
    """
    if not graph.undirected or graph.num_rows != graph.num_cols:
        raise InputError(
            "Only a whole undirected graph has a symmetric doubly stochastic scaling; this one is "
            + ("a block of a receptive field." if graph.undirected else "directed.")
        )
    ones = torch.ones(graph.num_entries, device=graph.device)
    scale = (graph.degree + 1).float().rsqrt()  # GCN's own, which is not far
    for _ in range(_MOST):
        received = csr_reduce(graph.rowptr, graph.col, ones, scale[:, None], "sum").squeeze(1)
        received += scale
        if not graph.num_nodes or float((scale * received - 1).abs().max()) <= tolerance:
            return scale
        scale = (scale / received).sqrt()
    raise InputError(
        f"The doubly stochastic scaling did not come within {tolerance:g} in {_MOST} iterations: "
        "ask for a larger tolerance."
    )
