"""Small runs that several tests share.

Everything a stage names is a module-level function or a frozen dataclass: a killed run knows them
again by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.curriculum import ExtraStep, Schedule, Stage, Update, full, tails
from tuneup.data import block_graph
from tuneup.graph import Adjacency, adjacency_from
from tuneup.nn import Encoder
from tuneup.tasks import GraphView, Moment, NodeClassification, PseudoLabels, Task

NUM_NODES, NUM_CLASSES, NUM_FEATURES = 300, 3, 8


def small_task(**options: bool) -> NodeClassification:
    """30 training and 30 validation nodes, the ids of the graph as they are."""
    graph = block_graph(NUM_NODES, 900, NUM_CLASSES, NUM_FEATURES, signal=2.0)
    order = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(0))
    return NodeClassification(
        graph, order[:30].sort().values, order[30:60].sort().values, **options
    )


def small_encoder(seed: int = 0, **options: Any) -> Encoder:
    """Two layers of width 16 with dropout."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options = {"width": 16, "num_layers": 2, "dropout": 0.5, **options}
        return Encoder(NUM_FEATURES, NUM_CLASSES, **options)


class PygNet(nn.Module):
    """A user's model: PyG's layers, torch's dropout, nothing of ours."""

    def __init__(self, seed: int = 0) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first = SAGEConv(NUM_FEATURES, 16)
            self.norm = nn.BatchNorm1d(16)
            self.second = SAGEConv(16, NUM_CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(F.relu(self.norm(self.first(x, edge_index))), 0.5, self.training)
        return self.second(h, edge_index)


# A task whose validation scores are written down


class Counter(nn.Module):
    """One weight, and how many updates it has seen: a state says which epoch it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.tensor(0))


@dataclass(frozen=True, eq=False)
class Scripted(Task[None]):
    """The score of a state that has seen k updates is ``scores[k]``, 0 beyond the end."""

    scores: tuple[float, ...]
    metric: str = "points"
    graph: Adjacency = field(default=adjacency_from(torch.tensor([[0], [1]]), 2, undirected=True))

    def supervision(self, pseudo: PseudoLabels | None = None) -> None:
        return None

    def loss(self, model: nn.Module, view: GraphView, supervision: None, moment: Moment) -> Tensor:
        model.steps += 1
        return model.weight.square().sum()

    def validate(self, model: nn.Module) -> float:
        step = int(model.steps)
        return self.scores[step] if step < len(self.scores) else 0.0

    def digest(self) -> str:
        return repr(self.scores)


# Four modules: a model with an adversary, a student that learns from it, and a generator


class Student(nn.Module):
    """Reads a node's own features only."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NUM_FEATURES, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, NUM_CLASSES)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layers(x)


class Generator(nn.Module):
    """Guesses the features of a node from noise and its class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * NUM_CLASSES, NUM_FEATURES)

    def forward(self, logits: Tensor) -> Tensor:
        return self.layer(torch.cat([logits, torch.randn_like(logits)], 1))


def outputs(update: Update, name: str, view: GraphView) -> Tensor:
    """Class scores of all nodes by the named module."""
    return update.task.forward(update.modules[name], view.graph)


def tell_apart(update: Update) -> Tensor:
    """The critic: answers on G are 1, answers on G~ are 0."""
    whole, dropped = (outputs(update, "model", view) for view in update.views)
    right, wrong = update.trained(whole), update.trained(dropped)
    ones, zeros = torch.ones_like(right), torch.zeros_like(wrong)
    return F.binary_cross_entropy_with_logits(torch.cat([right, wrong]), torch.cat([ones, zeros]))


@dataclass(frozen=True)
class Fool:
    """The model: its task, and answers on G~ that the critic takes for answers on G."""

    weight: float

    def __call__(self, update: Update) -> Tensor:
        whole, dropped = update.views
        loss = update.task.loss(update.trained, whole, update.supervision, update.moment)
        guess = update.modules["critic"](outputs(update, "model", dropped))
        return loss + self.weight * F.binary_cross_entropy_with_logits(
            guess, torch.ones_like(guess)
        )


def distil(update: Update) -> Tensor:
    """The student: the model's answers."""
    with torch.no_grad():
        target = outputs(update, "model", update.views[0]).softmax(1)
    return F.cross_entropy(outputs(update, "student", update.views[0]), target)


def reconstruct(update: Update) -> Tensor:
    """The generator: features out of the model's answers."""
    with torch.no_grad():
        logits = outputs(update, "model", update.views[0])
    return F.mse_loss(update.trained(logits), update.task.data.x)


def held_out(modules: Mapping[str, nn.Module], task: Task[Any]) -> float:
    """How well the generator does on the validation nodes, from the noise of the moment."""
    logits = task.forward(modules["model"], task.graph, task.validation)
    return -float(F.mse_loss(modules["generator"](logits), task.data.x[task.validation]))


def toy_modules(seed: int = 0) -> dict[str, nn.Module]:
    """All but the model."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        critic = nn.Sequential(nn.Linear(NUM_CLASSES, 4), nn.Dropout(0.2), nn.Linear(4, 1))
        return {"critic": critic, "student": Student(), "generator": Generator()}


def toy_curriculum(epochs: int = 6) -> tuple[Stage, ...]:
    """An adversary, a generator with a score of its own, and a student."""
    schedule = Schedule(epochs, lr=0.01, validate_every=2)
    critic = ExtraStep("critic", tell_apart, repeats=2, lr=0.02)
    return (
        Stage((full, tails(0.5)), schedule=schedule, objective=Fool(0.1), extra_steps=(critic,)),
        Stage(module="generator", objective=reconstruct, score=held_out, schedule=schedule),
        Stage(module="student", objective=distil, pseudo_labels=True, schedule=schedule),
    )
