"""Where a run may begin instead of at the beginning: its own checkpoint, or a run it shares."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from tuneup.errors import InputError

from .checkpoint import Checkpoints
from .record import TrainingRecord
from .result import Result
from .state import pack, put_state, unpack

if TYPE_CHECKING:
    from .loop import Run


def save(run: Run, checkpoints: Checkpoints) -> None:
    """Write everything that the run needs to go on exactly."""
    tensors, plain = pack(run)
    plain["fingerprint"] = run.mark
    name = f"stage-{len(run.record.stages)}-epoch-{run.epoch}-{len(run.states)}"
    checkpoints.save(name, tensors, plain)


def restore(run: Run, checkpoints: Checkpoints) -> bool:
    """Go back to where the run's checkpoint is, if there is one."""
    found = checkpoints.load(run.mark)
    if found is None:
        return False
    tensors, plain = found
    try:
        TrainingRecord.from_json(plain["record"])
    except (KeyError, TypeError, ValueError) as error:
        raise checkpoints.damaged(f"{type(error).__name__}: {error}") from error
    unpack(run, tensors, plain)
    return True


def take_over(run: Run, after: Result) -> None:
    """Start where a finished run of the first stages ended."""
    done = len(after.states)
    first = run.curriculum[:done]
    if after.fingerprint != run.mark_of(first):
        raise InputError(
            "The run to go on from differs in its stages, seed, task or model: only a run of "
            f"exactly the first {done} stage(s) of this one can be taken over."
        )
    if any(stage.extra_steps for stage in first):
        raise InputError(
            "A run with extra steps cannot be taken over: only the best states of its stages "
            "are kept. Train all stages in one call."
        )
    run.states = list(after.states)
    run.record.stages = deepcopy(after.record.stages)
    run.pseudo = dict(after.pseudo_labels)
    for stage, state in zip(first, run.states, strict=True):
        put_state(run.modules[stage.module], state)
