"""Small problems whose answers are edges, and naive answers to them, that several tests share."""

from __future__ import annotations

import torch
from torch import Tensor

from tuneup.curriculum import full, tails
from tuneup.data import (
    Interactions,
    block_graph,
    interactions_from,
    split_edges,
    split_interactions,
)
from tuneup.nn import (
    Encoder,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeFeatures,
    UserItemVectors,
)

USERS, ITEMS = 30, 40
"""The last user and the last item never occur in any pair."""

GRAPH = block_graph(90, 300, 3, 6, seed=1)
EDGES = split_edges(GRAPH.adjacency, new=0.15)

VIEWS = {"G": full, "half of G": tails(0.5), "no edges": tails(1.0)}


def losses(result, stage: int) -> list[float]:
    """The losses of one stage (from 0)."""
    return [loss for k, _, loss, _ in result.record.curves() if k == stage]


def some_interactions(seed: int = 0) -> Interactions:
    """Some 330 of 1200 pairs, few users and items with many."""
    generator = torch.Generator().manual_seed(seed)
    user = (torch.rand(450, generator=generator) ** 1.5 * (USERS - 1)).long()
    item = (torch.rand(450, generator=generator) ** 1.5 * (ITEMS - 1)).long()
    return interactions_from(user, item, USERS, ITEMS, "toy")


def some_split(seed: int = 0):
    """30 % for training, 20 % for validation."""
    return split_interactions(some_interactions(), train=0.3, validation=0.2, seed=seed)


def pair_set(part: Interactions) -> set[tuple[int, int]]:
    """The pairs as Python sees them."""
    return set(zip(part.user.tolist(), part.item.tolist(), strict=True))


def edge_set(edges: Tensor) -> set[frozenset[int]]:
    """Undirected edges ``[2, E]``, listed once, as Python sees them."""
    found = [frozenset(edge) for edge in edges.t().tolist()]
    assert len(set(found)) == len(found)
    return set(found)


def neighbours(edges: set[frozenset[int]], node: int) -> set[int]:
    """The other ends of a node's edges."""
    return {other for edge in edges if node in edge for other in edge - {node}}


def recommender(
    architecture: str = "lightgcn", seed: int = 0, dropout: float = 0.0, sides: bool = False
) -> Model:
    """Learned inputs of width 8 under two layers."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if architecture == "lightgcn":
            encoder = LightGCN(2)
        else:
            encoder = Encoder(
                8, 6, architecture=architecture, width=8, num_layers=2, dropout=dropout, heads=2
            )
        return Model(
            UserItemVectors(USERS, ITEMS, width=8, std=0.5, shared=sides, unknown=sides),
            encoder,
            InnerProduct(),
        )


def link_model(architecture: str = "sage", seed: int = 0, dropout: float = 0.0) -> Model:
    """Two layers over the six features of ``GRAPH``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = Encoder(
            6, 8, architecture=architecture, width=8, num_layers=2, dropout=dropout, heads=2
        )
        return Model(NodeFeatures(), encoder, HadamardMLP(8, 16))


def naive_recall(scores: list[float], targets: set[int], masked: set[int], k: int) -> float:
    """Sort all candidates that are not masked by (-score, id); the targets among the first k."""
    order = sorted((-score, c) for c, score in enumerate(scores) if c not in masked)
    return len(targets & {c for _, c in order[:k]}) / len(targets)
