"""Choosing settings on validation: a fixed number of trainings, spread over a grid.

A trial is a point of the grid with a training seed.  Which are made is known beforehand
(:func:`plan_trials`), so that methods with grids of any size get the same number of trainings.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tuneup.errors import InputError
from tuneup.files import write_atomic

Point = Mapping[str, Any]
"""A value for every name of a grid."""

DIVERGED = -1.0
"""Score of a trial that diverged: below every metric."""

_DIGITS = 6
"""Scores that are equal to this many digits are ties: float32 sums differ beyond them."""


@dataclass(frozen=True)
class Planned:
    """A trial to be made."""

    point: Point
    seed: int


@dataclass(frozen=True)
class Trial:
    """A trial that was made."""

    point: Point
    seed: int
    score: float
    seconds: float


@dataclass(frozen=True)
class Selection:
    """What was chosen, and from what.

    Args:
        chosen: the point with the best mean score (:func:`best_of`); the first of equals.
        trials: all of them, in the order of the plan.
        points: how many points the whole grid has, tried or not.
        trainings: how many were made; points that differ in their reading alone share them.
        config: the experiment that it was made for.
    """

    chosen: Point
    trials: Sequence[Trial]
    points: int
    trainings: int
    config: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Selection:
        """From JSON."""
        try:
            data = json.loads(path.read_text())
            trials = [Trial(**trial) for trial in data["trials"]]
            made = data.get("trainings", len(trials))
            return cls(data["chosen"], trials, data["points"], made, data.get("config", {}))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is not a record of a selection ({error!r}).") from error


def plan_trials(
    points: Sequence[Point], budget: int, trained_as: Callable[[Point], Hashable] | None = None
) -> list[Planned]:
    """Trials of ``budget`` trainings, or none where there is nothing to choose.

    Too many points: :func:`spread`.  Too few: the points again, in the same order, with further
    training seeds.  Points that are ``trained_as`` the same, and read otherwise, are tried
    together: one training serves all of them.
    """
    if len(points) < 2:
        return []
    trained_as = trained_as or _key
    alike: dict[Hashable, list[Point]] = defaultdict(list)
    for point in points:
        alike[trained_as(point)].append(point)
    order = list(alike.values())
    if len(order) > budget:
        shown = spread([own[0] for own in order], budget)
        order = [alike[trained_as(point)] for point in shown]
    rounds = [(order[k % len(order)], k // len(order)) for k in range(budget)]
    return [Planned(point, seed) for own, seed in rounds for point in own]


def spread(points: Sequence[Point], count: int) -> list[Point]:
    """The first point, which holds the defaults, and others that leave little of the grid unseen.

    Each shows as many values as possible that none before it has, and then as many pairs of values;
    equals come in the order of a seeded draw.
    """
    first, *others = points
    others = random.Random(0).sample(others, len(others))
    found, values, pairs = [first], set(first.items()), set(combinations(first.items(), 2))

    def news(point: Point) -> tuple[int, int]:
        own = point.items()
        return len(own - values), len(set(combinations(own, 2)) - pairs)

    while others and len(found) < count:
        best = max(others, key=news)
        others.remove(best)
        found.append(best)
        values |= best.items()
        pairs |= set(combinations(best.items(), 2))
    return found


def best_of(trials: Sequence[Trial], points: int) -> Selection:
    """The point that scores best, what the seeds add being allowed for; the first of equals.

    Where every point was tried with every seed, that is the best mean.  Where some were tried with
    further seeds, ``score = point + seed`` is fitted to all trials by least squares: a seed that
    only some points were tried with says nothing against the others, and no training is wasted.
    A point that diverged with any seed is chosen only where all did: its score is no measure of
    that seed.
    """
    made, unsound = trials, {_key(trial.point) for trial in trials if trial.score == DIVERGED}
    trials = [trial for trial in made if _key(trial.point) not in unsound] or made
    tried = list(dict.fromkeys(_key(trial.point) for trial in trials))
    seeds = list(dict.fromkeys(trial.seed for trial in trials))
    design = np.zeros((len(trials), len(tried) + len(seeds)))
    for row, trial in zip(design, trials, strict=True):
        row[tried.index(_key(trial.point))] = 1
        row[len(tried) + seeds.index(trial.seed)] = 1
    worth, *_ = np.linalg.lstsq(design, np.array([trial.score for trial in trials]), rcond=None)
    best = int(np.argmax(worth[: len(tried)].round(_DIGITS)))
    chosen = next(trial.point for trial in trials if _key(trial.point) == tried[best])
    return Selection(chosen, made, points, len(made))


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True, default=str)
