"""ColdBrew (Zheng et al., ICLR 2022): distil the GNN into a perceptron that is used for tail nodes.

The Base GNN is frozen.  A perceptron learns its outputs ``z`` from features alone::

    loss = mean over head nodes v of |MLP(x_v) - z_v|^2 / width of z

and a node of degree at most ``delta`` gets ``MLP(x_v)``, or the mean of that and of the outputs of
its ``neighbours`` most similar head nodes, weighted by a softmax of the inner products.
Other nodes keep ``z``; the classifier or decoder above stays as it was.

The authors' student for classification has two parts.  The first is the perceptron above.  With its
output the second part looks up the outputs of similar head nodes, and a second perceptron reads all
three::

    z'_v = MLP2([x_v; attention over the K most similar heads' z; MLP(x_v)])

and is trained on the true labels, with the first part frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.curriculum import Stage, Update, base
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.features import Features, dense, take_features
from tuneup.graph.hashing import uniform
from tuneup.metrics.topk import top_k
from tuneup.nn import MLP, call_module
from tuneup.tasks import NodeClassification, Task

from .base import Method, Recipe, Setup
from .parts import STUDENT, CachedOutput, data_of, encoder_of, perceptron, with_encoder

_HELD_OUT = 0.1
"""Share of the fit set that validates the student and never trains it."""
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
        return z.index_copy(0, tail, self.tail_outputs(take_features(x, tail), head))

    def tail_outputs(self, x: Features, head: Tensor) -> Tensor:
        """Outputs ``[n, out]`` for nodes of given features; ``head`` are the heads' outputs."""
        guess: Tensor = self.student(x)
        if self.neighbours and head.shape[0]:
            guess = (guess + attend(guess, head, self.neighbours)) / 2
        return guess

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"delta={self.delta}, neighbours={self.neighbours}"


def attend(query: Tensor, known: Tensor, k: int) -> Tensor:
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
    teacher: CachedOutput = field(default_factory=CachedOutput, repr=False, compare=False)

    def __call__(self, update: Update) -> Tensor:
        """The mean over the fit set, and over the width of an output."""
        return self.distance(update.trained, update.task, held_out=False)

    def distance(self, model: nn.Module, task: Task[Any], held_out: bool) -> Tensor:
        """The same on the fit set, or on the nodes that are held out from it."""
        encoder = encoder_of(model)
        assert isinstance(encoder, ColdBrewEncoder)
        x, graph = data_of(task).x, task.graph
        frozen = encoder.teacher
        z = self.teacher(frozen, graph, lambda: call_module(frozen, x, graph))
        nodes = self.fit_set(task, held_out)
        return F.mse_loss(encoder.student(take_features(x, nodes)), z[nodes])

    def fit_set(self, task: Task[Any], held_out: bool) -> Tensor:
        """Nodes with enough edges, but for a tenth of them; or that tenth, always the same.

        Validation nodes are left out: the teacher's output for them is a pseudo-label.
        """
        graph = task.graph
        teaches = graph.degree > self.least
        if isinstance(task, NodeClassification) and not task.label_validation:
            teaches[task.validation] = False
        nodes = teaches.nonzero().view(-1)
        if nodes.numel() < 2:
            raise InputError(
                f"ColdBrew: fewer than 2 nodes have more than {self.least} edges; take a smaller "
                "delta, or heads_only=False."
            )
        held = uniform(graph.global_ids[nodes], _KEY) < _HELD_OUT
        held[0], held[-1] = True, False  # one of each in any case
        return nodes[held if held_out else ~held]


@dataclass(frozen=True)
class HeldOut:
    """How close the student comes to the teacher on nodes that it was not fitted on.

    The task's own score would not do: it uses the student's outputs for tail nodes only, and there
    may be none among the validation nodes.
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
        """Base, then the student, which is the result however Base validates."""
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


class TwoPartEncoder(ColdBrewEncoder):
    """The teacher's outputs for heads, the second perceptron's for tails."""

    reading_settings = ()  # both settings decide what its second part is trained on

    def __init__(
        self, teacher: nn.Module, student: MLP, reader: MLP, delta: int, neighbours: int
    ) -> None:
        super().__init__(teacher, student, delta, neighbours)
        self.reader = reader

    def tail_outputs(self, x: Features, head: Tensor) -> Tensor:
        """Outputs of the second part from features, similar heads and the first part."""
        guess = self.student(x).detach()  # the first part is trained already
        found = attend(guess, head, self.neighbours) if head.shape[0] else torch.zeros_like(guess)
        out: Tensor = self.reader(torch.cat([dense(x), found, guess], 1))
        return out


def second_outputs(encoder: nn.Module, task: Task[Any], nodes: Tensor) -> Tensor:
    """Outputs of the second part for nodes, heads or tails ``[n, out]``."""
    assert isinstance(encoder, TwoPartEncoder)
    assert isinstance(task, NodeClassification)
    x, graph = task.data.x, task.graph
    with torch.no_grad():
        z = call_module(encoder.teacher, x, graph)
    return encoder.tail_outputs(take_features(x, nodes), z[graph.degree > encoder.delta])


def reading_loss(update: Update) -> Tensor:
    """The task's loss of the second part on the labelled nodes."""
    labels, task = update.supervision, update.task
    assert isinstance(task, NodeClassification)
    return task.cross_entropy(second_outputs(update.trained, task, labels.nodes), labels.y)


def reading_score(modules: Mapping[str, nn.Module], task: Task[Any]) -> float:
    """The metric of the second part on the validation nodes, whatever their degree."""
    assert isinstance(task, NodeClassification)
    assert task.data.y is not None
    outputs = second_outputs(encoder_of(modules[STUDENT]), task, task.validation)
    return task.measure(outputs, task.data.y[task.validation])


@dataclass(frozen=True)
class ColdBrewTwoPart:
    """Base's outputs for head nodes, the two-part student's for tail nodes.

    Args:
        delta: nodes of degree up to this are tails.
        heads_only: whether the first part is fitted on heads, or on every node with an edge.
        neighbours: similar head nodes that are looked up.
        num_layers: of both perceptrons.
        dropout: of the second, which learns from the few labels; the first has all nodes to learn.
    """

    delta: int = 0
    heads_only: bool = True
    neighbours: int = 3
    num_layers: int = 3
    dropout: float = 0.0

    def __post_init__(self) -> None:
        MLP(1, 1, width=1, num_layers=self.num_layers, dropout=self.dropout)  # refuses bad numbers
        if self.neighbours < 1:
            raise InputError(f"neighbours must be 1 or more; got {self.neighbours}.")

    def __call__(self, setup: Setup) -> Recipe:
        """Base, the first part, then the second, which is the result."""
        model, spec = setup.base_model(), setup.encoder
        student = perceptron(spec, self.num_layers, dropout=0.0)
        reader = MLP(
            spec.in_channels + 2 * spec.out_channels,
            spec.out_channels,
            width=spec.width,
            num_layers=self.num_layers,
            dropout=self.dropout,
        )
        brewed = TwoPartEncoder(model, student, reader, self.delta, self.neighbours)
        regression = Regression(fit_above(self.delta, self.heads_only))
        regression.fit_set(setup.task, held_out=False)  # refuses a graph with nothing to fit
        parts = (
            Stage(
                schedule=setup.pretrain,
                module=STUDENT,
                objective=regression,
                score=HeldOut(regression),
                answers=True,
            ),
            Stage(
                schedule=setup.pretrain,
                module=STUDENT,
                objective=reading_loss,
                score=reading_score,
                answers=True,
            ),
        )
        stages = (*base(setup.pretrain), *parts)
        return Recipe(model, stages, {STUDENT: brewed})


METHODS = (
    Method(
        "coldbrew",
        "Base for head nodes, an MLP that imitates it for tail nodes",
        "Zheng et al., ICLR 2022",
        ColdBrew(),
        tasks=("node-classification", "link-prediction"),
        needs_features=True,
        why_not="its perceptron reads the features of nodes",
        grid={"delta": (0, 2, 5), "heads_only": (True, False), "neighbours": (0, 2, 3)},
        # Every node with an edge is above a delta of 0.
        unread=lambda settings, task: ("heads_only",) if settings.delta <= 0 else (),
    ),
    Method(
        "coldbrew-two-part",
        "ColdBrew's original student: looks up similar heads, then classifies",
        "Zheng et al., ICLR 2022",
        ColdBrewTwoPart(),
        tasks=("node-classification",),
        needs_features=True,
        why_not="its second part reads features and is trained on class labels",
        grid={
            "delta": (0, 2, 5),
            "heads_only": (True, False),
            "neighbours": (2, 3),
            "dropout": (0.0, 0.5),
        },
        unread=lambda settings, task: ("heads_only",) if settings.delta <= 0 else (),
        title="ColdBrew, two parts",
    ),
)
