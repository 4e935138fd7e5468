"""ColdBrew (Zheng et al., ICLR 2022): head nodes teach a perceptron to speak for tail nodes.

The Base GNN is frozen.  A perceptron learns its outputs ``z`` from features alone::

    loss = mean over head nodes v of |MLP(x_v) - z_v|^2 / width of z

and a node of degree at most ``delta`` answers with ``MLP(x_v)``, or with the mean of that and of
what its ``neighbours`` most similar head nodes answer, weighted by a softmax of the inner products.
Other nodes keep ``z``; the classifier or decoder above stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.curriculum import Stage, Update, base
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.features import Features, take_features
from tuneup.graph.hashing import uniform
from tuneup.metrics.topk import top_k
from tuneup.nn import MLP, call_module
from tuneup.tasks import NodeClassification, Task

from .base import Method, Recipe, Setup
from .parts import STUDENT, Remembered, data_of, encoder_of, perceptron, with_encoder

_HELD_OUT = 0.1
"""Share of the fit set that judges the student and never trains it."""
_KEY = 0x6272657764
"""Keeps the draw of these nodes apart from all others ("brewd" in ASCII)."""


class ColdBrewEncoder(nn.Module):
    """The teacher's outputs for nodes of degree above ``delta``, the student's for the others."""

    takes_adjacency = True
    reading_settings: tuple[str, ...] = ("delta", "neighbours")

    def __init__(self, teacher: nn.Module, student: MLP, delta: int, neighbours: int) -> None:
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.delta = delta
        self.neighbours = neighbours

    def train(self, mode: bool = True) -> ColdBrewEncoder:
        """Training mode for the student; the teacher is frozen."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x: Features, graph: Adjacency | Tensor) -> Tensor:
        """Outputs of all nodes ``[N, out]``; ``graph`` may be a PyG ``edge_index``."""
        graph = adjacency_from(graph, x.shape[0])
        z = call_module(self.teacher, x, graph)
        tail = (graph.degree <= self.delta).nonzero().view(-1)
        if not tail.numel():
            return z
        head = z[graph.degree > self.delta]
        return z.index_copy(0, tail, self.speak(take_features(x, tail), head))

    def speak(self, x: Features, head: Tensor) -> Tensor:
        """Outputs ``[n, out]`` for nodes of given features, ``head`` being what heads answer."""
        guess: Tensor = self.student(x)
        if self.neighbours and head.shape[0]:
            guess = (guess + recall(guess, head, self.neighbours)) / 2
        return guess

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"delta={self.delta}, neighbours={self.neighbours}"


def recall(query: Tensor, known: Tensor, k: int) -> Tensor:
    """Attention of each query ``[n, d]`` over the ``k`` most similar rows of ``known [m, d]``."""
    best = top_k(query.detach(), known.detach(), min(k, known.shape[0]))
    weight = best.scores.softmax(1).to(known.dtype)
    return (weight[..., None] * known[best.ids]).sum(1)


def fit_above(delta: int, heads_only: bool) -> int:
    """The perceptron is fitted on nodes with more edges than this."""
    return max(delta, 0) if heads_only else 0


@dataclass(frozen=True)
class Regression:
    """Squared distance of the student's to the frozen teacher's outputs, over the fit set."""

    least: int
    """nodes with more edges than this teach"""
    teacher: Remembered = field(default_factory=Remembered, repr=False, compare=False)

    def __call__(self, update: Update) -> Tensor:
        """The mean over the nodes that teach, and over the numbers of an output."""
        return self.distance(update.trained, update.task, held_out=False)

    def distance(self, model: nn.Module, task: Task[Any], held_out: bool) -> Tensor:
        """The same on the nodes that teach, or on those that judge how well it was learned."""
        encoder = encoder_of(model)
        assert isinstance(encoder, ColdBrewEncoder)
        x, graph = data_of(task).x, task.graph
        frozen = encoder.teacher
        z = self.teacher(frozen, graph, lambda: call_module(frozen, x, graph))
        nodes = self.fit_set(task, held_out)
        return F.mse_loss(encoder.student(take_features(x, nodes)), z[nodes])

    def fit_set(self, task: Task[Any], held_out: bool) -> Tensor:
        """Nodes with enough edges, but for a tenth of them; or that tenth, always the same.

        Nodes whose labels choose the settings are not among them: what the teacher says of them is
        a pseudo-label.
        """
        graph = task.graph
        teaches = graph.degree > self.least
        if isinstance(task, NodeClassification) and not task.label_validation:
            teaches[task.validation] = False
        nodes = teaches.nonzero().view(-1)
        if nodes.numel() < 2:
            raise InputError(
                f"ColdBrew: fewer than 2 nodes have more than {self.least} edges to teach. Take a "
                "smaller delta, or heads_only=False."
            )
        judged = uniform(graph.global_ids[nodes], _KEY) < _HELD_OUT
        judged[0], judged[-1] = True, False  # one of each in any case
        return nodes[judged if held_out else ~judged]


@dataclass(frozen=True)
class HeldOut:
    """How close the student comes to the teacher on nodes that it was not fitted on.

    The task's own score would not do: it hears the student on tail nodes alone, and where no
    validation node is one, not at all.
    """

    regression: Regression

    def __call__(self, modules: Mapping[str, nn.Module], task: Task[Any]) -> float:
        """Minus the distance."""
        return -float(self.regression.distance(modules[STUDENT], task, held_out=True))


@dataclass(frozen=True)
class ColdBrew:
    """Base's outputs for head nodes, a perceptron's for tail nodes.

    Args:
        delta: nodes of degree up to this are tails.
        heads_only: whether the perceptron is fitted on heads, or on every node with an edge.
        neighbours: similar head nodes whose outputs are mixed in.
        num_layers: of the perceptron.
        dropout: of the perceptron; the teacher's own is chosen for few labels, and it has many.
    """

    delta: int = 0
    heads_only: bool = True
    neighbours: int = 0
    num_layers: int = 3
    dropout: float = 0.0

    def __post_init__(self) -> None:
        MLP(1, 1, width=1, num_layers=self.num_layers, dropout=self.dropout)  # refuses bad numbers
        if self.neighbours < 0:
            raise InputError(f"neighbours must be 0 or more; got {self.neighbours}.")

    def __call__(self, setup: Setup) -> Recipe:
        """Base, then the student, which is the result however the teacher validates."""
        model = setup.base_model()
        student = perceptron(setup.encoder, self.num_layers, self.dropout)
        brewed = ColdBrewEncoder(encoder_of(model), student, self.delta, self.neighbours)
        regression = Regression(fit_above(self.delta, self.heads_only))
        regression.fit_set(setup.task, held_out=False)  # refuses a graph with nothing to fit
        distil = Stage(
            schedule=setup.pretrain,  # the student begins from nothing
            module=STUDENT,
            objective=regression,
            score=HeldOut(regression),
            answers=True,
        )
        modules = {STUDENT: with_encoder(model, brewed)}
        return Recipe(model, (*base(setup.pretrain), distil), modules)


METHODS = (
    Method(
        "coldbrew",
        "Base for head nodes, an MLP that imitates it for tail nodes",
        "Zheng et al., ICLR 2022",
        ColdBrew(),
        tasks=("node-classification", "link-prediction"),
        needs_features=True,
        why_not="its perceptron speaks for a node from the node's features",
        grid={"delta": (0, 2, 5), "heads_only": (True, False), "neighbours": (0, 2, 3)},
        # Every node with an edge is above a delta of 0.
        unread=lambda settings, task: ("heads_only",) if settings.delta <= 0 else (),
    ),
)
