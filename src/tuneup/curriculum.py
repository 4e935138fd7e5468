"""What TuneUp is, as data.

A **curriculum** is a tuple of **stages**.  A stage says which **views** of the graph the loss is
taken on, whether **pseudo-labels** join the supervision, and on what **schedule**.  Every row of
the paper's tables is then a line::

    base                    (Stage(),)
    dropedge                (Stage(views=(tails(alpha),)),)
    tuneup                  (Stage(), Stage(views=(tails(alpha),), pseudo_labels=True))
    without_syn_tails       (Stage(), Stage(pseudo_labels=True))
    without_pseudo_labels   (Stage(), Stage(views=(tails(alpha),)))
    without_curriculum      (Stage(views=(full, tails(alpha))),)

How a curriculum is run is the business of :mod:`tuneup.train`: one loop for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge
from tuneup.names import Alpha
from tuneup.tasks import GraphView, Moment, PseudoLabels, Task

__all__ = [
    "CURRICULA",
    "MODEL",
    "Curriculum",
    "ExtraStep",
    "Full",
    "Labeller",
    "OptimizerFactory",
    "Schedule",
    "Stage",
    "SyntheticTails",
    "Update",
    "View",
    "base",
    "dropedge",
    "full",
    "tails",
    "task_loss",
    "without_curriculum",
    "without_pseudo_labels",
    "without_syn_tails",
]  # not `tuneup`: a star import would put it in the package's place

MODEL = "model"
"""Name of the module that is being trained, unless a stage says otherwise."""


@runtime_checkable
class View(Protocol):
    """Makes what the model sees out of the training graph, a pure function of the moment.

    Views are frozen dataclasses, whose settings are part of a stage's digest.
    """

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """The view of one update."""


@dataclass(frozen=True)
class Full:
    """The training graph G itself."""

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """G itself."""
        return GraphView(graph)


@dataclass(frozen=True)
class SyntheticTails:
    """G~: a share ``alpha`` of the edges dropped, in another draw for every update.

    With ``alpha="graded"`` every node draws a share of its own: see :class:`tuneup.graph.DropEdge`.
    """

    alpha: Alpha = 0.5
    paired: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        DropEdge(self.alpha)  # refuses a bad alpha here, not at the first update

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """G~, drawn for this moment."""
        drop = DropEdge(self.alpha, moment.seed, self.paired, self.exact)
        return GraphView(drop.view(graph, moment.step, moment.stage))


full = Full()
"""The view of the graph as it is."""


def tails(alpha: Alpha = 0.5, *, paired: bool = True, exact: bool = False) -> SyntheticTails:
    """The view with a share ``alpha`` of the edges dropped."""
    return SyntheticTails(alpha, paired, exact)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a stage trains.

    Example::

        schedule = tuneup.Schedule(epochs=500, lr=0.005, patience=100)

    Args:
        epochs: at most this many; an epoch is one update over all the supervision.
        lr: learning rate of the first epoch.
        validate_every: epochs between two validations; ``None``: as many as the task asks for. The
            last epoch is always validated.
        patience: stop after this many epochs without a better validation score; ``None``: never.
        milestones: epochs from which the learning rate is multiplied by ``gamma`` once more;
            patience only counts after the last of them.
        gamma: see ``milestones``.
        weight_decay: of the optimiser.
        clip: greatest norm of an update's gradients, all together; longer ones are scaled down to
            it. ``None``: no limit.
    """

    epochs: int = 300
    lr: float = 0.001
    validate_every: int | None = None
    patience: int | None = None
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    weight_decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "validate_every", "patience"):
            value = getattr(self, name)
            if not (_is_count(value) or (value is None and name != "epochs")):
                allowed = "" if name == "epochs" else ", or None"
                raise InputError(
                    f"{name} must be a whole number, 1 or more{allowed}; got {value!r}."
                )
        for name in ("lr", "gamma", "weight_decay", "clip"):
            value = getattr(self, name)
            if name == "clip" and value is None:
                continue
            if not isinstance(value, int | float):
                raise InputError(f"{name} must be a number; got {value!r}.")
            if not 0 <= value < math.inf or (value == 0 and name != "weight_decay"):
                least = "0 or more" if name == "weight_decay" else "above 0"
                raise InputError(f"{name} must be {least}; got {value}.")
        if any(milestone < 1 for milestone in self.milestones):
            raise InputError(f"milestones must be epochs, 1 or more; got {self.milestones}.")

    def factor(self, epoch: int) -> float:
        """What the learning rate is multiplied by at ``epoch`` (from 0): no state to resume."""
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, eq=False)
class Update:
    """Everything an objective may read at one update."""

    modules: Mapping[str, nn.Module]
    module: str
    task: Task[Any]
    views: tuple[GraphView, ...]
    supervision: Any
    moment: Moment

    @property
    def trained(self) -> nn.Module:
        """The module that this update is for."""
        return self.modules[self.module]


Objective = Callable[[Update], Tensor]
"""A loss to minimise: a module-level function or frozen dataclass, so that it has a name."""


def task_loss(update: Update) -> Tensor:
    """The task's own loss, averaged over the views."""
    losses = [
        update.task.loss(update.trained, view, update.supervision, update.moment)
        for view in update.views
    ]
    return sum(losses[1:], losses[0]) / len(losses)


OptimizerFactory = Callable[[Iterable[Parameter], float, float], torch.optim.Optimizer]
"""Makes an optimiser from parameters, learning rate and weight decay."""

Labeller = Callable[[Task[Any], nn.Module], PseudoLabels | None]
"""Makes pseudo-labels of its own, in evaluation mode and without gradients: a frozen dataclass."""

Score = Callable[[Mapping[str, nn.Module], Task[Any]], float]
"""Scores the modules in evaluation mode and without gradients; more is better."""


@dataclass(frozen=True)
class ExtraStep:
    """More optimiser steps before each main one, on another module: an adversary, a generator."""

    module: str
    objective: Objective
    repeats: int = 1
    lr: float = 0.001

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InputError(f"repeats must be 1 or more; got {self.repeats}.")
        if not 0 < self.lr < math.inf:
            raise InputError(f"lr must be above 0; got {self.lr}.")


@dataclass(frozen=True)
class Stage:
    """One stretch of training.

    Example: pre-training, then fine-tuning on synthetic tail nodes with pseudo-labels::

        from tuneup.curriculum import tails
        from tuneup.train import train

        first = tuneup.Stage(schedule=schedule)
        second = tuneup.Stage(views=(tails(0.5),), pseudo_labels=True, schedule=schedule)
        result = train(model, task, (first, second))

    Args:
        views: what the model sees; the loss is the mean over them.
        pseudo_labels: whether the model so far labels the unlabelled nodes first, or what makes
            labels of another kind from it.
        schedule: epochs, learning rate, patience.
        module: name of the module that is trained and validated; the model by default.
        objective: the loss; the task's own by default.
        extra_steps: further modules with objectives of their own, stepped before each update.
        score: of a state, if not the task's validation: a generator's held-out loss, say.
        answers: whether the module of a stage with a score of its own still answers for the task,
            as a student does and a generator does not.
        optimizer: makes this stage's optimisers, if not as the run's do.
    """

    views: tuple[View, ...] = (full,)
    pseudo_labels: bool | Labeller = False
    schedule: Schedule = field(default_factory=Schedule)
    module: str = MODEL
    objective: Objective = task_loss
    extra_steps: tuple[ExtraStep, ...] = ()
    score: Score | None = None
    answers: bool = False
    optimizer: OptimizerFactory | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.views, tuple) or not self.views:
            raise InputError(f"views must be a tuple of at least one view; got {self.views!r}.")
        if len(set(map(repr, self.views))) < len(self.views):
            raise InputError(
                f"views holds the same view twice, which would draw the same graph: {self.views}."
            )
        if len(set(self.trains)) < len(self.trains):
            raise InputError(
                f"A stage steps each module in one way only; got {', '.join(self.trains)}."
            )

    @property
    def trains(self) -> tuple[str, ...]:
        """Names of the modules that this stage changes, its own first."""
        return (self.module, *(extra.module for extra in self.extra_steps))


Curriculum = tuple[Stage, ...]
"""Stages, in the order in which they run."""


def base(pretrain: Schedule | None = None) -> Curriculum:
    """Conventional training: stage 1 alone."""
    return (Stage(schedule=pretrain or Schedule()),)


def dropedge(alpha: Alpha = 0.5, pretrain: Schedule | None = None) -> Curriculum:
    """Stage 2's input from scratch, with true labels only."""
    return (Stage(views=(tails(alpha),), schedule=pretrain or Schedule()),)


def tuneup(
    alpha: Alpha = 0.5,
    pretrain: Schedule | None = None,
    finetune: Schedule | None = None,
    *,
    whole: bool = False,
) -> Curriculum:
    """Algorithm 1: train as usual, then fine-tune on synthetic tails with pseudo-labels.

    ::

        Input: graph G, supervision Y, model F, share alpha of edges to drop
        # Stage 1: F learns from G as it is (Base).
        until F converges:
            update F by the gradient of L(F(G), Y)
        # Stage 2: F learns to predict nodes with few edges.
        Y* = Y and pseudo-labels of F(G)             # link tasks: Y* = Y
        until F converges:
            G~ = G without a random share alpha of its edges
            update F by the gradient of L(F(G~), Y*)

    Args:
        alpha: share of edges to drop.
        pretrain: schedule of stage 1.
        finetune: schedule of stage 2.
        whole: whether the loss of stage 2 is the mean over G and G~: head nodes stay as good as
            they were, at twice the cost of an update.
    """
    views = (full, tails(alpha)) if whole else (tails(alpha),)
    second = Stage(views=views, pseudo_labels=True, schedule=finetune or Schedule())
    return (*base(pretrain), second)


def without_syn_tails(
    pretrain: Schedule | None = None, finetune: Schedule | None = None
) -> Curriculum:
    """Pseudo-labels without dropping edges."""
    return (*base(pretrain), Stage(pseudo_labels=True, schedule=finetune or Schedule()))


def without_pseudo_labels(
    alpha: Alpha = 0.5, pretrain: Schedule | None = None, finetune: Schedule | None = None
) -> Curriculum:
    """Dropping edges without pseudo-labels."""
    return (*base(pretrain), Stage(views=(tails(alpha),), schedule=finetune or Schedule()))


def without_curriculum(alpha: Alpha = 0.5, pretrain: Schedule | None = None) -> Curriculum:
    """One stage: each update takes the mean of the loss on G and the loss on G~."""
    return (Stage(views=(full, tails(alpha)), schedule=pretrain or Schedule()),)


Maker = Callable[[Alpha, Schedule, Schedule], Curriculum]

CURRICULA: Mapping[str, Maker] = {
    "base": lambda alpha, first, second: base(first),
    "dropedge": lambda alpha, first, second: dropedge(alpha, first),
    "tuneup": tuneup,
    "without-curriculum": lambda alpha, first, second: without_curriculum(alpha, first),
    "without-syn-tails": lambda alpha, first, second: without_syn_tails(first, second),
    "without-pseudo-labels": without_pseudo_labels,
}
"""The rows of the paper's tables that need nothing but a curriculum, from one signature."""
