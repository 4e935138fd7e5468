"""When a stage is validated and when it stops, and whose state is the result."""

from __future__ import annotations

from tuneup.curriculum import Curriculum, Schedule

from .record import StageRecord, TrainingRecord


def is_due(schedule: Schedule, epoch: int) -> bool:
    """Whether an epoch (from 1) is validated; the last one always is."""
    return epoch % schedule.validate_every == 0 or epoch == schedule.epochs


def reason_to_stop(record: StageRecord, schedule: Schedule, score: str) -> str:
    """Why the stage ends with its last epoch; empty while it goes on. ``score`` is its name."""
    last = record.epochs[-1]
    if last.epoch >= schedule.epochs:
        return f"ran all {schedule.epochs} epochs"
    last_step = max((m for m in schedule.milestones if m < schedule.epochs), default=0)
    waited = last.epoch - max(record.best_epoch, last_step)
    if schedule.patience is not None and last.score is not None and waited >= schedule.patience:
        since = record.best_epoch
        return f"no better {score} for {last.epoch - since} epochs after epoch {since}"
    return ""


def judged(curriculum: Curriculum, before: int) -> list[int]:
    """Stages before one that the task itself validates: the last of them is the model so far."""
    return [k for k, stage in enumerate(curriculum[:before]) if stage.score is None]


def rivals(curriculum: Curriculum, index: int) -> list[int]:
    """Earlier stages whose states could stand in for this one's: same module, same judge."""
    module = curriculum[index].module
    return [k for k in judged(curriculum, index) if curriculum[k].module == module]


def winner(curriculum: Curriculum, record: TrainingRecord) -> int:
    """The last stage, unless an earlier one validated better and the guard is on.

    Only stages that the task itself validates can be compared, if there are any.
    """
    if not curriculum[-1].guard:
        return len(curriculum) - 1
    found = judged(curriculum, len(curriculum)) or [len(curriculum) - 1]
    if not curriculum[found[-1]].guard:
        return found[-1]
    return max(found, key=lambda k: (record.stages[k].best_score, k))
