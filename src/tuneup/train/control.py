"""The control of a gain: Base, trained on without dropping for as long as stage 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tuneup.curriculum import OptimizerFactory

from .annealing import SchedulerFactory
from .checkpoint import Checkpoints
from .loop import train
from .optim import adam
from .result import Callback, Result


def train_control(
    result: Result,
    *,
    optimizer: OptimizerFactory = adam,
    scheduler: SchedulerFactory | None = None,
    checkpoints: Checkpoints | Path | str | None = None,
    callback: Callback | None = None,
) -> Result:
    """Train Base on without dropping, for as many epochs as stage 2 of a finished run had.

    The run's own modules are not touched; a copy of Base goes on under stage 2's schedule, and its
    best state is selected as stage 2's is.
    """
    first, second = result.curriculum[0], result.curriculum[-1]
    epochs = len(result.record.stages[-1].epochs)
    further = replace(second.schedule, epochs=epochs, patience=None)
    stage = replace(first, schedule=further, optimizer=second.optimizer)
    return train(
        result.copy(0),
        result.task,
        (stage,),
        seed=result.record.seed,
        checkpoints=checkpoints,
        callback=callback,
        optimizer=optimizer,
        scheduler=scheduler,
    )
