"""The paper's split of edges for link prediction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency

from .splits import exact_share, known_and_new


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """Known and new nodes, and undirected edges ``[2, E]``, each listed once, in global ids.

    ``train``, ``validation`` and ``test`` lie among the known nodes.  Edges with an end in a new
    node are either ``new_input``, shown when the model is asked about new nodes, or ``new_target``.
    """

    known: Tensor
    new: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor
    new_input: Tensor
    new_target: Tensor
    seed: int
    """of the split; cold start removes edges by it too"""


def split_edges(
    graph: Adjacency,
    *,
    new: float = 0.05,
    train: float = 0.5,
    validation: float = 0.2,
    new_input: float = 0.5,
    seed: int = 0,
) -> EdgeSplit:
    """A seeded split; every edge goes to exactly one part, once for both directions.

    Args:
        graph: an undirected graph.
        new: share of the nodes that are new.
        train: share of the edges among known nodes that messages flow along.
        validation: share of them that chooses the epoch; the rest is for the test.
        new_input: share of the new nodes' edges that the model is shown.
        seed: of the split.
    """
    if not graph.undirected:
        raise InputError("Edges are split once for both directions: the graph must be undirected.")
    if min(train, validation) <= 0 or train + validation >= 1 or not 0 < new_input < 1:
        raise InputError(
            "train, validation and new_input are shares above 0 that leave some over; got "
            f"{train}, {validation}, {new_input}."
        )
    known, arrives = (
        part.sort().values.to(graph.device) for part in known_and_new(graph.num_nodes, new, seed)
    )
    once = graph.row < graph.col
    edges = torch.stack([graph.row[once], graph.col[once]])
    is_new = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    is_new[arrives] = True
    touches = is_new[edges].any(0)
    generator = torch.Generator().manual_seed(seed)
    inside = _shuffled(edges[:, ~touches], generator)
    outside = _shuffled(edges[:, touches], generator)
    first = int(exact_share(train) * inside.shape[1])
    second = first + int(exact_share(validation) * inside.shape[1])
    half = int(exact_share(new_input) * outside.shape[1])
    return EdgeSplit(
        known=known,
        new=arrives,
        train=inside[:, :first].contiguous(),
        validation=inside[:, first:second].contiguous(),
        test=inside[:, second:].contiguous(),
        new_input=outside[:, :half].contiguous(),
        new_target=outside[:, half:].contiguous(),
        seed=seed,
    )


def _shuffled(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, torch.randperm(edges.shape[1], generator=generator).to(edges.device)]
