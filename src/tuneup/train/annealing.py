"""Torch's own learning-rate schedulers in the loop: stepped once an epoch, resumed by replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from tuneup.curriculum import Curriculum, OptimizerFactory
from tuneup.errors import InputError

from .record import Epoch

SchedulerFactory = Callable[[torch.optim.Optimizer], LRScheduler]
"""Makes a scheduler for a stage's fresh optimiser."""


class Annealing:
    """A scheduler of one stage's optimiser.

    What it does follows from the epochs so far and their scores, which the record of a run holds:
    a resumed run tells it these again, and no state of it has to be saved.
    """

    def __init__(self, factory: SchedulerFactory, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            del group["initial_lr"]  # a scheduler sets its own
        self.scheduler = factory(optimizer)
        if not isinstance(self.scheduler, LRScheduler):
            raise InputError(
                "scheduler must make a torch.optim.lr_scheduler.LRScheduler from an optimiser; "
                f"got {self.scheduler!r}."
            )
        if isinstance(self.scheduler, ReduceLROnPlateau) and self.scheduler.mode != "max":
            raise InputError(
                "A validation score is the better the higher it is: make the scheduler with "
                'ReduceLROnPlateau(optimizer, mode="max").'
            )

    def step(self, score: float | None) -> None:
        """An epoch is over; ``score`` is its validation, if there was one."""
        if not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()
        elif score is not None:
            self.scheduler.step(score)

    def replay(self, epochs: Iterable[Epoch]) -> None:
        """Go to where these epochs had led."""
        with warnings.catch_warnings():
            # The updates were made before, by a process that is gone.
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
            for epoch in epochs:
                self.step(epoch.score)


def check_makers(
    curriculum: Curriculum, optimizer: OptimizerFactory, scheduler: SchedulerFactory | None
) -> None:
    """Refuse what makes no optimiser or scheduler, and two plans for one learning rate."""
    if not callable(optimizer):
        raise InputError(
            "optimizer makes an optimiser anew for every stage: pass a class like "
            "torch.optim.AdamW, or a function of parameters, learning rate and weight decay; got "
            f"{type(optimizer).__name__}."
        )
    if scheduler is None:
        return
    if not callable(scheduler):
        raise InputError(
            "scheduler makes a scheduler anew for every stage: pass a function of the optimiser, "
            "like functools.partial(torch.optim.lr_scheduler.StepLR, step_size=30); got "
            f"{type(scheduler).__name__}."
        )
    for index, stage in enumerate(curriculum):
        if stage.schedule.milestones:
            raise InputError(
                f"Stage {index + 1} has milestones and a scheduler, which would both set the "
                "learning rate: leave out Schedule(milestones=...)."
            )
