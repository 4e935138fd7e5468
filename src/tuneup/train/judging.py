"""When a stage is validated and when it stops, and whose state is the result."""

from __future__ import annotations

from typing import Literal

from tuneup.curriculum import Curriculum, Schedule

from .record import StageRecord, TrainingRecord

Final = Literal["last", "best", "dial"]
"""Which state is the result: the last stage's, the stage's that validates best, or the best of the
averages of the first stage's weights and the last one's (see :mod:`tuneup.train.dial`)."""

_RECENT = 0.1
"""Share of the last epochs in which a best score means that a stage was still improving."""


def is_due(schedule: Schedule, epoch: int, interval: int = 1) -> bool:
    """Whether an epoch (from 1) is validated; the last one always is.

    ``interval`` is the task's, where the schedule has none.
    """
    return epoch % (schedule.validate_every or interval) == 0 or epoch == schedule.epochs


def reason_to_stop(record: StageRecord, schedule: Schedule, score: str) -> str:
    """Why the stage ends with its last epoch; empty while it goes on. ``score`` is its name."""
    last = record.epochs[-1]
    if last.epoch >= schedule.epochs:
        return f"ran all {schedule.epochs} epochs"
    waited = last.epoch - max(record.best_epoch, _last_step(schedule))
    if schedule.patience is not None and last.score is not None and waited >= schedule.patience:
        since = record.best_epoch
        return f"no better {score} for {last.epoch - since} epochs after epoch {since}"
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


def _last_step(schedule: Schedule) -> int:
    """The last epoch at which the learning rate falls."""
    return max((m for m in schedule.milestones if m < schedule.epochs), default=0)


def judged(curriculum: Curriculum, before: int) -> list[int]:
    """Stages before one that the task itself validates: the last of them is the model so far."""
    return [k for k, stage in enumerate(curriculum[:before]) if stage.score is None]


def rivals(curriculum: Curriculum, index: int) -> list[int]:
    """Earlier stages whose states could stand in for this one's: same module, same judge."""
    module = curriculum[index].module
    return [k for k in judged(curriculum, index) if curriculum[k].module == module]


def last_answer(curriculum: Curriculum) -> int:
    """The last stage whose module answers for the task."""
    answering = [k for k, s in enumerate(curriculum) if s.score is None or s.answers]
    return answering[-1] if answering else len(curriculum) - 1


def winner(curriculum: Curriculum, record: TrainingRecord, final: Final) -> int:
    """The stage whose state is the result: of equals, the later one."""
    last = last_answer(curriculum)
    if final == "last" or curriculum[last].score is not None:
        return last
    return max(judged(curriculum, last + 1), key=lambda k: (record.stages[k].best_score, k))
