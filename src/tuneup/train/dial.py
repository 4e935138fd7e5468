"""The dial between Base and stage 2: averages of their weights, one validation each.

``(1 - w) Base + w stage 2`` for w = 0, 0.1 .. 1.  Stage 2 starts from Base's weights, so what lies
between them is a good model too (Wortsman et al., CVPR 2022).  The average that the selection
scores best is the result.  w = 0 is Base, so the result never scores below it.  Statistics of batch
norms are computed again for every average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tuneup.errors import InputError
from tuneup.tasks import EVERY_RATIO, RATIOS, Task

from .record import Dial, State
from .state import put_state

WEIGHTS = tuple(step / 10 for step in range(11))
"""The averages that are tried."""

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def blend(first: State, second: State, weight: float) -> State:
    """``(1 - w) first + w second`` of floating-point tensors; the others must be equal.

    Raises:
        InputError: if the states cannot be averaged; see :func:`obstacle`.
    """
    problem = obstacle(first, second)
    if problem:
        raise InputError(f"These weights cannot be averaged: {problem}.")
    return {
        name: torch.lerp(tensor, second[name], weight)
        if tensor.is_floating_point() or tensor.is_complex()
        else second[name]
        for name, tensor in first.items()
    }


def obstacle(first: State, second: State) -> str:
    """Why two states have no average; empty where they have one."""
    if first.keys() != second.keys():
        return "the two stages do not have the same parameters"
    for name, tensor in first.items():
        other = second[name]
        if not isinstance(tensor, Tensor) or not isinstance(other, Tensor):
            return f"{name} is no tensor"
        if tensor.shape != other.shape:
            return f"{name} has two shapes"
        real = tensor.is_floating_point() or tensor.is_complex()
        counts = name.rsplit(".", 1)[-1] in _STATISTICS
        if not real and not counts and not torch.equal(tensor, other):
            return f"{name} holds {tensor.dtype}, which has no average"
    return ""


def put_blend(module: nn.Module, task: Task[object], states: tuple[State, State], w: float) -> None:
    """Load the average into a module; of the ends, the states as they are."""
    first, second = states
    if w in (0.0, 1.0):
        put_state(module, second if w else first)
        return
    put_state(module, blend(first, second, w))
    refresh_statistics(module, task)


def refresh_statistics(module: nn.Module, task: Task[object]) -> None:
    """Compute the statistics of batch norms again, on the training graph with these weights."""
    norms = [
        part
        for part in module.modules()
        if isinstance(part, _BatchNorm) and part.track_running_stats
    ]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    module.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all passes: of one, its own statistics
        norm.train()
    with torch.no_grad():
        task.outputs(module)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def turn(module: nn.Module, task: Task[object], states: tuple[State, State]) -> Dial:
    """Score every average and leave the best one in the module.

    Of equals, the one nearest to stage 2 is selected.
    """
    problem = obstacle(*states)
    if not problem and _has_statistics(module) and type(task).outputs is Task.outputs:
        problem = f"{type(task).__name__} has no outputs(model) to compute batch statistics by"
    weights = (0.0, 1.0) if problem else WEIGHTS
    found: list[Mapping[float, float]] = []
    for weight in weights:
        put_blend(module, task, states, weight)
        found.append(_scores(module.eval(), task))
    scores = tuple(fmean(each[ratio] for ratio in RATIOS[task.selection]) for each in found)
    best = max(range(len(weights)), key=lambda k: (_comparable(scores[k]), k))
    put_blend(module, task, states, weights[best])
    by_ratio = {ratio: tuple(each[ratio] for each in found) for ratio in sorted(found[0])}
    return Dial(weights, scores, by_ratio, weights[best], problem)


def _comparable(score: float) -> float:
    """An average that overflows is worse than any other."""
    return -math.inf if math.isnan(score) else score


def _has_statistics(module: nn.Module) -> bool:
    return any(isinstance(part, _BatchNorm) for part in module.modules())


def _scores(module: nn.Module, task: Task[object]) -> dict[float, float]:
    """At the selection's ratios and, where the task has cold copies, at all others."""
    own = RATIOS[task.selection]
    with torch.no_grad():
        found = task.validation_scores(module, own)
        others = tuple(ratio for ratio in EVERY_RATIO if ratio not in own)
        if others and type(task).validation_scores is not Task.validation_scores:
            found = {**found, **task.validation_scores(module, others)}
    return found
