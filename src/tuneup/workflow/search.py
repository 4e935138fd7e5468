"""A search for settings on validation, such as the architecture or the share of dropped edges.

A search goes along one setting at a time: the defaults first, then every other value of the first
setting, then of the second one with the best value of the first, and so on, until a whole pass
changes nothing.  A trial is one training.

A budget is checked between trials only.  With a number of trials, the result is a function of the
seed; with minutes it depends on the machine too.  Trials that finished are read from their
checkpoints, with the time they took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tuneup.errors import DivergenceError, InputError
from tuneup.train import Result

Point = Mapping[str, Any]
"""A value for every setting that is searched."""

Axes = Mapping[str, Sequence[Any]]
"""The values of each setting, its default first, in the order of the search."""


@dataclass(frozen=True)
class Budget:
    """When a search stops; the first trial, of the defaults, is made in any case.

    Args:
        trials: at most so many; ``None``: no limit.
        minutes: no trial begins after so many minutes of training; ``None``: no limit.
    """

    trials: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise InputError(f"a search needs 1 trial or more; got {self.trials}.")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"a budget is above 0 minutes; got {self.minutes}.")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``"8"`` is a number of trials, ``"30m"`` or ``"2h"`` a time."""
        number, unit = text[:-1], text[-1:]
        try:
            if unit in ("m", "h"):
                return cls(minutes=float(number) * (60 if unit == "h" else 1))
            return cls(trials=int(text))
        except ValueError as error:
            raise InputError(
                f"--budget is a number of trials or a time: got {text!r}; expected 8, 30m or 2h."
            ) from error

    def allows_more(self, trials: Sequence[Trial]) -> bool:
        """Whether another trial may begin after these."""
        if not trials:
            return True
        seconds = sum(trial.seconds for trial in trials)
        in_time = self.minutes is None or seconds < 60 * self.minutes
        return in_time and (self.trials is None or len(trials) < self.trials)


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and their validation score; ``None`` if the training diverged."""

    point: Point
    score: float | None
    epochs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search found.

    Args:
        point: the best settings, the first of equals.
        result: the training with them.
        trials: all trials, in order.
        points: how many combinations there are, tried or not.
    """

    point: Point
    result: Result
    trials: Sequence[Trial]
    points: int

    @property
    def notes(self) -> list[str]:
        """One line for the search and one for every trial."""
        metric = self.result.record.metric
        lines = [f"tried {len(self.trials)} of {self.points} settings by validation {metric}:"]
        for trial in self.trials:
            settings = ", ".join(f"{name} {value}" for name, value in trial.point.items())
            score = "diverged" if trial.score is None else f"{100 * trial.score:.2f} %"
            best = " (chosen)" if trial.point == self.point else ""
            lines.append(f"{settings}: {score}, {trial.epochs} epochs{best}")
        return lines


def search(
    axes: Axes, train: Callable[[int, Point], Result], budget: Budget | None = None
) -> Searched:
    """Find the settings that validate best.

    Args:
        axes: what is searched.
        train: makes the training of a number (from 1) and its settings.
        budget: when to stop.

    Raises:
        DivergenceError: if every training diverges.
    """
    trials: list[Trial] = []
    result = failure = None
    for point in _points(axes, trials):
        if budget is not None and not budget.allows_more(trials):
            break
        try:
            found = train(len(trials) + 1, point)
        except DivergenceError as error:
            failure = error
            trials.append(Trial(point, None))
            continue
        stage = found.record.stages[-1]
        score = found.record.validation or 0.0
        trials.append(Trial(point, score, len(stage.epochs), stage.seconds))
        if _best(trials) is trials[-1]:
            result = found
    best = _best(trials)
    if best is None or result is None:
        assert failure is not None
        raise failure
    return Searched(best.point, result, trials, prod(len(values) for values in axes.values()))


def _points(axes: Axes, trials: Sequence[Trial]) -> Iterator[Point]:
    """The next points to try, each once; they follow the best trial of those before."""
    defaults: Point = {name: values[0] for name, values in axes.items()}
    yield defaults
    before, best = None, _best(trials)
    while (around := best.point if best else defaults) != before:
        before = around
        for name, values in axes.items():
            best = _best(trials)
            around = best.point if best else defaults
            for value in values:
                point = {**around, name: value}
                if all(trial.point != point for trial in trials):
                    yield point
        best = _best(trials)


def _best(trials: Sequence[Trial]) -> Trial | None:
    finished = [trial for trial in trials if trial.score is not None]
    return max(finished, key=lambda trial: trial.score or 0.0, default=None)
