"""The settings of every method of a suite: chosen once, on validation, each by as many trials."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tuneup.methods import Settings, configured, method_named
from tuneup.names import TaskName
from tuneup.train import describe

from .kept import Kept
from .records import beginning_of
from .selection import Planned, Point, Selection, plan_trials
from .studies import Studies
from .trial_files import TrialFiles


@dataclass(frozen=True)
class Choices:
    """What Base chooses for all rows, and each method for itself.

    Args:
        task: what is learned.
        grid: what Base chooses: values by name.
        budget: trials per method.
        files: choices and trials that are kept.
        studies: trials that are being made.
        study: how their names begin.
        score: validation of a method at a point, with a training seed.
        prepare: called before any trial; fails where none could be made.
        say: told what is being done.
    """

    task: TaskName
    grid: Mapping[str, Sequence[Any]]
    budget: int
    files: Kept
    studies: Studies
    study: str
    score: Callable[[str, Point, int], float]
    prepare: Callable[[], None]
    say: Callable[[str], None]

    def of(self, method: str) -> Selection:
        """The method's settings, or for Base what all methods share; chosen now if need be."""
        found = self.known(method)
        if found is not None:
            self._tidy(method, found)  # a process that was killed leaves its trials
            return found
        points, trials = self.points(method), self.trials(method)
        self.prepare()
        shared = {} if method == "base" else self.of("base").chosen
        kept = self._trial_files(method, shared)
        mark = f"{zlib.crc32(repr((dict(shared), self.files.config, trials)).encode()):08x}"
        made = len(self.trainings(method))
        self.say(f"choosing {', '.join(points[0])} of {method} by {made} trainings")
        selection = self.studies.select(
            f"{self.study} {method} {made} {mark}",
            points,
            trials,
            lambda point, seed: self.score(method, point, seed),
            kept,
        )
        config = {**self.files.config, "shared": dict(shared)}
        selection = replace(selection, trainings=made, config=config)
        selection.write(self.files.selection_file(method))
        self._tidy(method, selection)
        self.say(f"{method}: {dict(selection.chosen)}")
        return selection

    def known(self, method: str) -> Selection | None:
        """What needs no trial, or was chosen by the same trials for the same experiment."""
        points, trials = self.points(method), self.trials(method)
        if not trials:
            return Selection(points[0], (), len(points), 0)
        found = self.files.selection(method)
        if found is None:
            return None
        if method != "base":
            base = self.known("base")
            if base is None or found.config.get("shared") != dict(base.chosen):
                return None
        made = [Planned(dict(trial.point), trial.seed) for trial in found.trials]
        return found if made == trials else None

    def forget(self, method: str) -> None:
        """Remove a choice, and the trials that were made for one."""
        self.files.selection_file(method).unlink(missing_ok=True)
        self._trial_files(method, {}).clear()
        self.studies.forget(f"{self.study} {method} ")

    def points(self, method: str) -> Sequence[Point]:
        """All settings to choose from, the defaults first where they are among them."""
        if method == "base":
            values = product(*self.grid.values())
            return [dict(zip(self.grid, each, strict=True)) for each in values]
        return method_named(method).points(self.task)

    def settings(self, method: str, point: Point) -> Settings:
        """Base has none of its own: its points are what all methods share."""
        return configured(method_named(method), {} if method == "base" else point)

    def trials(self, method: str) -> list[Planned]:
        """Those to be made; none where there is nothing to choose."""
        points = self.points(method)
        # Base shows all of its few points: what it chooses, every row is trained with.
        budget = max(len(points), self.budget) if method == "base" else self.budget
        return plan_trials(points, budget, lambda point: self._trained_as(method, point))

    def trainings(self, method: str) -> list[tuple[str, int]]:
        """The trainings behind the trials, and their seeds."""
        trials = self.trials(method)
        return list(dict.fromkeys((self._trained_as(method, t.point), t.seed) for t in trials))

    def missing_trainings(self, method: str) -> list[tuple[str, int]]:
        """Those of the trainings that not all trials are kept of."""
        base = self.known("base")
        if base is None and method != "base":
            return self.trainings(method)
        kept = self._trial_files(method, {} if method == "base" or base is None else base.chosen)
        missing = {
            (self._trained_as(method, trial.point), trial.seed)
            for trial in self.trials(method)
            if kept.get(trial) is None
        }
        return [training for training in self.trainings(method) if training in missing]

    def _trained_as(self, method: str, point: Point) -> str:
        """The same for points that one training serves."""
        if method == "base":
            return repr(point)
        settings = self.settings(method, point)
        return json.dumps(describe(getattr(settings, "as_fitted", settings)))

    def _trial_files(self, method: str, shared: Point) -> TrialFiles:
        seeds = {trial.seed for trial in self.trials(method)}
        beginnings: dict[int, Any] = dict.fromkeys(seeds)
        if method != "base":
            bases = {seed: self.files.record("base", seed) for seed in seeds}
            beginnings = {seed: beginning_of(base) for seed, base in bases.items() if base}
        return self.files.trials(method, shared, beginnings)

    def _tidy(self, method: str, choice: Selection) -> None:
        """Remove trials that a choice is made by: it has them itself."""
        kept = self._trial_files(method, choice.config.get("shared", {}))
        for trial in choice.trials:
            kept.remove(Planned(trial.point, trial.seed))
