"""ColdBrew's original student for classification, in two parts.

The first part is :mod:`~tuneup.methods.coldbrew`'s: a perceptron that learned the frozen GNN's
outputs from features.  With its guess the second part looks up what similar head nodes answer, and
a second perceptron reads all three::

    z'_v = MLP2([x_v; attention over the K most similar heads' z; MLP(x_v)])

and is trained, the first part frozen, on the true labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tuneup.curriculum import Stage, Update, base
from tuneup.errors import InputError
from tuneup.graph.features import Features, dense, take_features
from tuneup.nn import MLP, call_module
from tuneup.tasks import NodeClassification, Task

from .base import Method, Recipe, Setup
from .coldbrew import ColdBrewEncoder, HeldOut, Regression, fit_above, recall
from .parts import STUDENT, encoder_of, perceptron


class TwoPartEncoder(ColdBrewEncoder):
    """The teacher's outputs for heads, the second perceptron's for tails."""

    reading_settings = ()  # its second part is trained on what similar heads answer

    def __init__(
        self, teacher: nn.Module, student: MLP, reader: MLP, delta: int, neighbours: int
    ) -> None:
        super().__init__(teacher, student, delta, neighbours)
        self.reader = reader

    def speak(self, x: Features, head: Tensor) -> Tensor:
        """What the second part reads out of features, similar heads and the first part."""
        guess = self.student(x).detach()  # it has learned; the second part learns from it
        found = recall(guess, head, self.neighbours) if head.shape[0] else torch.zeros_like(guess)
        out: Tensor = self.reader(torch.cat([dense(x), found, guess], 1))
        return out


def spoken(encoder: nn.Module, task: Task[Any], nodes: Tensor) -> Tensor:
    """What the second part says of nodes, heads or tails ``[n, out]``."""
    assert isinstance(encoder, TwoPartEncoder)
    assert isinstance(task, NodeClassification)
    x, graph = task.data.x, task.graph
    with torch.no_grad():
        z = call_module(encoder.teacher, x, graph)
    return encoder.speak(take_features(x, nodes), z[graph.degree > encoder.delta])


def reading_loss(update: Update) -> Tensor:
    """The task's loss of the second part on the labelled nodes."""
    labels, task = update.supervision, update.task
    assert isinstance(task, NodeClassification)
    return task.cross_entropy(spoken(update.trained, task, labels.nodes), labels.y)


def reading_score(modules: Mapping[str, nn.Module], task: Task[Any]) -> float:
    """The metric of the second part on the validation nodes, whatever their degree."""
    assert isinstance(task, NodeClassification)
    assert task.data.y is not None
    said = spoken(encoder_of(modules[STUDENT]), task, task.validation)
    return task.measure(said, task.data.y[task.validation])


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
