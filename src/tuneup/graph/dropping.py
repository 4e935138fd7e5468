"""Dropping edges, the paper's synthetic tail nodes, as a pure function.

An edge survives iff its hash ``h(edge, seed, stage, step)`` in [0, 2^53) is at least
``round(alpha * 2^53)``.  The key of an edge is its *global* node ids, sorted if the graph is
undirected: both directions agree by construction, every machine draws the same graph without
talking, and a resumed run draws what the interrupted one would have.

*Graded* dropping draws a share for every receiver v, ``a_v = h(v, v) / 2^53``, uniform in [0, 1):
an edge of v survives iff its own draw is at least ``h(v, v)``.  One graph then holds nodes of every
coldness, none at all included: of a node with d edges, k survive with probability ``1 / (d + 1)``
for every k from 0 to d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.names import Alpha

from .adjacency import Adjacency
from .hashing import fold_key, hash_pairs, threshold
from .thinned import Thinned

GRADED = "graded"
"""The alpha that every receiver draws for itself."""

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
        alpha: share of edges to drop, 0 to 1; "graded": every receiver draws one for itself, anew
            for each step, and drops its own directions of edges by it.
        seed: seed of the draws.
        paired: drop {u, v} as one edge, both directions together (the default), or each direction
            by itself, which leaves a directed graph.
        exact: drop exactly ``round(alpha * |E|)`` edges instead of each with probability alpha.
    """

    alpha: Alpha = 0.5
    seed: int = 0
    paired: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        if self.alpha == GRADED:
            if self.exact:
                raise InputError('exact=True drops one share of all edges; alpha is "graded".')
            return
        if not isinstance(self.alpha, int | float) or isinstance(self.alpha, bool):
            raise InputError(
                f'alpha is a number, the share of edges to drop, or "{GRADED}"; got '
                f"{self.alpha!r}. To choose one, fit with 0.25, 0.5 and 0.75 and keep the best "
                "validation score."
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
        keep[edge] = self._keep(receiver[edge], sender[edge], self._paired, key)
        return keep

    def thin(self, graph: Adjacency, step: int, stage: int = 0) -> Adjacency:
        """The same nodes with the surviving edges only, compacted."""
        thinned = self.view(graph, step, stage)
        return thinned.whole if isinstance(thinned, Thinned) else thinned

    def view(self, graph: Adjacency, step: int, stage: int = 0) -> Adjacency:
        """The same graph as :meth:`thin`, which is only computed as far as it is read.

        ``exact`` compares every edge with all others: there the whole graph is computed at once.
        """
        if graph.degrees is not None:
            raise InputError(
                "A block of a receptive field cannot say which edges are undirected: drop edges of "
                "its graph, then call ReceptiveField.thin with the result."
            )
        if self.alpha == 0.0:
            return graph
        symmetric = self._paired and graph.undirected
        key = fold_key(self.seed, stage, step)
        rule = partial(self._keep, symmetric=symmetric, key=key)
        parent, ids = graph if symmetric else graph.directed, graph.global_ids
        if self.exact:
            return parent.thin(rule(ids[graph.row], ids[graph.col]))
        return Thinned(parent, rule)

    @property
    def _paired(self) -> bool:
        """Whether both directions of an edge go together: not where receivers differ."""
        return self.paired and self.alpha != GRADED

    def _keep(self, receiver: Tensor, sender: Tensor, symmetric: bool, key: int) -> Tensor:
        """Which edges survive ``[E]``, for global ids of their ends."""
        draws = edge_draws(receiver, sender, key, symmetric=symmetric)
        if isinstance(self.alpha, str):
            return draws >= edge_draws(receiver, receiver, key, symmetric=False)
        if not self.exact:
            return draws >= threshold(self.alpha)
        one_per_edge: Tensor = torch.unique(draws)  # however often and either way it is listed
        count = round(self.alpha * one_per_edge.numel())
        if count == 0:
            return torch.ones_like(draws, dtype=torch.bool)
        return draws > one_per_edge[count - 1]
