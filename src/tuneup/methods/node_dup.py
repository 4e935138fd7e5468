"""NodeDup (Guo et al., TMLR 2025): low-degree nodes are doubled, and linked to their copies.

A node of degree at most ``delta`` in the graph (not in a view of it, where TuneUp makes a tail of
almost every node) gets a copy with the same features, no neighbour but the node, and the edge
between the two is one more positive.  It is a view, so it composes with TuneUp::

    nodedup          (Stage(views=(doubled(delta),)),)
    nodedup-tuneup   (Stage(views=(doubled(delta),)), Stage(views=(doubled(delta, tails(alpha)),)))

Predictions, those of validation too, are made with copies of what is a low-degree node in the graph
at hand, as in training.  The authors do so where the nodes under test were there in training; for
new nodes their published code predicts without.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tuneup.curriculum import Schedule, Stage, Update, View, full, tails, task_loss
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.features import Features, take_features
from tuneup.nn import call_module
from tuneup.tasks import GraphView, Moment

from .base import Method, Recipe, Setup
from .curricula import ALPHAS
from .parts import encoder_of, with_encoder

_REFERENCE = "Guo et al., TMLR 2025"
_DELTAS = (1, 2, 5)
_WHY_NOT = "a copy has the features of its node, and the edge between the two is a positive"


def low_degree(graph: Adjacency, delta: int) -> Tensor:
    """The nodes that get a copy."""
    return (graph.degree <= delta).nonzero().view(-1)


def with_copies(graph: Adjacency, low: Tensor) -> GraphView:
    """A graph with a copy of each of ``low``, the copies last; ``extra`` are the links to them."""
    every = torch.arange(graph.num_nodes + low.numel(), device=low.device)
    known, copies = every[: graph.num_nodes], every[graph.num_nodes :]
    links = torch.stack([low, copies])
    edges = torch.cat([graph.edge_index, links, links.flip(0)], 1)
    whole = adjacency_from(edges, every.numel(), undirected=graph.undirected)
    return GraphView(whole, torch.cat([known, low]), links)


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
        if seen.nodes is not None or seen.extra is not None:
            raise InputError("Doubled takes a view of the same nodes, like full or tails.")
        return with_copies(seen.graph, low_degree(graph, self.delta))


def doubled(delta: int = 2, under: View = full) -> Doubled:
    """The view with low-degree nodes doubled."""
    return Doubled(delta, under)


class DoublingEncoder(nn.Module):
    """An encoder that reads every graph with copies of its low-degree nodes."""

    takes_adjacency = True

    def __init__(self, encoder: nn.Module, delta: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.delta = delta

    def forward(self, x: Features, graph: Adjacency | Tensor) -> Tensor:
        """Outputs of all nodes ``[N, out]``, not of the copies."""
        graph = adjacency_from(graph, x.shape[0])
        view = with_copies(graph, low_degree(graph, self.delta))
        assert view.nodes is not None
        z = call_module(self.encoder, take_features(x, view.nodes), view.graph)
        return z[: graph.num_nodes]

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"delta={self.delta}"


def loss_on_copies(update: Update) -> Tensor:
    """The task's loss on views that have the copies already: no encoder is to make them again."""
    model = update.trained
    doubling = encoder_of(model)
    assert isinstance(doubling, DoublingEncoder)
    plain = with_encoder(model, doubling.encoder)
    return task_loss(replace(update, modules={**update.modules, update.module: plain}))


def _stage(delta: int, under: View, schedule: Schedule) -> Stage:
    return Stage(views=(doubled(delta, under),), schedule=schedule, objective=loss_on_copies)


def _model(setup: Setup, delta: int) -> nn.Module:
    return setup.assemble(DoublingEncoder(setup.encoder.build(), delta))


@dataclass(frozen=True)
class NodeDup:
    """Base on the doubled graph."""

    delta: int = 2

    def __post_init__(self) -> None:
        doubled(self.delta)  # refuses a bad delta

    def __call__(self, setup: Setup) -> Recipe:
        """One stage."""
        stage = _stage(self.delta, full, setup.pretrain)
        return Recipe(_model(setup, self.delta), (stage,))


@dataclass(frozen=True)
class NodeDupTuneUp:
    """Both stages of TuneUp on doubled graphs."""

    delta: int = 2
    alpha: float = 0.5

    def __post_init__(self) -> None:
        doubled(self.delta, tails(self.alpha))  # refuses bad numbers

    def __call__(self, setup: Setup) -> Recipe:
        """NodeDup, then the same with synthetic tails."""
        first = _stage(self.delta, full, setup.pretrain)
        second = _stage(self.delta, tails(self.alpha), setup.finetune)
        return Recipe(_model(setup, self.delta), (first, second))


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
