"""The demo's problems: for each task a generated graph, a model for it, and what is scored.

Whoever adds a task adds a function here and a line to ``_MAKERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import nn

from tuneup.curriculum import OptimizerFactory, Schedule
from tuneup.data import (
    Graph,
    Interactions,
    demo_graph,
    demo_interactions,
    demo_link_graph,
    split_interactions,
    split_nodes,
)
from tuneup.data.edge_split import split_edges
from tuneup.evaluation import node_settings
from tuneup.evaluation.edge_settings import RecommendationSetting, link_settings
from tuneup.metrics import NodeScores
from tuneup.names import Architecture, TaskName
from tuneup.nn import Encoder
from tuneup.nn.link_model import HadamardMLP, LinkModel
from tuneup.nn.recommender import Recommender
from tuneup.tasks import NodeClassification, Task
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.training import SlowModule, adam


class Scored(Protocol):
    """One setting of an evaluation."""

    @property
    def name(self) -> str:
        """Like "cold-30"."""

    def score(self, model: nn.Module) -> NodeScores:
        """One score per node."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a curriculum needs to be run and judged.

    Args:
        name: of the graph.
        data: the graph itself.
        task: supervision, loss and validation.
        build: makes a fresh model from torch's current seed.
        settings: what a trained model is scored in.
        pretrain: schedule of stage 1.
        finetune: schedule of stage 2.
        slow: learning rate of the model's encoder, as a share of everything else's.
        task_name: as users type it.
        architecture: likewise.
        graph_seed: of a generated graph.
        unit: what is scored, in the plural.
    """

    name: str
    data: Graph | Interactions
    task: Task[Any]
    build: Callable[[], nn.Module]
    settings: Sequence[Scored]
    pretrain: Schedule
    finetune: Schedule
    slow: float = 1.0
    task_name: TaskName | None = None
    architecture: Architecture | None = None
    graph_seed: int | None = None
    unit: str = "nodes"

    @property
    def description(self) -> str:
        """One line: the graph's name and sizes."""
        if isinstance(self.data, Interactions):
            data = self.data
            sizes = f"{data.num_users:,} users, {data.num_items:,} items, {len(data):,} pairs"
            return f"{self.name}: {sizes}"
        edges = self.data.adjacency
        kind = "undirected" if edges.undirected else "directed"
        sizes = f"{edges.num_nodes:,} nodes, {edges.num_edges:,} {kind} edges"
        classes = f", {self.data.num_classes} classes" if self.data.num_classes else ""
        return f"{self.name}: {sizes}, {self.data.num_features} features{classes}"

    def optimizer(self, model: nn.Module) -> OptimizerFactory:
        """The factory for a model's optimisers."""
        if self.slow == 1.0:
            return adam
        assert isinstance(model.encoder, nn.Module)
        return SlowModule(model.encoder, self.slow)

    def model(self, seed: int) -> nn.Module:
        """A fresh model, a function of the seed."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.build()


def node_classification(data: Graph, architecture: Architecture = "sage") -> Problem:
    """1 % of the nodes labelled for the loss, 1 % for validation."""
    split = split_nodes(data.num_nodes, labelled=0.02, y=data.y)
    return Problem(
        data.name,
        data,
        NodeClassification.from_split(data, split),
        lambda: Encoder(
            data.num_features,
            data.num_classes,
            architecture=architecture,
            width=128,
            dropout=0.5,
        ),
        node_settings(data, split),
        Schedule(epochs=200, lr=0.001, validate_every=2, patience=60),
        Schedule(epochs=100, lr=0.001, validate_every=2, patience=40),
        task_name="node-classification",
        architecture=architecture,
    )


def link_prediction(data: Graph, architecture: Architecture = "sage") -> Problem:
    """The paper's split: half of the edges among known nodes are there to learn from."""
    split = split_edges(data.adjacency)
    width = 64

    def build() -> LinkModel:
        encoder = Encoder(data.num_features, width, architecture=architecture, width=width)
        return LinkModel(encoder, HadamardMLP(width, width))

    return Problem(
        data.name,
        data,
        LinkPrediction.from_split(data, split, L2(output=0.001)),
        build,
        link_settings(data, split),
        Schedule(epochs=200, lr=0.005, validate_every=5, patience=60),
        Schedule(epochs=100, lr=0.001, validate_every=5, patience=40),
        task_name="link-prediction",
        architecture=architecture,
    )


def recommendation(data: Interactions, architecture: Architecture = "sage") -> Problem:
    """The paper's split: a tenth of the pairs to learn from, a twentieth to validate.

    Embeddings learn, penalised; the weights above them start orthogonal and move slowly.
    """
    split = split_interactions(data)
    task = Recommendation(split.train, split.validation, L2(input=0.03))

    def build() -> Recommender:
        encoder = Encoder(
            64, 64, architecture=architecture, width=64, activation="none", orthogonal=True
        )
        return Recommender(data.num_users, data.num_items, encoder, std=0.01, unknown=True)

    return Problem(
        data.name,
        data,
        task,
        build,
        (RecommendationSetting(task, split),),
        Schedule(epochs=150, lr=0.01, validate_every=5, patience=50),
        Schedule(epochs=80, lr=0.002, validate_every=5, patience=40),
        slow=0.01,
        task_name="recommendation",
        architecture=architecture,
        unit="users",
    )


_MAKERS: Mapping[TaskName, Callable[[int, Architecture], Problem]] = {
    "node-classification": lambda seed, kind: node_classification(demo_graph(seed), kind),
    "link-prediction": lambda seed, kind: link_prediction(demo_link_graph(seed), kind),
    "recommendation": lambda seed, kind: recommendation(demo_interactions(seed), kind),
}


def demo_problem(task: TaskName, graph_seed: int, architecture: Architecture) -> Problem:
    """A task's problem on the graph of a generator seed."""
    return replace(_MAKERS[task](graph_seed, architecture), graph_seed=graph_seed)
