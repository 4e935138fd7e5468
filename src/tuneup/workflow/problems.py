"""The demo's problems: for each task a generated graph, a model for it, and what is scored.

Whoever adds a task adds a function here and a line to ``_MAKERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

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
from tuneup.evaluation import (
    Floor,
    RecommendationSetting,
    link_floors,
    link_settings,
    node_floors,
    node_settings,
    recommendation_floors,
)
from tuneup.methods import Setup
from tuneup.metrics import NodeScores
from tuneup.names import Architecture, TaskName
from tuneup.nn import (
    EncoderSpec,
    HadamardMLP,
    InnerProduct,
    Model,
    NodeFeatures,
    UserItemVectors,
)
from tuneup.tasks import NodeClassification, Task
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.train import SlowModule


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


def node_classification(data: Graph, architecture: Architecture = "sage") -> Problem:
    """1 % of the nodes labelled for the loss, 1 % for validation."""
    split = split_nodes(data.num_nodes, labelled=0.02, y=data.y)
    setup = Setup(
        replace(NodeClassification.from_split(data, split), selection="balanced"),
        EncoderSpec(data.num_features, data.num_classes, architecture, width=128, dropout=0.5),
        pretrain=Schedule(epochs=200, lr=0.001, patience=60),
        finetune=Schedule(epochs=100, lr=0.001, patience=40),
    )
    return Problem(data.name, data, setup, node_settings(data, split))


def link_prediction(data: Graph, architecture: Architecture = "sage") -> Problem:
    """The paper's split: half of the edges among known nodes are there to learn from."""
    split, width = split_edges(data.adjacency), 64
    setup = Setup(
        replace(LinkPrediction.from_split(data, split, L2(output=0.001)), selection="balanced"),
        EncoderSpec(data.num_features, width, architecture, width=width),
        lambda encoder: Model(NodeFeatures(), encoder, HadamardMLP(width, width)),
        pretrain=Schedule(epochs=200, lr=0.005, patience=60),
        finetune=Schedule(epochs=100, lr=0.001, patience=40),
    )
    return Problem(data.name, data, setup, link_settings(data, split))


def recommendation(data: Interactions, architecture: Architecture = "sage") -> Problem:
    """The paper's split: a tenth of the pairs to learn from, a twentieth to validate.

    Embeddings learn, penalised; the weights above them start orthogonal and move slowly.
    """
    split, inputs = split_interactions(data), LearnedInputs.under(architecture)
    task = Recommendation(split.train, split.validation, L2(input=inputs.l2))
    users, items = data.num_users, data.num_items
    setup = Setup(
        task,
        EncoderSpec(64, 64, architecture, width=64, activation="none", orthogonal=True),
        lambda encoder: Model(
            UserItemVectors(users, items, std=inputs.std, unknown=True), encoder, InnerProduct()
        ),
        pretrain=Schedule(epochs=150, lr=0.01, validate_every=5, patience=50),
        finetune=Schedule(epochs=80, lr=0.002, validate_every=5, patience=40),
        optimizer=SlowEncoder(0.01),
    )
    return Problem(data.name, data, setup, (RecommendationSetting(task, split),))


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


_MAKERS: Mapping[TaskName, Callable[[int, Architecture], Problem]] = {
    "node-classification": lambda seed, kind: node_classification(demo_graph(seed), kind),
    "link-prediction": lambda seed, kind: link_prediction(demo_link_graph(seed), kind),
    "recommendation": lambda seed, kind: recommendation(demo_interactions(seed), kind),
}


def demo_problem(task: TaskName, graph_seed: int, architecture: Architecture) -> Problem:
    """A task's problem on the graph of a generator seed."""
    return replace(_MAKERS[task](graph_seed, architecture), graph_seed=graph_seed)
