"""Synthetic tails of a chosen degree: heads are thinned until they are as cold as tails.

A receiver v with d edges draws a degree ``t_v`` uniformly from 0 to ``min(d, k)`` and keeps each of
its edges with probability ``t_v / d``.  Dropping a share of all edges (TuneUp) leaves a hub a hub;
here every node is a tail in every view, and ``alpha`` disappears.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import HASH_BITS, fold_key, uniform
from tuneup.tasks import GraphView, Moment

_DEGREES = 0x646567726565
"""Keeps draws of degrees apart from those of edges ("degree" in ASCII)."""


@dataclass(frozen=True)
class TargetDegree:
    """Every node keeps a few of its edges: between 0 and ``k`` in expectation.

    Args:
        k: the largest degree to expect.
    """

    k: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k: got {self.k!r}; expected a degree of 1 or more.")

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """A directed graph, drawn for this moment: each receiver decides for itself."""
        key, ids, degree = fold_key(*moment), graph.global_ids, graph.rowptr.diff()
        most = degree.clamp(max=self.k)
        target = (uniform(ids, fold_key(_DEGREES, key)) * (most + 1)).long()
        share = torch.where(degree > 0, target / degree.clamp(min=1), 1.0).double()
        least = ((1 - share) * 2.0**HASH_BITS).long()
        draws = edge_draws(ids[graph.row], ids[graph.col], key, symmetric=False)
        return GraphView(graph.directed.thin(draws >= least[graph.row]))
