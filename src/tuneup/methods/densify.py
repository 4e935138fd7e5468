"""Feature-nearest-neighbour edges for nodes of low degree (after LiGNN, Borisyuk et al., KDD 2024).

A node of degree at most ``delta`` in the graph at hand also receives messages from the ``k`` nodes
whose features are most similar to its own by cosine.  It is the encoder that adds them, so they are
there in training and in prediction, for new nodes too: a node without any edge has neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from tuneup.curriculum import Curriculum, base, tuneup
from tuneup.errors import InputError
from tuneup.graph import Adjacency, Features, adjacency_from, take_features
from tuneup.graph.features import dense
from tuneup.names import Alpha
from tuneup.nn import call_module

from .base import Method, Recipe, Setup
from .curricula import ALPHAS

_ROWS = 512
"""Nodes that similar ones are searched for at a time."""


def nearest(x: Features, nodes: Tensor, k: int) -> Tensor:
    """For each of ``nodes [n]`` the ``k`` other rows of largest cosine ``[n, k]``."""
    k = min(k, x.shape[0] - 1)
    norm = (x if isinstance(x, Tensor) else dense(x)).norm(dim=1).clamp(min=1e-12)
    found = []
    for part in nodes.split(_ROWS):
        cosine = (x @ dense(take_features(x, part)).t()) / norm[:, None]
        cosine[part, torch.arange(len(part), device=part.device)] = -torch.inf
        found.append(cosine.topk(k, dim=0).indices.t())
    return torch.cat(found) if found else nodes.new_empty(0, k)


class DensifyingEncoder(nn.Module):
    """An encoder whose low-degree nodes also hear from the nodes that are most like them.

    Args:
        encoder: reads the denser graph.
        delta: the largest degree that is low.
        k: neighbours that such a node gets.
    """

    takes_adjacency = True
    needs_whole_graph = True

    def __init__(self, encoder: nn.Module, delta: int, k: int) -> None:
        super().__init__()
        self.encoder, self.delta, self.k = encoder, delta, k
        self._near = WeakIdKeyDictionary()

    def forward(self, x: Features, graph: Adjacency | Tensor) -> Tensor:
        """Outputs of all nodes ``[N, out]``."""
        graph = adjacency_from(graph, x.shape[0])
        out: Tensor = call_module(self.encoder, x, self.densify(x, graph))
        return out

    def densify(self, x: Features, graph: Adjacency) -> Adjacency:
        """The graph with the edges that low-degree nodes receive; directed."""
        low = (graph.degree <= self.delta).nonzero().view(-1)
        senders = self._nearest(x, low)
        added = torch.stack([senders.flatten(), low.repeat_interleave(senders.shape[1])])
        edges = torch.cat([graph.edge_index, added], 1)
        return adjacency_from(edges, graph.num_nodes, undirected=False)

    def _nearest(self, x: Features, low: Tensor) -> Tensor:
        """Searched for once for each node of a feature matrix: it outlives many views."""
        if x not in self._near:
            k = min(self.k, x.shape[0] - 1)
            self._near[x] = torch.full((x.shape[0], k), -1, device=low.device)
        known: Tensor = self._near[x]
        missing = low[known[low, 0] < 0] if known.shape[1] else low[:0]
        if missing.numel():
            known[missing] = nearest(x, missing, self.k)
        return known[low]

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"delta={self.delta}, k={self.k}"


@dataclass(frozen=True)
class Densify:
    """Base, or TuneUp, on graphs with feature-nearest-neighbour edges.

    Args:
        delta: see :class:`DensifyingEncoder`.
        k: see :class:`DensifyingEncoder`.
        alpha: share of edges that a second stage drops; ``None``: there is no second stage.
    """

    delta: int = 5
    k: int = 5
    alpha: Alpha | None = None

    def __post_init__(self) -> None:
        if self.delta < 0 or self.k < 1:
            raise InputError(f"delta and k: got {self.delta} and {self.k}; expected 0, 1 or more.")

    def __call__(self, setup: Setup) -> Recipe:
        """The stages, around the denser encoder."""
        encoder = DensifyingEncoder(setup.encoder.build(), self.delta, self.k)
        stages: Curriculum = base(setup.pretrain)
        if self.alpha is not None:
            stages = tuneup(self.alpha, setup.pretrain, setup.finetune)
        return Recipe(setup.assemble(encoder), stages)


_GRID = {"delta": (2, 5), "k": (5, 10)}
_SHARED = {
    "tasks": ("node-classification", "link-prediction"),
    "needs_features": True,
    "why_not": "nodes are compared by their features",
}

METHODS = (
    Method(
        "densify",
        "low-degree nodes also receive from the nodes of most similar features",
        "Borisyuk et al., KDD 2024",
        Densify(),
        grid=_GRID,
        title="Densify",
        **_SHARED,  # type: ignore[arg-type]
    ),
    Method(
        "densify-tuneup",
        "both stages of TuneUp on such a graph",
        "Borisyuk et al., KDD 2024",
        Densify(alpha=0.5),
        grid={"alpha": ALPHAS, **_GRID},
        title="Densify + TuneUp",
        **_SHARED,  # type: ignore[arg-type]
    ),
)
