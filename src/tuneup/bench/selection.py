"""Choosing settings on validation: a fixed number of trials, spread over a grid, kept in Optuna.

A trial is one training: a point of the grid with a training seed.  Which trials are made is known
beforehand (:func:`plan_trials`), so that methods with grids of any size get the same number of
trainings; who makes them is not: any number of processes take trials from one SQLite study, a
trial whose process died is taken again, and what is finished stays finished.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tuneup.errors import InputError
from tuneup.files import write_atomic

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial as Taken

Point = Mapping[str, Any]
"""A value for every name of a grid."""

_POLL_SECONDS = 2.0
"""How often a process without work looks whether the others are done."""


@dataclass(frozen=True)
class Planned:
    """A training to be made."""

    point: Point
    seed: int


@dataclass(frozen=True)
class Trial:
    """A training that was made."""

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
        config: the experiment that it was made for.
    """

    chosen: Point
    trials: Sequence[Trial]
    points: int
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
            return cls(data["chosen"], trials, data["points"], data.get("config", {}))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is not a record of a selection ({error!r}).") from error


def plan_trials(points: Sequence[Point], budget: int) -> list[Planned]:
    """``budget`` trainings, or none where there is nothing to choose.

    Too many points: :func:`spread`.  Too few: the points again, in the same order, with further
    training seeds.
    """
    if len(points) < 2:
        return []
    order = list(points) if len(points) <= budget else spread(points, budget)
    return [Planned(order[k % len(order)], k // len(order)) for k in range(budget)]


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
    """The point with the best mean over the seeds that all points were tried with.

    Of equals the first one, the defaults where they are among them: a seed that only some points
    were tried with says more of the seed than of them.
    """
    scores: dict[str, dict[int, float]] = defaultdict(dict)
    for trial in trials:
        scores[_key(trial.point)][trial.seed] = trial.score
    common = set.intersection(*(set(own) for own in scores.values()))

    def worth(trial: Trial) -> float:
        own = scores[_key(trial.point)]
        return fmean(own[seed] for seed in common)

    return Selection(max(trials, key=worth).point, trials, points)


class Studies:
    """The studies of one SQLite file.

    Args:
        path: the file; it is made, with its folder, at the first study.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def select(
        self,
        name: str,
        points: Sequence[Point],
        budget: int,
        train: Callable[[Point, int], float],
    ) -> Selection:
        """The best of ``points`` by ``budget`` trials, some of them made by other processes.

        Args:
            name: of the study; another plan under the same name is refused.
            points: the grid, the defaults first; two at least.
            budget: how many trainings.
            train: a training's validation score, from its point and seed.
        """
        plan = plan_trials(points, budget)
        study = self._open(name, plan)
        while True:
            taken = self._take(study, plan)
            if taken is None:
                if len(done := self._finished(study)) == len(plan):
                    return best_of(done, len(points))
                time.sleep(_POLL_SECONDS)  # the others' trials; or one of them, should it die
                continue
            trial, lock = taken
            with lock:
                planned = plan[trial.user_attrs["index"]]
                start = time.perf_counter()
                score = train(planned.point, planned.seed)
                trial.set_user_attr("seconds", round(time.perf_counter() - start, 2))
                study.tell(trial, score)

    def forget(self, beginning: str) -> None:
        """Remove the studies whose names begin so."""
        if not self.path.exists():
            return
        import optuna

        storage = f"sqlite:///{self.path}"
        with self._lock():
            for name in optuna.get_all_study_names(storage):
                if name.startswith(beginning):
                    optuna.delete_study(study_name=name, storage=storage)

    def _open(self, name: str, plan: Sequence[Planned]) -> Study:
        """The study with its whole plan waiting in it, by whichever process comes first."""
        import optuna  # heavy, and only who selects needs it

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([asdict(planned) for planned in plan], default=str)
        with self._lock():
            study = optuna.create_study(
                storage=f"sqlite:///{self.path}",
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
            if "plan" not in study.user_attrs:
                study.set_user_attr("plan", text)
        if study.user_attrs.get("plan") != text:
            raise InputError(
                f"{self.path}: study {name!r} was begun with other trials; begin it anew with "
                "--fresh, or give back the grid and the number of trials it was begun with."
            )
        return study

    def _take(self, study: Study, plan: Sequence[Planned]) -> tuple[Taken, FileLock] | None:
        """A trial that nobody is at work on, with the lock that says somebody is now."""
        from optuna.trial import TrialState

        with self._lock():
            for found in study.get_trials(states=(TrialState.RUNNING,)):
                lock = self._lock(f"{study.study_name}-{found.number}")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue  # its process is alive
                try:
                    if study.trials[found.number].state == TrialState.RUNNING:  # not ended since
                        study.tell(found.number, state=TrialState.FAIL)
                finally:
                    lock.release()
            self._enqueue(study, plan)
            if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                return None
            trial = study.ask()
            everything = [_parameters(planned) for planned in plan]
            for key in everything[0]:  # the study's own pictures want to know what was tried
                trial.suggest_categorical(key, list(dict.fromkeys(p[key] for p in everything)))
            lock = self._lock(f"{study.study_name}-{trial.number}")
            lock.acquire(timeout=0)
            return trial, lock

    def _enqueue(self, study: Study, plan: Sequence[Planned]) -> None:
        """Whatever of the plan is neither done nor in hand waits to be taken."""
        from optuna.trial import TrialState

        states = (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE)
        there = {
            trial.user_attrs["index"] for trial in study.get_trials(deepcopy=False, states=states)
        }
        for index, planned in enumerate(plan):
            if index not in there:
                study.enqueue_trial(_parameters(planned), user_attrs={"index": index})

    def _finished(self, study: Study) -> list[Trial]:
        from optuna.trial import TrialState

        plan = json.loads(study.user_attrs["plan"])
        found = {}
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            index, seconds = (trial.user_attrs[key] for key in ("index", "seconds"))
            assert trial.value is not None
            found[index] = Trial(**plan[index], score=trial.value, seconds=seconds)
        return [found[index] for index in sorted(found)]

    def _lock(self, trial: str = "") -> FileLock:
        """Of the file or of one trial; the system frees it when its process ends, however."""
        folder = self.path.with_suffix(".locks")
        folder.mkdir(exist_ok=True)
        name = "".join(c if c.isalnum() or c in "-." else "_" for c in trial) or "all"
        return FileLock(folder / f"{name}.lock", thread_local=False)


def _parameters(planned: Planned) -> dict[str, Any]:
    return {**planned.point, "training seed": planned.seed}


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True, default=str)
