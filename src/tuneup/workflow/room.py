"""How much disk a fit needs, known before it trains."""

from __future__ import annotations

import torch
from torch import Tensor

from tuneup.data import Interactions
from tuneup.graph import SparseMatrix
from tuneup.methods import Setup

from .problems import Problem

MARGIN = 1.2
"""Times the estimate, for ids, the report and what files have besides their numbers."""
FIXED = 16 << 20
"""Bytes of what does not grow: report, log, card and configuration."""
A_NODE = 200
"""Bytes of a node's id and of its scores in every setting."""
COPIES = 6
"""Of the weights in a checkpoint: now, best, after each stage, and twice in the optimiser."""


def model_room(problem: Problem) -> int:
    """Bytes of the saved model, roughly."""
    data = problem.data
    adjacency = data.adjacency() if isinstance(data, Interactions) else data.adjacency
    numbers = _bytes(adjacency.rowptr, adjacency.col) + A_NODE * adjacency.num_nodes
    if not isinstance(data, Interactions):
        x = data.x
        parts = (x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)
        numbers += _bytes(*parts)
    return round(MARGIN * (numbers + _weights(problem.setup))) + FIXED


def checkpoint_room(problem: Problem, trainings: int) -> int:
    """Bytes of the checkpoints of some trainings, of which one is written anew while it is read."""
    return round(MARGIN * COPIES * (trainings + 1) * _weights(problem.setup))


def _weights(setup: Setup) -> int:
    with torch.device("meta"):  # shapes alone: no memory, and no random numbers
        return _bytes(*setup.base_model().state_dict().values())


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
