"""What a method is trained on and scored in: one builder and one set of defaults a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
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
from tuneup.names import TaskName
from tuneup.nn import (
    Classes,
    EncoderSpec,
    HadamardMLP,
    InnerProduct,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)
from tuneup.tasks import (
    L2,
    AllLabels,
    AllLinks,
    AllPairs,
    LinkPrediction,
    NodeClassification,
    Recommendation,
    Task,
    training_graph,
)
from tuneup.train import SlowModule
from tuneup.train.defaults import Defaults, defaults_of

from .options import FitOptions

Inputs = NodeFeatures | NodeVectors | UserItemVectors
Head = Classes | HadamardMLP | InnerProduct


class Scored(Protocol):
    """One setting of an evaluation."""

    @property
    def name(self) -> str:
        """Like "cold-30"."""

    def score(self, model: nn.Module) -> NodeScores:
        """One score per node."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a method needs to be run and evaluated.

    Args:
        name: of the graph.
        data: the graph itself.
        setup: what a method is given to work on.
        settings: what a trained model is scored in.
        graph_seed: of a generated graph.
        classes: names of the classes, where they have names.
        reason: why the validation score is not accuracy, where nobody asked for another.
    """

    name: str
    data: Graph | Interactions
    setup: Setup
    settings: Sequence[Scored]
    graph_seed: int | None = None
    classes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def task(self) -> Task[Any]:
        """Supervision, loss and validation."""
        return self.setup.task

    @property
    def unit(self) -> str:
        """What is scored, in the plural."""
        return "users" if isinstance(self.data, Interactions) else "nodes"

    def scheduled(self, pretrain: Schedule, finetune: Schedule) -> Problem:
        """The same problem with other schedules."""
        return replace(self, setup=replace(self.setup, pretrain=pretrain, finetune=finetune))

    def score(self, model: nn.Module) -> dict[str, NodeScores]:
        """A trained model's scores by setting."""
        return {setting.name: setting.score(model) for setting in self.settings}

    @cached_property
    def floors(self) -> list[Floor]:
        """Simple models to compare with, in every setting."""
        settings: Any = self.settings
        if isinstance(self.task, NodeClassification):
            return node_floors(self.task, settings, has_features=self.setup.has_features)
        if isinstance(self.task, LinkPrediction):
            return link_floors(settings)
        return recommendation_floors(settings)

    @property
    def sizes(self) -> dict[str, int]:
        """Counts of nodes, edges, features and classes, or of users, items and pairs."""
        if isinstance(self.data, Interactions):
            data = self.data
            return {"users": data.num_users, "items": data.num_items, "pairs": len(data)}
        edges = self.data.adjacency
        kind = "undirected" if edges.undirected else "directed"
        inputs = "features" if self.setup.has_features else "learned numbers a node"
        classes = {"classes": self.data.num_classes} if self.data.num_classes else {}
        return {
            "nodes": edges.num_nodes,
            f"{kind} edges": edges.num_edges,
            inputs: self.setup.encoder.in_channels,
            **classes,
        }

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
    defaults: Defaults | None = None,
    learned: bool = False,
    everything: bool = False,
) -> Problem:
    """Node classification.

    Args:
        data: the graph.
        split: of its nodes.
        options: of the model and its training.
        defaults: what the options leave open; by default :func:`defaults_of` the task.
        learned: whether its features are :func:`with_identities`, for which vectors are learned.
        everything: whether all labels train, and nothing validates.
    """
    assert data.y is not None
    kind = AllLabels if everything else NodeClassification
    metric, reason = options.metric or "", ""
    if not metric and not data.multi_label:
        metric, reason = metric_for(data.y[split.train])
    task = kind.from_split(data, split, metric=metric, class_weights=options.class_weights)
    task = replace(task, selection=options.select)
    usual = defaults or _defaults(task.kind, options)
    # Hidden vectors: a label would be memorised by its own node.
    width, inputs = _node_inputs(data, options.width, learned, hidden=0.5)
    shape = width, data.num_classes
    setup = _setup(task, options, usual, shape, inputs, Classes, learned)
    reason = "" if metric == "accuracy" else reason
    return Problem(data.name, data, setup, node_settings(data, split), reason=reason)


def link_problem(
    data: Graph,
    split: EdgeSplit,
    options: FitOptions,
    *,
    defaults: Defaults | None = None,
    learned: bool = False,
    everything: bool = False,
) -> Problem:
    """Link prediction; arguments as for :func:`node_problem`."""
    kind = AllLinks if everything else LinkPrediction
    usual = defaults or _defaults("link-prediction", options)
    metric = options.metric or "recall"
    task = kind.from_split(data, split, L2(output=usual.l2), metric=metric)
    task = replace(task, selection=options.select)
    embedding = usual.embedding or options.width
    width, inputs = _node_inputs(data, options.width, learned, hidden=0.0)
    head = partial(HadamardMLP, embedding, embedding)
    setup = _setup(task, options, usual, (width, embedding), inputs, head, learned)
    return Problem(data.name, data, setup, link_settings(data, split, metric=task.metric))


def pair_problem(
    data: Interactions,
    split: InteractionSplit,
    options: FitOptions,
    *,
    defaults: Defaults | None = None,
    everything: bool = False,
) -> Problem:
    """Recommendation: learned vectors with a penalty, under weights that move slowly."""
    kind = AllPairs if everything else Recommendation
    usual = defaults or _defaults("recommendation", options)
    metric = options.metric or "recall"
    task = kind(split.train, split.validation, L2(input=usual.l2), metric, selection=options.select)
    embedding = usual.embedding or options.width
    inputs = partial(
        UserItemVectors,
        *(data.num_users, data.num_items, embedding),
        std=usual.std,
        unknown=usual.unknown,
    )
    setup = _setup(task, options, usual, (embedding, options.width), inputs, InnerProduct)
    first, second = usual.encoder_rates
    setup = replace(setup, optimizer=slow_encoder(first), finetune_optimizer=slow_encoder(second))
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


def slow_encoder(rate: float) -> Callable[[nn.Module], OptimizerFactory]:
    """Makes optimisers of a model in which its encoder learns at a share of the rate.

    What a method puts around the encoder learns from every pair too, and moves as slowly.
    """

    def optimizer(model: nn.Module) -> OptimizerFactory:
        assert isinstance(model.encoder, nn.Module)
        return SlowModule(model.encoder, rate)

    return optimizer


def _setup(
    task: Task[Any],
    options: FitOptions,
    usual: Defaults,
    shape: tuple[int, int],
    inputs: Callable[[], Inputs],
    head: Callable[[], Head],
    learned: bool = False,
) -> Setup:
    """An encoder from width to width in ``shape``, between new inputs and a new head."""
    encoder = EncoderSpec(
        *shape,
        usual.architecture,
        width=options.width,
        dropout=usual.dropout if options.dropout is None else options.dropout,
        norm=usual.norm,
        orthogonal=usual.orthogonal,
    )
    first, second = usual.schedules(options.epochs, options.patience, options.lr, options.select)
    return Setup(
        task,
        encoder,
        lambda encoder: Model(inputs(), encoder, head()),
        pretrain=first,
        finetune=second,
        learns_inputs=learned,
    )


def _defaults(task: TaskName, options: FitOptions) -> Defaults:
    """Those of the task; "auto" begins with the task's own architecture."""
    return defaults_of(task, None if options.architecture == "auto" else options.architecture)


def _node_inputs(
    data: Graph, length: int, learned: bool, hidden: float
) -> tuple[int, Callable[[], NodeFeatures | NodeVectors]]:
    """Width and maker of what nodes enter with: features, or vectors of a ``length``."""
    if not learned:
        return data.num_features, NodeFeatures
    return length, partial(NodeVectors, data.num_features, length, hidden=hidden)
