"""NodeDup (Guo et al., TMLR 2025): low-degree nodes are doubled, and linked to their copies.

A node of degree at most ``delta`` in the graph (not in a view of it, where TuneUp makes a tail of
almost every node) gets a copy with the same features, no neighbour but the node, and the edge
between the two is one more positive.  It is a view, so it composes with TuneUp::

    nodedup          (Stage(views=(doubled(delta),)),)
    nodedup-tuneup   (Stage(views=(doubled(delta),)), Stage(views=(doubled(delta, tails(alpha)),)))

Predictions are made on the graph as it is, without copies, as every method is judged on the graph
of a setting; the authors keep the copies where the nodes under test were there in training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from tuneup.curriculum import Stage, View, full, tails
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.tasks import GraphView, Moment

from .base import Method, Recipe, Setup
from .curricula import ALPHAS

_REFERENCE = "Guo et al., TMLR 2025"
_DELTAS = (1, 2, 5)
_WHY_NOT = "a copy has the features of its node, and the edge between the two is a positive"


@dataclass(frozen=True)
class Doubled:
    """A copy of every node of degree at most ``delta``, on top of another view."""

    delta: int = 2
    under: View = full
    _kept: WeakKeyDictionary[Adjacency, GraphView] = field(
        default_factory=WeakKeyDictionary, repr=False, compare=False
    )
    """the answer for a graph that is doubled as it is: it never changes"""

    def __post_init__(self) -> None:
        if self.delta < 0:
            raise InputError(f"delta must be 0 or more; got {self.delta}.")

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """The view below, its low-degree nodes linked to their copies, which come last."""
        if self.under != full:
            return self._double(graph, moment)
        if graph not in self._kept:
            self._kept[graph] = self._double(graph, moment)
        return self._kept[graph]

    def _double(self, graph: Adjacency, moment: Moment) -> GraphView:
        seen = self.under(graph, moment)
        count, device = seen.graph.num_nodes, seen.graph.device
        if seen.nodes is not None or seen.extra is not None:
            raise InputError("Doubled takes a view of the same nodes, like full or tails.")
        low = (graph.degree <= self.delta).nonzero().view(-1)
        links = torch.stack([low, count + torch.arange(low.numel(), device=device)])
        edges = torch.cat([seen.graph.edge_index, links, links.flip(0)], 1)
        whole = adjacency_from(edges, count + low.numel(), undirected=seen.graph.undirected)
        nodes = torch.cat([torch.arange(count, device=device), low])
        return GraphView(whole, nodes, links)


def doubled(delta: int = 2, under: View = full) -> Doubled:
    """The view with low-degree nodes doubled."""
    return Doubled(delta, under)


@dataclass(frozen=True)
class NodeDup:
    """Base on the doubled graph."""

    delta: int = 2

    def __post_init__(self) -> None:
        doubled(self.delta)  # refuses a bad delta

    def __call__(self, setup: Setup) -> Recipe:
        """One stage."""
        stage = Stage(views=(doubled(self.delta),), schedule=setup.pretrain)
        return Recipe(setup.base_model(), (stage,))


@dataclass(frozen=True)
class NodeDupTuneUp:
    """Both stages of TuneUp on doubled graphs."""

    delta: int = 2
    alpha: float = 0.5

    def __post_init__(self) -> None:
        doubled(self.delta, tails(self.alpha))  # refuses bad numbers

    def __call__(self, setup: Setup) -> Recipe:
        """NodeDup, then the same with synthetic tails."""
        first = Stage(views=(doubled(self.delta),), schedule=setup.pretrain)
        second = Stage(views=(doubled(self.delta, tails(self.alpha)),), schedule=setup.finetune)
        return Recipe(setup.base_model(), (first, second))


METHODS = (
    Method(
        "nodedup",
        "low-degree nodes doubled, with an edge to the copy that is a positive too",
        _REFERENCE,
        NodeDup(),
        tasks=("link-prediction",),
        needs_features=True,
        why_not=_WHY_NOT,
        grid={"delta": _DELTAS},
        title="NodeDup",
    ),
    Method(
        "nodedup-tuneup",
        "NodeDup's doubled nodes in both stages of TuneUp",
        _REFERENCE,
        NodeDupTuneUp(),
        tasks=("link-prediction",),
        needs_features=True,
        why_not=_WHY_NOT,
        grid={"alpha": ALPHAS, "delta": _DELTAS},
        title="NodeDup + TuneUp",
    ),
)
