"""Logistic regression on a node's features, their means over one and two hops, and its degree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.data import Graph
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.graph.features import dense

from .logistic import Linear

_WIDEST = 512
"""Columns of features above which they are projected."""
_PROJECTED = 256
"""Columns that they are projected to."""
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class TwoHop:
    """Inputs ``[x, A x, A A x, log(1 + degree)]`` with ``A`` the mean over neighbours.

    Wide features are projected onto ``basis [d, 256]`` first, close to their principal directions
    on the training graph.
    """

    basis: Tensor | None

    @classmethod
    def on(cls, x: Features, seed: int) -> TwoHop:
        """With a basis of the features of the training graph, if they are wide."""
        return cls(_principal(x, seed) if x.shape[1] > _WIDEST else None)

    def rows(self, data: Graph, nodes: Tensor) -> Tensor:
        """The inputs of some nodes ``[n, 3 d + 1]``."""
        mean = data.adjacency.matrix("mean")
        own = dense(data.x) if self.basis is None else data.x @ self.basis
        one = mean @ own
        parts = [part.index_select(0, nodes) for part in (own, one, mean @ one)]
        return torch.cat([*parts, _log_degree(data.adjacency)[nodes]], 1)

    def logits(self, model: Linear, data: Graph, nodes: Tensor) -> Tensor:
        """What a model of such inputs says of some nodes ``[n, C]``.

        Means commute with linear maps: ``x W_0 + A (x W_1 + A (x W_2))`` never widens.
        """
        mean = data.adjacency.matrix("mean")
        *weights, of_degree = model.weight.split([(len(model.weight) - 1) // 3] * 3 + [1])
        if self.basis is not None:
            weights = [self.basis @ weight for weight in weights]
        own, one, two = (data.x @ weight for weight in weights)
        total: Tensor = own + mean @ (one + mean @ two) + _log_degree(data.adjacency) @ of_degree
        return total.index_select(0, nodes) + model.bias


def _log_degree(adjacency: Adjacency) -> Tensor:
    return adjacency.degree.float().log1p()[:, None]


def _principal(x: Features, seed: int) -> Tensor:
    """Orthonormal directions ``[d, 256]`` by a few rounds of subspace iteration on ``x^T x``."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], _PROJECTED, generator=generator)
    basis = basis.to(x.device if isinstance(x, Tensor) else x.value.device)
    across = x.t() if isinstance(x, Tensor) else _transposed(x)
    for _ in range(_ROUNDS):
        basis = torch.linalg.qr(across @ (x @ basis)).Q
    return basis


def _transposed(x: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(*x.transpose(), num_cols=x.shape[0])
