"""What one rank computes of an update: its slice of the batch, with its share of the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tuneup.curriculum import Objective, Update
from tuneup.errors import InputError
from tuneup.tasks import GraphView, Moment, PseudoLabels, Task

from .checkpoints import Entry
from .ranks import Ranks


class Part(NamedTuple):
    """Supervision, the moment of its draws, and its share of the batch's loss."""

    supervision: Any
    moment: Moment
    share: float


def rank_part(task: Task[Any], batch: Any, moment: Moment, ranks: Ranks) -> Part:
    """The slice of a batch that a rank takes the loss on; all of it if it is alone."""
    if not ranks.several:
        return Part(batch, moment, 1.0)
    part, own = task.slice(batch, moment, ranks.rank, ranks.world)
    whole = task.weight(batch)
    return Part(part, own, task.weight(part) / whole if whole else 1.0 / ranks.world)


def check_views(views: Sequence[GraphView], ranks: Ranks) -> None:
    """Refuse views that a batch cannot be cut for."""
    if ranks.several and any(v.extra is not None or v.nodes is not None for v in views):
        raise InputError(
            "views: got one with nodes or supervision of its own; expected views of the training "
            "graph's own nodes in several processes: train this method in one process."
        )


def weighted(objective: Objective, update: Update, share: float) -> Tensor:
    """An objective times a rank's share; 0 without a gradient for a rank that has no example."""
    if share == 1.0:
        return objective(update)
    if share == 0.0:
        return torch.zeros((), device=update.task.graph.device)
    return objective(update) * share


def shared_labels(ranks: Ranks, compute: Callable[[], PseudoLabels | None]) -> PseudoLabels | None:
    """Rank 0's pseudo-labels on every rank."""

    def found() -> Entry | None:
        labels = compute()
        return None if labels is None else Entry(dict(vars(labels)), {})

    if not ranks.several:
        return compute()
    entry = ranks.entry(found)
    return None if entry is None else PseudoLabels(**entry.tensors)
