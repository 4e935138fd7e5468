"""When a stage is validated and when it stops, and which weights are the result.

The **dial** averages the weights of Base and stage 2: ``(1 - w) Base + w stage 2`` for
w = 0, 0.1 .. 1.  Stage 2 starts from Base's weights, so what lies between them is a good model too
(Wortsman et al., CVPR 2022).  The average that validates best is the result.  w = 0 is Base, so the
result never validates below it.  Statistics of batch norms are computed again for every average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tuneup.curriculum import Curriculum, Schedule
from tuneup.errors import InputError
from tuneup.tasks import EVERY_RATIO, RATIOS, Task

if TYPE_CHECKING:
    from .result import StageRecord, TrainingRecord

Final = Literal["last", "best", "dial"]
"""Which state is the result: the last stage's, that of the stage that validates best, or the best
average of the first and the last stage's weights."""

State = dict[str, Tensor]
"""A module's parameters and buffers by name."""

WEIGHTS = tuple(step / 10 for step in range(11))
"""The values of w that are tried."""

_RECENT = 0.1
"""Share of the last epochs in which a best score means that a stage was still improving."""

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def copy_state(module: nn.Module) -> State:
    """Parameters and buffers, detached from what training goes on to change."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def put_state(module: nn.Module, state: State) -> None:
    """Load a state; autocast, which keeps casts of weights, does not see them change by itself."""
    module.load_state_dict(state)
    torch.clear_autocast_cache()


# Epochs


def is_due(schedule: Schedule, epoch: int, interval: int = 1) -> bool:
    """Whether an epoch (from 1) is validated; the last one always is.

    ``interval`` is the task's, where the schedule has none.
    """
    return epoch % (schedule.validate_every or interval) == 0 or epoch == schedule.epochs


def reason_to_stop(record: StageRecord, schedule: Schedule, score: str) -> str:
    """Why the stage ends with its last epoch; empty while it continues. ``score`` is its name."""
    last, best = record.epochs[-1], record.best_epoch
    if last.epoch >= schedule.epochs:
        return f"ran all {schedule.epochs} epochs"
    # Patience counts after the last epoch at which the learning rate falls.
    falls = max((m for m in schedule.milestones if m < schedule.epochs), default=0)
    waited = last.epoch - max(best, falls)
    if schedule.patience is not None and last.score is not None and waited >= schedule.patience:
        return f"no better {score} for {last.epoch - best} epochs after epoch {best}"
    return ""


def is_unfinished(record: StageRecord, schedule: Schedule) -> bool:
    """Whether a stage that ran all its epochs was still improving when they ended.

    With patience: it had not run out, or a shorter one of a tenth of the epochs had not.
    """
    last = record.epochs[-1].epoch
    if last < schedule.epochs or not record.best_epoch:
        return False
    recent = max(1, round(_RECENT * schedule.epochs))
    return last - record.best_epoch < min(recent, schedule.patience or recent)


# Stages


def validated_stages(curriculum: Curriculum, before: int) -> list[int]:
    """Stages before one that the task validates: the last of them is the model so far."""
    return [k for k, stage in enumerate(curriculum[:before]) if stage.score is None]


def comparable_stages(curriculum: Curriculum, index: int) -> list[int]:
    """Earlier stages whose states could stand in for this one's: same module, same score."""
    module = curriculum[index].module
    return [k for k in validated_stages(curriculum, index) if curriculum[k].module == module]


def last_answer(curriculum: Curriculum) -> int:
    """The last stage whose module answers for the task."""
    answering = [k for k, s in enumerate(curriculum) if s.score is None or s.answers]
    return answering[-1] if answering else len(curriculum) - 1


def winner(curriculum: Curriculum, record: TrainingRecord, final: Final) -> int:
    """The stage whose state is the result: of equals, the later one."""
    last = last_answer(curriculum)
    if final == "last" or curriculum[last].score is not None:
        return last
    candidates = validated_stages(curriculum, last + 1)
    return max(candidates, key=lambda k: (record.stages[k].best_score, k))


# Averages of weights


@dataclass(frozen=True)
class Dial:
    """Validation of the averages ``(1 - w) Base + w stage 2``, and the one that was selected.

    Attributes:
        weights: the values of w, ascending from 0 (Base) to 1 (stage 2).
        scores: the selection's score of each.
        by_ratio: the score of each by share of the validation nodes' removed edges.
        chosen: the selected w.
        ends_only: why nothing between the ends was tried; empty where it was.
    """

    weights: tuple[float, ...]
    scores: tuple[float, ...]
    by_ratio: Mapping[float, tuple[float, ...]]
    chosen: float
    ends_only: str = ""

    @property
    def score(self) -> float:
        """Of the selected average."""
        return self.scores[self.weights.index(self.chosen)]

    def to_json(self) -> dict[str, Any]:
        """Plain lists; ratios become texts."""
        by_ratio = {str(ratio): list(scores) for ratio, scores in self.by_ratio.items()}
        lists = {"weights": list(self.weights), "scores": list(self.scores)}
        return {**asdict(self), **lists, "by_ratio": by_ratio}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Dial:
        """The inverse of :meth:`to_json`."""
        by_ratio = {float(ratio): tuple(each) for ratio, each in data["by_ratio"].items()}
        weights, scores = tuple(data["weights"]), tuple(data["scores"])
        return cls(weights, scores, by_ratio, data["chosen"], data["ends_only"])


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
    norms = _tracking_norms(module)
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
    if not problem and _tracking_norms(module) and type(task).outputs is Task.outputs:
        problem = f"{type(task).__name__} has no outputs(model) to compute batch statistics by"
    weights = (0.0, 1.0) if problem else WEIGHTS
    found: list[Mapping[float, float]] = []
    for weight in weights:
        put_blend(module, task, states, weight)
        found.append(_scores(module.eval(), task))
    scores = tuple(fmean(each[ratio] for ratio in RATIOS[task.selection]) for each in found)
    # An average that overflows is worse than any other.
    comparable = [-math.inf if math.isnan(score) else score for score in scores]
    best = max(range(len(weights)), key=lambda k: (comparable[k], k))
    put_blend(module, task, states, weights[best])
    by_ratio = {ratio: tuple(each[ratio] for each in found) for ratio in sorted(found[0])}
    return Dial(weights, scores, by_ratio, weights[best], problem)


def _tracking_norms(module: nn.Module) -> list[_BatchNorm]:
    parts = (part for part in module.modules() if isinstance(part, _BatchNorm))
    return [part for part in parts if part.track_running_stats]


def _scores(module: nn.Module, task: Task[object]) -> dict[float, float]:
    """At the selection's ratios and, where the task has cold copies, at all others."""
    own = RATIOS[task.selection]
    with torch.no_grad():
        found = task.validation_scores(module, own)
        others = tuple(ratio for ratio in EVERY_RATIO if ratio not in own)
        if others and type(task).validation_scores is not Task.validation_scores:
            found = {**found, **task.validation_scores(module, others)}
    return found
