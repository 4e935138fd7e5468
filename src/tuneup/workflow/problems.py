"""What a method is trained on and scored in: one builder and one set of defaults a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import nn

from tuneup.curriculum import OptimizerFactory, Schedule
from tuneup.data import EdgeSplit, Graph, Interactions, InteractionSplit, NodeSplit
from tuneup.evaluation import (
    Floor,
    link_floors,
    link_settings,
    node_floors,
    node_settings,
    recommendation_floors,
    recommendation_settings,
)
from tuneup.graph import identities
from tuneup.methods import Setup
from tuneup.metrics import NodeScores, metric_for
from tuneup.names import Architecture
from tuneup.nn import (
    Classes,
    HadamardMLP,
    InnerProduct,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)
from tuneup.tasks import NodeClassification, Task
from tuneup.tasks.link_prediction import AllLinks, LinkPrediction, training_graph
from tuneup.tasks.node_classification import AllLabels
from tuneup.tasks.recommendation import L2, AllPairs, Recommendation
from tuneup.train import SlowModule

from .options import FitOptions


class Scored(Protocol):
    """One setting of an evaluation."""

    @property
    def name(self) -> str:
        """Like "cold-30"."""

    def score(self, model: nn.Module) -> NodeScores:
        """One score per node."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a method needs to be run and judged.

    Args:
        name: of the graph.
        data: the graph itself.
        setup: what a method is given to work on.
        settings: what a trained model is scored in.
        graph_seed: of a generated graph.
        classes: names of the classes, where they have names.
    """

    name: str
    data: Graph | Interactions
    setup: Setup
    settings: Sequence[Scored]
    graph_seed: int | None = None
    classes: tuple[str, ...] = ()

    @property
    def task(self) -> Task[Any]:
        """Supervision, loss and validation."""
        return self.setup.task

    @property
    def unit(self) -> str:
        """What is scored, in the plural."""
        return "users" if isinstance(self.data, Interactions) else "nodes"

    def scheduled(self, pretrain: Schedule, finetune: Schedule) -> Problem:
        """The same problem, trained for another time."""
        return replace(self, setup=replace(self.setup, pretrain=pretrain, finetune=finetune))

    def score(self, model: nn.Module) -> dict[str, NodeScores]:
        """A trained model's scores by setting."""
        return {setting.name: setting.score(model) for setting in self.settings}

    @cached_property
    def floors(self) -> list[Floor]:
        """Simple models to compare with, in every setting."""
        settings: Any = self.settings
        if isinstance(self.task, NodeClassification):
            has_features = self.setup.has_features
            return node_floors(self.task, settings, has_features=has_features)
        if isinstance(self.task, LinkPrediction):
            return link_floors(settings)
        return recommendation_floors(settings)

    @property
    def sizes(self) -> dict[str, int]:
        """How many there are of what."""
        if isinstance(self.data, Interactions):
            data = self.data
            return {"users": data.num_users, "items": data.num_items, "pairs": len(data)}
        edges = self.data.adjacency
        kind = "undirected" if edges.undirected else "directed"
        sizes = {"nodes": edges.num_nodes, f"{kind} edges": edges.num_edges}
        classes = {"classes": self.data.num_classes} if self.data.num_classes else {}
        if not self.setup.has_features:
            return {**sizes, "learned numbers a node": self.setup.encoder.in_channels, **classes}
        return {**sizes, "features": self.data.num_features, **classes}

    @property
    def description(self) -> str:
        """One line: the graph's name and sizes."""
        sizes = ", ".join(f"{count:,} {name}" for name, count in self.sizes.items())
        return f"{self.name}: {sizes}"


def node_problem(
    data: Graph,
    split: NodeSplit,
    options: FitOptions,
    *,
    learned: bool = False,
    everything: bool = False,
    classes: tuple[str, ...] = (),
) -> Problem:
    """Node classification.

    Args:
        data: the graph.
        split: of its nodes.
        options: of the model and its training.
        learned: whether its features are :func:`with_identities`, for which vectors are learned.
        everything: whether all labels train, and nothing validates.
        classes: names of the classes.
    """
    assert data.y is not None
    kind = AllLabels if everything else NodeClassification
    metric = options.metric or metric_for(data.y[split.train])[0]
    task = kind.from_split(data, split, metric=metric, class_weights=options.class_weights)
    # Hidden vectors: a label would be memorised by its own node.
    inputs = _NodeInputs(data, options.width, learned, hidden=0.5)
    first, second = options.schedules("node-classification")
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("node-classification", inputs.width, data.num_classes),
        lambda encoder: Model(inputs.build(), encoder, Classes()),
        pretrain=first,
        finetune=second,
        learns_inputs=learned,
    )
    return Problem(data.name, data, setup, node_settings(data, split), classes=classes)


def link_problem(
    data: Graph,
    split: EdgeSplit,
    options: FitOptions,
    *,
    learned: bool = False,
    everything: bool = False,
) -> Problem:
    """Link prediction; arguments as for :func:`node_problem`."""
    kind, width = AllLinks if everything else LinkPrediction, options.width
    task = kind.from_split(data, split, L2(output=0.001))
    inputs = _NodeInputs(data, width, learned, hidden=0.0)
    first, second = options.schedules("link-prediction")
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("link-prediction", inputs.width, width),
        lambda encoder: Model(inputs.build(), encoder, HadamardMLP(width, width)),
        pretrain=first,
        finetune=second,
        learns_inputs=learned,
    )
    return Problem(data.name, data, setup, link_settings(data, split))


def pair_problem(
    data: Interactions,
    split: InteractionSplit,
    options: FitOptions,
    *,
    everything: bool = False,
) -> Problem:
    """Recommendation: learned vectors with a penalty, under weights that move slowly."""
    kind, width = AllPairs if everything else Recommendation, options.width
    spec = options.encoder("recommendation", width, width, orthogonal=True)
    vectors = LearnedInputs.under(spec.architecture)
    task = kind(split.train, split.validation, L2(input=vectors.l2), selection=options.select)
    users, items = data.num_users, data.num_items
    first, second = options.schedules("recommendation")
    setup = Setup(
        task,
        spec,
        lambda encoder: Model(
            UserItemVectors(users, items, width, std=vectors.std, unknown=True),
            encoder,
            InnerProduct(),
        ),
        pretrain=first,
        finetune=second,
        optimizer=SlowEncoder(0.003),
        finetune_optimizer=SlowEncoder(0.1),
    )
    return Problem(data.name, data, setup, recommendation_settings(task, split))


def with_identities(graph: Graph, split: NodeSplit | EdgeSplit) -> Graph:
    """The graph with one-hot identities as its features.

    Nodes that training does not see, and those without an edge there, get an empty row: no vector
    of their own can be learned for them.
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
class _NodeInputs:
    """What nodes enter with: features, or vectors of a ``length`` for :func:`with_identities`."""

    data: Graph
    length: int
    learned: bool
    hidden: float

    @property
    def width(self) -> int:
        return self.length if self.learned else self.data.num_features

    def build(self) -> NodeFeatures | NodeVectors:
        if not self.learned:
            return NodeFeatures()
        return NodeVectors(self.data.num_features, self.length, hidden=self.hidden)


@dataclass(frozen=True)
class LearnedInputs:
    """What a recommender's inputs start from, and what holds them.

    Args:
        std: of the normal distribution that they start from.
        l2: weight of the penalty on them.
    """

    std: float = 0.01
    l2: float = 0.03

    @classmethod
    def under(cls, architecture: Architecture) -> LearnedInputs:
        """Defaults for an encoder whose inputs are not tuned by trials.

        Attention averages all that a node reads, its own input among many: outputs are a fraction
        of what other encoders make of the same inputs, and a penalty outweighs what pairs say.
        """
        return cls(std=0.1, l2=0.003) if architecture == "gat" else cls()


@dataclass(frozen=True)
class SlowEncoder:
    """Weights above learned embeddings move at a share of their rate.

    They learn from every pair, an embedding from its own alone: at one rate the weights run ahead,
    undo a penalty on the embeddings by their scale, and the model overfits.  What a method puts
    around the encoder learns from every pair too, and moves as slowly.
    """

    rate: float

    def __call__(self, model: nn.Module) -> OptimizerFactory:
        """For one model."""
        assert isinstance(model.encoder, nn.Module)
        return SlowModule(model.encoder, self.rate)
