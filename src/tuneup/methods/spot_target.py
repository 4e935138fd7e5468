"""Target edges kept out of the messages at tail nodes (after SpotTarget, Zhu et al., WSDM 2024).

A model that predicts the edges it also passes messages along can learn them by heart, most of all
where a node has few.  At every update a share of the training edges are the positives; those that
touch a node of low degree are left out of the graph that messages flow along::

    T    a share of the training edges, drawn again at every update
    G'   G without the edges of T that have an end of degree at most delta
    loss = BPR over T, on the model's outputs for G'
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.curriculum import Stage, Update, base, tails
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.names import Alpha
from tuneup.tasks import GraphView, LinkPrediction

from .base import Method, Recipe, Setup
from .curricula import ALPHAS

_TARGETS = 0x746172676574
"""Keeps the draws of targets apart from those of synthetic tails ("target" in ASCII)."""


@dataclass(frozen=True)
class HiddenTargets:
    """The task's loss on a share of the edges, those at tail nodes hidden from the messages.

    Args:
        share: of the training edges that are positives of an update.
        delta: an edge is hidden if an end has at most this degree in the training graph.
    """

    share: float = 0.5
    delta: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share: got {self.share}; expected above 0, at most 1.")
        if self.delta < 0:
            raise InputError(f"delta: got {self.delta}; expected 0 or more.")

    def __call__(self, update: Update) -> Tensor:
        """The mean over the views."""
        task, edges, moment = update.task, update.supervision, update.moment
        assert isinstance(task, LinkPrediction)
        draw = DropEdge(self.share, seed=moment.seed ^ _TARGETS)
        targets = edges[:, ~draw.mask(edges, moment.step, moment.stage)]
        if not targets.numel():  # a tiny graph, or a tiny share
            targets = edges
        losses = []
        for view in update.views:
            graph = view.graph
            hidden = ~draw.mask(graph.edge_index, moment.step, moment.stage)
            low = task.graph.degree <= self.delta
            hidden &= low[graph.row] | low[graph.col]
            seen = GraphView(graph.thin(~hidden), view.nodes, view.extra)
            losses.append(task.loss(update.trained, seen, targets, moment))
        return torch.stack(losses).mean()


@dataclass(frozen=True)
class SpotTarget:
    """Base or TuneUp with :class:`HiddenTargets` in every stage.

    Args:
        share: see :class:`HiddenTargets`.
        delta: see :class:`HiddenTargets`.
        alpha: share of edges that stage 2 drops; ``None``: there is no stage 2.
    """

    share: float = 0.5
    delta: int = 5
    alpha: Alpha | None = None

    def __post_init__(self) -> None:
        HiddenTargets(self.share, self.delta)
        tails(self.alpha or 0.0)

    def __call__(self, setup: Setup) -> Recipe:
        """One stage, or two."""
        objective = HiddenTargets(self.share, self.delta)
        stages = [Stage(schedule=base(setup.pretrain)[0].schedule, objective=objective)]
        if self.alpha is not None:
            second = Stage(views=(tails(self.alpha),), schedule=setup.finetune, objective=objective)
            stages.append(second)
        return Recipe(setup.base_model(), tuple(stages))


_REFERENCE = "Zhu et al., WSDM 2024"
_GRID = {"share": (0.5, 0.2), "delta": (5, 10)}

METHODS = (
    Method(
        "spottarget",
        "positives at low-degree nodes are left out of the messages",
        _REFERENCE,
        SpotTarget(),
        tasks=("link-prediction",),
        why_not="only its positives are edges with features at both ends",
        grid=_GRID,
        title="SpotTarget",
    ),
    Method(
        "spottarget-tuneup",
        "SpotTarget in both stages of TuneUp",
        _REFERENCE,
        SpotTarget(alpha=0.5),
        tasks=("link-prediction",),
        why_not="only its positives are edges with features at both ends",
        grid={"alpha": ALPHAS, **_GRID},
        title="SpotTarget + TuneUp",
    ),
)
