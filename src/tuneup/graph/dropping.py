"""Dropping edges, the paper's synthetic tail nodes, as a pure function.

An edge survives iff its hash ``h(edge, seed, stage, step)`` in [0, 2^53) is at least
``round(alpha * 2^53)``.  The key of an edge is its *global* node ids, sorted if the graph is
undirected: both directions agree by construction, every machine draws the same graph without
talking, and a resumed run draws what the interrupted one would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError

from .adjacency import Adjacency
from .csr import row_ranges, rows_of
from .hashing import fold_key, hash_pairs, threshold

_CHUNK = 1 << 16
"""Entries hashed at a time: the temporaries then stay in the processor's cache."""


def edge_draws(first: Tensor, second: Tensor, key: int, *, symmetric: bool) -> Tensor:
    """One draw in ``[0, 2^53)`` per pair of global ids ``[E]``."""
    out = torch.empty(first.shape, dtype=torch.long, device=first.device)
    for k in range(0, first.numel(), _CHUNK):
        a, b = first[k : k + _CHUNK], second[k : k + _CHUNK]
        if symmetric:
            a, b = torch.minimum(a, b), torch.maximum(a, b)
        out[k : k + _CHUNK] = hash_pairs(a, b, key)
    return out


@dataclass(frozen=True)
class DropEdge:
    """Drops a share ``alpha`` of the edges; a new draw for every ``(seed, stage, step)``.

    Call it with an :class:`Adjacency` or, in a loop of your own, with PyG's ``edge_index``::

        drop = DropEdge(alpha=0.5, seed=0)
        for epoch in range(epochs):
            out = model(x, drop(edge_index, step=epoch))

    Edge weights go along by :meth:`mask`::

            keep = drop.mask(edge_index, step=epoch)
            out = model(x, edge_index[:, keep], edge_weight[keep])

    Args:
        alpha: share of edges to drop, 0 to 1.
        seed: seed of the draws.
        paired: drop {u, v} as one edge, both directions together (the default), or each direction
            by itself, which leaves a directed graph.
        exact: drop exactly ``round(alpha * |E|)`` edges instead of each with probability alpha.
    """

    alpha: float = 0.5
    seed: int = 0
    paired: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, int | float) or isinstance(self.alpha, bool):
            raise InputError(
                f"alpha is a number, the share of edges to drop; got {self.alpha!r}. To choose "
                "one, fit with 0.25, 0.5 and 0.75 and keep the best validation score."
            )
        if not 0.0 <= self.alpha <= 1.0:
            raise InputError(f"alpha is the share of edges to drop, 0 to 1; got {self.alpha}.")

    def __call__(self, graph: Any, step: int, stage: int = 0) -> Any:
        """The thinned graph, of the same kind as ``graph``.

        An ``edge_index`` counts as undirected here if ``paired``: (u, v) and (v, u) go together,
        and columns keep their order.
        """
        if isinstance(graph, Adjacency):
            return self.thin(graph, step, stage)
        if not isinstance(graph, Tensor) or graph.dim() != 2 or graph.shape[0] != 2:
            got = list(graph.shape) if isinstance(graph, Tensor) else type(graph).__name__
            raise InputError(
                f"DropEdge takes an Adjacency or an edge_index [2, E]; got {got}. For a Data, drop "
                "edges of data.edge_index."
            )
        return graph[:, self.mask(graph, step, stage)]

    def mask(self, edge_index: Tensor, step: int, stage: int = 0) -> Tensor:
        """Which columns of an ``edge_index`` survive ``[E]``: for edge weights that go with them.

        Self-loops are no edges to a neighbour: they always survive, and ``exact`` does not count
        them.
        """
        if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
            raise InputError(f"edge_index must hold integers; got {edge_index.dtype}.")
        sender, receiver = edge_index[0], edge_index[1]
        edge = sender != receiver
        key = fold_key(self.seed, stage, step)
        keep = ~edge
        keep[edge] = self._keep(receiver[edge], sender[edge], self.paired, key)
        return keep

    def thin(self, graph: Adjacency, step: int, stage: int = 0) -> Adjacency:
        """The same nodes with the surviving edges only, compacted."""
        if graph.degrees is not None:
            raise InputError(
                "A block of a receptive field cannot say which edges are undirected: drop edges of "
                "its graph, then call ReceptiveField.thin with the result."
            )
        if self.alpha == 0.0:
            return graph
        symmetric = self.paired and graph.undirected
        keep = self._keep_of(graph, symmetric, fold_key(self.seed, stage, step))
        return (graph if symmetric else graph.directed).thin(keep)

    def _keep_of(self, graph: Adjacency, symmetric: bool, key: int) -> Tensor:
        """Which entries of a graph survive ``[E]``; if each by itself, a few rows at a time."""
        ids = graph.global_ids
        if self.exact:
            return self._keep(ids[graph.row], ids[graph.col], symmetric, key)
        keep = torch.empty(graph.num_entries, dtype=torch.bool, device=graph.device)
        for start, stop in row_ranges(graph.rowptr, _CHUNK):
            pointer = graph.rowptr[start : stop + 1]
            part = slice(int(pointer[0]), int(pointer[-1]))
            receiver = ids[start:stop][rows_of(pointer, part.stop - part.start)]
            keep[part] = self._keep(receiver, ids[graph.col[part]], symmetric, key)
        return keep

    def _keep(self, receiver: Tensor, sender: Tensor, symmetric: bool, key: int) -> Tensor:
        """Which edges survive ``[E]``, for global ids of their ends."""
        draws = edge_draws(receiver, sender, key, symmetric=symmetric)
        if not self.exact:
            return draws >= threshold(self.alpha)
        one_per_edge: Tensor = torch.unique(draws)  # however often and either way it is listed
        count = round(self.alpha * one_per_edge.numel())
        if count == 0:
            return torch.ones_like(draws, dtype=torch.bool)
        return draws > one_per_edge[count - 1]
