"""A small search on validation over settings of the model, before both stages are trained.

The search goes along one setting at a time: the defaults first, then every other value of the first
setting, then of the second one with the best value of the first, and so on, until a whole pass
changes nothing.  A trial is a run of Base, judged by the score that models are selected by; the
best trial's Base is stage 1 of the fit, so it is not trained twice.

A budget is checked between trials only.  With a number of trials, the result is a function of the
seed; with minutes it depends on the machine too.  Trials that finished are read from their
checkpoints, with the time they took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from tuneup.errors import DivergenceError, InputError
from tuneup.methods import METHODS, run
from tuneup.train import Checkpoints, Result
from tuneup.train.result import Callback, Progress

from .problems import Problem

Point = Mapping[str, Any]
"""A value for every setting that is searched."""

Axes = Mapping[str, Sequence[Any]]
"""The values of each setting, its default first, in the order of the search."""

_EVERY = 20
"""Epochs between two checkpoints."""


@dataclass(frozen=True)
class Budget:
    """When a search stops; the first trial, of the defaults, is made in any case.

    Args:
        trials: at most so many.
        minutes: no trial begins after so many minutes of training; ``None``: no limit.
    """

    trials: int = 12
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"a search needs 1 trial or more; got {self.trials}.")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"a budget is above 0 minutes; got {self.minutes}.")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``"8"`` is a number of trials, ``"30m"`` or ``"2h"`` a time."""
        number, unit = text[:-1], text[-1:]
        try:
            if unit in ("m", "h"):
                return cls(trials=_NO_LIMIT, minutes=float(number) * (60 if unit == "h" else 1))
            return cls(trials=int(text))
        except ValueError as error:
            raise InputError(
                f"--budget is a number of trials or a time: got {text!r}; expected 8, 30m or 2h."
            ) from error

    def allows(self, trials: int, seconds: float) -> bool:
        """Whether another trial may begin after so many, which took so long."""
        if not trials:
            return True
        in_time = self.minutes is None or seconds < 60 * self.minutes
        return trials < self.trials and in_time


_NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and the best validation score of Base; ``None`` if it diverged."""

    point: Point
    score: float | None
    epochs: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search found.

    Args:
        point: the best settings, the first of equals.
        base: the run of Base with them.
        trials: all trials, in order.
        metric: that they were judged by.
        points: how many combinations there are, tried or not.
    """

    point: Point
    base: Result
    trials: Sequence[Trial]
    metric: str
    points: int

    @property
    def notes(self) -> list[str]:
        """One line for the search and one for every trial."""
        lines = [f"tried {len(self.trials)} of {self.points} settings by validation {self.metric}:"]
        for trial in self.trials:
            settings = ", ".join(f"{name} {value}" for name, value in trial.point.items())
            score = "diverged" if trial.score is None else f"{100 * trial.score:.2f} %"
            best = " (chosen)" if trial.point == self.point else ""
            lines.append(f"{settings}: {score}, {trial.epochs} epochs{best}")
        return lines


@dataclass(eq=False)
class _Search:
    """The trials so far."""

    axes: Axes
    budget: Budget
    trials: list[Trial] = field(default_factory=list)
    best: Trial | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether the budget allows another trial."""
        return self.budget.allows(len(self.trials), sum(trial.seconds for trial in self.trials))

    def points(self) -> Iterator[Point]:
        """The next points to try, each once; they follow the best trial of those before."""
        yield {name: values[0] for name, values in self.axes.items()}
        before: Point | None = None
        while self.best is not None and self.best.point != before:
            before = self.best.point
            for name, values in self.axes.items():
                around = self.best.point
                for value in values:
                    point = {**around, name: value}
                    if all(trial.point != point for trial in self.trials):
                        yield point

    def add(self, trial: Trial) -> bool:
        """Record a trial; whether it is the best one so far."""
        self.trials.append(trial)
        if trial.score is None:
            return False
        if self.best is None or self.best.score is None or trial.score > self.best.score:
            self.best = trial
            return True
        return False


def search(
    axes: Axes,
    problem: Callable[[Point], Problem],
    budget: Budget,
    *,
    seed: int = 0,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> Searched:
    """Find the settings whose Base validates best.

    Args:
        axes: what is searched.
        problem: makes the problem for some settings.
        budget: when to stop.
        seed: of every trial.
        checkpoints: a folder for the trials; a search that was killed goes on from there.
        callback: told of trials as stages 1, 2, ...

    Raises:
        DivergenceError: if the defaults diverge.
    """
    points = prod(len(values) for values in axes.values())
    going, base = _Search(axes, budget), None
    for point in going.points():
        if not going.may_go_on:
            break
        number = len(going.trials) + 1
        made = problem(point)
        place = None
        if checkpoints is not None:
            place = Checkpoints(checkpoints / f"trial-{number}", _EVERY)
        told = _as_trial(callback, number, min(points, budget.trials))
        try:
            result = run(METHODS["base"], made.setup, seed=seed, checkpoints=place, callback=told)
        except DivergenceError:
            if base is None:
                raise
            going.add(Trial(point, None, 0, 0.0))
            continue
        stage = result.record.stages[0]
        trial = Trial(point, stage.best_score, len(stage.epochs), stage.seconds)
        if going.add(trial):
            base = result
    assert base is not None
    assert going.best is not None
    return Searched(going.best.point, base, going.trials, base.record.metric, points)


def _as_trial(callback: Callback | None, number: int, count: int) -> Callback | None:
    """Told as one stage of all trials."""
    if callback is None:
        return None

    def tell(told: Progress) -> None:
        callback(replace(told, stage=number, stages=count))

    return tell
