"""One run of a method, in a folder of checkpoints that any process can go on from."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from tuneup.methods import (
    Recipe,
    Settings,
    Setup,
    method_named,
    prepare,
    reread,
    run,
    run_opening,
)
from tuneup.train import Checkpoints, JsonLines, Result, TensorBoard, both
from tuneup.train.logs import LOG_FILE
from tuneup.train.state import describe
from tuneup.workflow.problems import Problem
from tuneup.workflow.provenance import training_digest

from .memory import PeakMemory
from .records import record_name
from .selection import Point


@dataclass(frozen=True, eq=False)
class Trained:
    """A run, and the most memory that it took, as far as it is known."""

    result: Result
    peak: int | None

    @property
    def score(self) -> float:
        """Validation of the last stage, or of the result where that stage is judged otherwise."""
        if self.result.curriculum[-1].score is None:
            return self.result.record.stages[-1].best_score
        assert self.result.record.validation is not None
        return self.result.record.validation


@dataclass(eq=False)
class Trainings:
    """All that is trained on one dataset, task and architecture.

    Args:
        dataset: as folders name it.
        architecture: likewise.
        problem: makes the problem for a choice of what all methods share.
        folder: of the checkpoints.
        config: what else decides a run.
        tensorboard: folder of logs for TensorBoard, a folder in it for each run.
    """

    dataset: str
    architecture: str
    problem: Callable[[Point], Problem]
    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    tensorboard: Path | None = None
    _problems: dict[str, Problem] = field(default_factory=dict)
    _bases: dict[tuple[str, int], Result] = field(default_factory=dict)

    def problem_of(self, shared: Point) -> Problem:
        """The problem for a choice, made once."""
        key = _key(shared)
        if key not in self._problems:
            self._problems[key] = self.problem(shared)
        return self._problems[key]

    def base(self, seed: int, shared: Point) -> Result:
        """The run of Base that rows go on from: trained, or read, once for all of them."""
        key = (_key(shared), seed)
        if key not in self._bases:
            plain = method_named("base").settings
            self._bases[key] = self.train("base", seed, shared, plain).result
        return self._bases[key]

    def train(self, method: str, seed: int, shared: Point, settings: Settings) -> Trained:
        """One run; a first stage that it shares with others is trained once for all of them."""
        problem = self.problem_of(shared)
        recipe = prepare(settings, problem.setup, seed)
        fitted = method_named(method).as_trained(settings)
        if fitted != settings:
            trained = self.train(method, seed, shared, fitted)
            return replace(trained, result=reread(trained.result, recipe, problem.setup))
        base = self.base(seed, shared) if recipe.shares_base else None
        opening = self._begin(method, seed, shared, recipe)
        stages = describe(recipe.curriculum)  # not `repr`, which has addresses of functions
        name = record_name(self.dataset, self.architecture, method, seed)
        folder = self._place(name, dict(shared), describe(settings), stages, self.config)
        with ExitStack() as stack:
            stack.enter_context(FileLock(folder.with_suffix(".lock")))  # others may be at it
            log, board, memory = JsonLines(folder / LOG_FILE), None, PeakMemory(folder)
            if self.tensorboard is not None:
                place = self.tensorboard / self.folder.name / folder.name
                board = stack.enter_context(TensorBoard(place))
            result = run(
                method_named(method),
                problem.setup,
                settings=settings,
                seed=seed,
                base=base,
                opening=opening.result if opening else None,
                checkpoints=Checkpoints(folder),
                callback=both(log, board, memory),
            )
            log.complete(result.record)
            peaks = (memory.keep(), opening.peak if opening else None)
            return Trained(result, max((peak for peak in peaks if peak), default=None))

    def _begin(self, method: str, seed: int, shared: Point, recipe: Recipe) -> Trained | None:
        """What a run begins with instead of Base, where that serves other runs too."""
        if recipe.begins_as is not None:
            other, settings = recipe.begins_as
            return self.train(other, seed, shared, settings)
        if recipe.opening:
            return self._open(method, seed, self.problem_of(shared).setup, recipe)
        return None

    def _open(self, method: str, seed: int, setup: Setup, recipe: Recipe) -> Trained:
        """What a method begins with, one run for all its settings and for all architectures."""
        stages = describe(recipe.curriculum[: recipe.opening])
        folder = self._place(self._opening(method, seed), stages, setup.task.digest())
        with FileLock(folder.with_suffix(".lock")):
            memory, kept = PeakMemory(folder), Checkpoints(folder)
            result = run_opening(recipe, setup, seed, checkpoints=kept, callback=memory)
            return Trained(result, memory.keep())

    def forget(self, method: str, seed: int) -> None:
        """Remove the folders of a run, of all its settings."""
        self._bases.clear()
        own = record_name(self.dataset, self.architecture, method, seed)
        for name in (own, self._opening(method, seed)):
            for path in self.folder.glob(f"{name}-{'?' * 8}"):
                with FileLock(path.with_suffix(".lock")):  # others may be at an opening
                    shutil.rmtree(path)

    def _opening(self, method: str, seed: int) -> str:
        return f"{self.dataset}-{method}-opening-{seed}"

    def _place(self, name: str, *decisive: Any) -> Path:
        """A run's folder; what else decides it, and the code that trains, is part of its name."""
        mark = zlib.crc32(repr((*decisive, training_digest())).encode())
        folder = self.folder / f"{name}-{mark:08x}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder


def _key(shared: Point) -> str:
    return repr(sorted(shared.items()))
