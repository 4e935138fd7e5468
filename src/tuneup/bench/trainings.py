"""One run of a method, in a folder of checkpoints that any process can go on from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from tuneup.files import write_atomic
from tuneup.methods import Settings, digests, method_named, run
from tuneup.train import Checkpoints, JsonLines, Result, TensorBoard, both
from tuneup.train.logs import LOG_FILE
from tuneup.workflow.problems import Problem

from .memory import PeakMemory
from .records import record_name
from .selection import Point

_STAGES = "stages.json"
"""The digests of a run's stages, in its folder."""


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
        tensorboard: folder of logs for TensorBoard, a folder in it for each run.
    """

    dataset: str
    architecture: str
    problem: Callable[[Point], Problem]
    folder: Path
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

    @property
    def store(self) -> Checkpoints:
        """The stages of all runs."""
        return Checkpoints(self.folder / "stages")

    def train(self, method: str, seed: int, shared: Point, settings: Settings) -> Trained:
        """One run; stages that it shares with others are trained once for all of them."""
        setup, found = self.problem_of(shared).setup, method_named(method)
        name = record_name(self.dataset, self.architecture, method, seed)
        stages = digests(found, setup, settings=settings, seed=seed)
        folder = self.folder / f"{name}-{stages[-1]}"
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(FileLock(folder.with_suffix(".lock")))  # others may be at it
            write_atomic(folder / _STAGES, json.dumps(stages))
            log, board, memory = JsonLines(folder / LOG_FILE), None, PeakMemory(folder)
            if self.tensorboard is not None:
                place = self.tensorboard / self.folder.name / folder.name
                board = stack.enter_context(TensorBoard(place))
            result = run(
                found,
                setup,
                settings=settings,
                seed=seed,
                checkpoints=self.store,
                callback=both(log, board, memory),
            )
            log.complete(result.record)
            return Trained(result, memory.keep())

    def forget(self, method: str, seed: int) -> None:
        """Remove the folders of a run, of all its settings, and the stages that are not Base's."""
        self._bases.clear()
        kept = set() if method == "base" else self._stages("base", seed)
        for digest in self._stages(method, seed) - kept:
            self.store.remove(digest)
        for path in self._folders(method, seed):
            with FileLock(path.with_suffix(".lock")):  # others may be at it
                shutil.rmtree(path)

    def _folders(self, method: str, seed: int) -> list[Path]:
        name = record_name(self.dataset, self.architecture, method, seed)
        return [path for path in self.folder.glob(f"{name}-*-*") if path.is_dir()]

    def _stages(self, method: str, seed: int) -> set[str]:
        """Digests of the stages of a run, of all its settings."""
        files = [path / _STAGES for path in self._folders(method, seed)]
        texts = [file.read_text() for file in files if file.exists()]
        return {digest for text in texts for digest in json.loads(text)}


def _key(shared: Point) -> str:
    return repr(sorted(shared.items()))
