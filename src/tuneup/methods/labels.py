"""Pseudo-labels of other kinds than the most probable class: soft, weighted, smoothed.

========================  ====================================================================
:class:`SoftLabels`       the teacher's probabilities ``p_v``
:class:`WeightedLabels`   the most probable class, the loss of v weighted by its probability
:class:`SmoothedLabels`   probabilities after *Correct and Smooth* (Huang et al., ICLR 2021)
========================  ====================================================================

Each labels the nodes that TuneUp's own pseudo-labels do: unlabelled nodes that have an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.tasks import NodeClassification, PseudoLabels, Task


def probabilities(task: NodeClassification, model: nn.Module) -> Tensor:
    """Class probabilities of all nodes of the training graph ``[N, C]``."""
    return task.outputs(model)[:, : task.data.num_classes].softmax(1)


def _expect_classes(task: Task[Any]) -> NodeClassification:
    if not isinstance(task, NodeClassification) or task.data.multi_label:
        raise InputError("soft pseudo-labels: need a task that predicts one class a node.")
    return task


def _with_targets(task: NodeClassification, model: nn.Module, targets: Tensor) -> PseudoLabels:
    """Targets ``[N, C]`` of the nodes that TuneUp pseudo-labels."""
    hard = task.pseudo_labels(model)
    return PseudoLabels(hard.nodes, targets[hard.nodes], targets[hard.nodes].amax(1))


@dataclass(frozen=True)
class SoftLabels:
    """Probabilities as targets: ``loss_v = -sum_c p_v(c) log f_v(c)``."""

    def __call__(self, task: Task[Any], model: nn.Module) -> PseudoLabels:
        """The teacher's probabilities."""
        task = _expect_classes(task)
        return _with_targets(task, model, probabilities(task, model))


@dataclass(frozen=True)
class WeightedLabels:
    """The most probable class y, with its probability as weight: ``-p_v(y) log f_v(y)``."""

    def __call__(self, task: Task[Any], model: nn.Module) -> PseudoLabels:
        """One number a node that is not 0."""
        task = _expect_classes(task)
        p = probabilities(task, model)
        return _with_targets(task, model, p * F.one_hot(p.argmax(1), p.shape[1]))


@dataclass(frozen=True)
class SmoothedLabels:
    """Correct and Smooth: errors on the training nodes, then labels, are spread over the graph.

    With ``S = D^-1/2 A D^-1/2``, the errors ``E = Y - P`` of training nodes (0 elsewhere) and
    the probabilities ``P + E'``, in which training nodes have their true labels::

        correct   E' <- (1 - a) E + a S E'      (scaled to the mean error of the training nodes)
        smooth    P' <- (1 - b) P + b S P'

    Args:
        correction: ``a``.
        smoothing: ``b``.
        steps: of both iterations.
        hard: whether the most probable class is the label, or the probabilities are.
    """

    correction: float = 0.8
    smoothing: float = 0.8
    steps: int = 50
    hard: bool = True

    def __post_init__(self) -> None:
        for name in ("correction", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}: got {getattr(self, name)}; expected 0 to below 1.")
        if self.steps < 1:
            raise InputError(f"steps: got {self.steps}; expected 1 or more.")

    def __call__(self, task: Task[Any], model: nn.Module) -> PseudoLabels:
        """Labels by the smoothed probabilities."""
        task = _expect_classes(task)
        smooth = self.smooth(task, probabilities(task, model))
        found = _with_targets(task, model, smooth / smooth.sum(1, keepdim=True).clamp(min=1e-12))
        return (
            PseudoLabels(found.nodes, found.y.argmax(1), found.confidence) if self.hard else found
        )

    def smooth(self, task: NodeClassification, p: Tensor) -> Tensor:
        """Corrected and smoothed probabilities of all nodes ``[N, C]``, above 0."""
        assert task.data.y is not None
        train, spread = task.train, task.graph.matrix("symmetric")
        truth = F.one_hot(task.data.y[train], task.data.num_classes).to(p)
        error = torch.zeros_like(p)
        error[train] = truth - p[train]
        corrected = error
        for _ in range(self.steps):
            corrected = (1 - self.correction) * error + self.correction * (spread @ corrected)
        size = corrected.abs().sum(1, keepdim=True)
        mean = error[train].abs().sum(1).mean()
        scale = torch.where(size > 1e-12, mean / size.clamp(min=1e-12), 0.0).clamp(max=1.0)
        labels = (p + scale * corrected).clamp(min=0)
        labels[train] = truth
        smoothed = labels
        for _ in range(self.steps):
            smoothed = (1 - self.smoothing) * labels + self.smoothing * (spread @ smoothed)
        return smoothed
