"""What nodes enter a model with: the features of their table, or else vectors that are learned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from tuneup.data import EdgeSplit, Graph, NodeSplit
from tuneup.graph import identities
from tuneup.nn import NodeFeatures, NodeVectors
from tuneup.tables import TableGraph
from tuneup.tasks.link_prediction import training_graph

NODES_HIDDEN = 0.5
"""Share of nodes that are hidden in training: else a label is learned by heart, by its own node."""
LINKS_HIDDEN = 0.0
"""Links need no hiding: a node's own vector does not give its links away."""


def with_identities(graph: Graph, split: NodeSplit | EdgeSplit) -> Graph:
    """The graph with one-hot identities as its features.

    Nodes that training does not see, and those without an edge there, get an empty row: no vector
    of their own could be learned for them.
    """
    if isinstance(split, EdgeSplit):
        seen = training_graph(graph, split).adjacency
    else:
        seen = graph.adjacency.induce(split.known)
    sends = torch.bincount(seen.col, minlength=seen.num_nodes) > 0
    known = torch.zeros(graph.num_nodes, dtype=torch.bool)
    known[split.known[sends | (seen.degree > 0)]] = True
    return replace(graph, x=identities(known))


@dataclass(frozen=True, eq=False)
class InputsOf:
    """Puts what the nodes of tables need under an encoder: nothing if they have features.

    Args:
        tables: with features, or with a graph of :func:`with_identities`.
        length: of the vectors where they are learned.
        hidden: share of nodes that are hidden in training.
    """

    tables: TableGraph
    length: int
    hidden: float

    @property
    def learned(self) -> bool:
        """Whether there are no features."""
        return not self.tables.plan.width

    @property
    def width(self) -> int:
        """What the encoder reads of each node."""
        return self.length if self.learned else self.tables.graph.num_features

    def build(self) -> NodeFeatures | NodeVectors:
        """Features, or fresh vectors."""
        if not self.learned:
            return NodeFeatures()
        return NodeVectors(self.tables.graph.num_features, self.length, hidden=self.hidden)
