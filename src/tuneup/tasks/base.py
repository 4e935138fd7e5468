"""What a task is to the training loop: supervision, loss, validation, pseudo-labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.nn.calling import unwrapped

from .pseudo import PseudoLabels


class Moment(NamedTuple):
    """When something random happens: every draw is a pure function of its moment.

    ``step`` counts the updates of a stage from 0.
    """

    seed: int
    stage: int
    step: int


@dataclass(frozen=True, eq=False)
class GraphView:
    """What the model is shown instead of the training graph.

    ``nodes [n]`` maps the view's nodes to the training graph's, ``None`` if they are the same;
    ``extra`` is supervision that only exists in this view, in the task's own form.
    """

    graph: Adjacency
    nodes: Tensor | None = None
    extra: Any = None


S = TypeVar("S")


class Task(ABC, Generic[S]):
    """A training problem on one graph. ``S`` is its form of supervision, Y in the paper."""

    graph: Adjacency
    """the training graph G"""
    metric: str
    """name of the validation score; more is better"""

    @abstractmethod
    def supervision(self, pseudo: PseudoLabels | None = None) -> S:
        """Y: the true targets, and pseudo-labels where there are any."""

    @abstractmethod
    def loss(self, model: nn.Module, view: GraphView, supervision: S, moment: Moment) -> Tensor:
        """L(F(view), Y), a scalar.  ``moment`` decides every draw, so views can share them."""

    @abstractmethod
    def validate(self, model: nn.Module) -> float:
        """The validation score on the full training graph; NaN if the model has diverged."""

    @abstractmethod
    def digest(self) -> str:
        """A fingerprint of everything training reads: a checkpoint refuses another task's."""

    def batches(self, supervision: S, moment: Moment) -> Iterator[S]:
        """The supervision of each update of an epoch: all of it at once, unless overridden.

        ``moment.step`` counts epochs here.
        """
        yield supervision

    def size(self, supervision: S) -> int:
        """Number of supervised things: the weight of a batch in an epoch's mean loss.

        All batches weigh the same unless overridden.
        """
        return 1

    def pseudo_labels(self, model: nn.Module) -> PseudoLabels | None:
        """The model's own labels for unlabelled nodes; ``None`` if the task has no such thing."""
        return None


M = TypeVar("M", bound=nn.Module)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; then every module is back in the mode that it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():  # `train` would also wake the parts that are frozen
            module.training = mode


def expect_model(model: nn.Module, kind: type[M]) -> M:
    """The model, known to be of the kind that a task knows how to ask."""
    if not isinstance(model, kind):
        if unwrapped(model) is not model:
            raise InputError(
                f"Compile or wrap the encoder inside the {kind.__name__}, not all of it."
            )
        raise InputError(
            f"This task trains a tuneup {kind.__name__}; got {type(model).__name__}: "
            "put your encoder inside one."
        )
    return model


_HUGE = 1e15
"""Inner products of larger embeddings leave the range of float32."""


def has_diverged(*tensors: Tensor) -> bool:
    """Whether any number is not finite, or too large for its products to be."""
    return not all(bool(tensor.abs().amax() < _HUGE) for tensor in tensors if tensor.numel())


def digest_tensors(*tensors: Tensor) -> str:
    """Hex digest of the tensors' bytes, shapes and types, in order."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
