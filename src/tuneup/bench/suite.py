"""Every method on one dataset, task and architecture: chosen on validation, run, recorded.

What all methods share (dropout, an L2 weight) is chosen once, on Base; a method's own settings by
a number of trials that is the same for every method.  Test nodes are never looked at for either.
A finished run is a record in the results folder and a finished choice a file beside it; what has
one is not done again.  Checkpoints and studies lie in the runs folder, so that a suite that was
stopped goes on where it was, any number of processes can work on one, and what was trained to
choose is not trained again.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tuneup.errors import DivergenceError
from tuneup.methods import (
    Recipe,
    Settings,
    Setup,
    configured,
    method_named,
    prepare,
    run,
    run_opening,
)
from tuneup.names import Architecture, TaskName
from tuneup.training import Checkpoints, JsonLines, Result, TensorBoard, both
from tuneup.training.logs import LOG_FILE
from tuneup.training.state import describe

from .memory import PeakMemory
from .problems import Problem
from .provenance import source_revision
from .records import RunRecord, goes_on_from, record_name, record_of
from .selection import Planned, Point, Selection, Studies, plan_trials

DIVERGED = -1.0
"""Score of a trial that diverged: below every metric."""


@dataclass(frozen=True)
class Planning:
    """What a suite would do: its trials that are not chosen by yet and its runs without a record.

    An entry is a method and a seed.
    """

    trials: Sequence[tuple[str, int]]
    runs: Sequence[tuple[str, int]]


@dataclass(eq=False)
class Suite:
    """Methods and seeds on the same split, task and settings.

    Args:
        dataset: as records name it.
        task: likewise.
        architecture: likewise.
        shared: what Base chooses for all methods: values by name.
        problem: makes the problem for a choice.
        results: folder of the records.
        runs: folder of checkpoints and studies.
        methods: rows of the table.
        seeds: training seeds.
        budget: trials per method.
        config: what else a record should say; one that says otherwise is of another experiment.
        tensorboard: folder of logs for TensorBoard, a folder in it for each run.
    """

    dataset: str
    task: TaskName
    architecture: Architecture
    shared: Mapping[str, Sequence[Any]]
    problem: Callable[[Point], Problem]
    results: Path
    runs: Path
    methods: Sequence[str]
    seeds: Sequence[int] = tuple(range(5))
    budget: int = 6
    config: dict[str, Any] = field(default_factory=dict)
    tensorboard: Path | None = None
    _problems: dict[str, Problem] = field(default_factory=dict)
    _peaks: dict[tuple[str, int], int | None] = field(default_factory=dict)
    """memory of the runs that were trained last"""

    @property
    def title(self) -> str:
        """``dblp node-classification gcn``."""
        return f"{self.dataset} {self.task} {self.architecture}"

    def run_all(self) -> None:
        """Every method and seed that has no record yet, Base's choice first."""
        self.choose("base")
        missing = self.plan().runs
        if missing:
            self._say(f"{len(missing)} runs have no record yet and are run now")
        left = [run for run in missing if not self._try_run(*run, wait=False)]
        for method, seed in left:  # those that other processes are at, should one of them fail
            self._try_run(method, seed, wait=True)
        count = len(self.methods) * len(self.seeds)
        self._say(f"all {count} runs are recorded in {self.results}; pass --fresh to run them anew")

    def _try_run(self, method: str, seed: int, *, wait: bool) -> bool:
        """Make a record that is missing, unless another process is at it; whether it is there."""
        self.choose(method)
        place = self._folder / "running" / f"{self._name(method, seed)}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(place, timeout=-1 if wait else 0):
                if self._recorded(method, seed) is None:  # it may fit what is chosen by now
                    self._run(method, seed)
        except Timeout:
            return False
        return True

    def plan(self, fresh: bool = False) -> Planning:
        """What is left to do, or all ``fresh``, as far as it can be known before it is done."""
        trials: list[tuple[str, int]] = []
        for method in dict.fromkeys(("base", *self.methods)):
            if self._selection(method) is None or (fresh and method in self.methods):
                trials += [(method, trial.seed) for trial in self._trials(method)]
        runs = [
            (method, seed)
            for method, seed in product(self.methods, self.seeds)
            if fresh or self._recorded(method, seed) is None
        ]
        return Planning(trials, runs)

    @property
    def kept(self) -> list[str]:
        """Names of the records that are there, of whatever choice."""
        names = (self._name(method, seed) for method, seed in product(self.methods, self.seeds))
        return [name for name in names if (self.results / f"{name}.json").exists()]

    def forget(self) -> None:
        """Remove records and choices and, as runs would go on from them, checkpoints."""
        self._problem(self._points("base")[0])  # without its data nothing could replace them
        self._say(f"removing {len(self.kept)} records from {self.results}, and all checkpoints")
        for method, seed in product(self.methods, self.seeds):
            name = self._name(method, seed)
            for suffix in (".json", ".parquet"):  # a record that exists is complete: it goes first
                (self.results / f"{name}{suffix}").unlink(missing_ok=True)
            for kept in (name, self._opening(method, seed)):
                for path in self._folder.glob(f"{kept}-{'?' * 8}"):
                    with FileLock(path.with_suffix(".lock")):  # others may be at an opening
                        shutil.rmtree(path)
        for method in self.methods:
            self._selection_file(method).unlink(missing_ok=True)
            self._studies.forget(f"{self._study} {method} ")

    def train(self, method: str, seed: int, shared: Point, settings: Settings) -> Result:
        """One run; a first stage that it shares with others is trained once for all of them."""
        problem = self._problem(shared)
        recipe = prepare(settings, problem.setup, seed)
        plain = method_named("base").settings
        base = self.train("base", seed, shared, plain) if recipe.shares_base else None
        opening = self._open(method, seed, problem.setup, recipe) if recipe.opening else None
        stages = describe(recipe.curriculum)  # not `repr`, which has addresses of functions
        folder = self._place(
            self._name(method, seed), dict(shared), describe(settings), stages, self.config
        )
        checkpoints = Checkpoints(folder, every=50)
        with ExitStack() as stack:
            stack.enter_context(FileLock(folder.with_suffix(".lock")))  # others may be at it
            log, board, memory = JsonLines(folder / LOG_FILE), None, PeakMemory(folder)
            if self.tensorboard is not None:
                place = self.tensorboard / folder.relative_to(self.runs)
                board = stack.enter_context(TensorBoard(place))
            result = run(
                method_named(method),
                problem.setup,
                settings=settings,
                seed=seed,
                base=base,
                opening=opening,
                checkpoints=checkpoints,
                callback=both(log, board, memory),
            )
            log.complete(result.record)
            peaks = [memory.keep(), *([self._peaks[method, seed]] if opening else [])]
            self._peaks[method, seed] = max((peak for peak in peaks if peak), default=None)
            return result

    def _open(self, method: str, seed: int, setup: Setup, recipe: Recipe) -> Result:
        """What a method begins with, one run for all its settings and for all architectures."""
        stages = describe(recipe.curriculum[: recipe.opening])
        folder = self._place(self._opening(method, seed), stages, setup.task.digest())
        with FileLock(folder.with_suffix(".lock")):
            memory, kept = PeakMemory(folder), Checkpoints(folder, every=50)
            result = run_opening(recipe, setup, seed, checkpoints=kept, callback=memory)
            self._peaks[method, seed] = memory.keep()
            return result

    def _place(self, name: str, *decisive: Any) -> Path:
        """A run's folder; what else decides it, and the code, is part of its name."""
        mark = zlib.crc32(repr((*decisive, source_revision())).encode())
        folder = self._folder / f"{name}-{mark:08x}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def choose(self, method: str) -> Selection:
        """The method's settings, or for Base what all methods share; chosen once."""
        found = self._selection(method)
        if found is not None:
            return found
        points, trials = self._points(method), self._trials(method)
        if not trials:
            return Selection(points[0], (), len(points))
        self._problem(self._points("base")[0])  # is its data there?
        shared = {} if method == "base" else self.choose("base").chosen
        mark = f"{zlib.crc32(repr((dict(shared), self.config, trials)).encode()):08x}"
        name = f"{self._study} {method} {len(trials)} {mark}"
        self._say(f"choosing {', '.join(points[0])} of {method} by {len(trials)} trials")
        selection = self._studies.select(
            name, points, len(trials), lambda point, seed: self._score(method, point, seed)
        )
        selection = replace(selection, config={**self.config, "shared": dict(shared)})
        selection.write(self._selection_file(method))
        self._say(f"{method}: {dict(selection.chosen)}")
        return selection

    def _score(self, method: str, point: Point, seed: int) -> float:
        """A trial's validation score, from a record where there is one."""
        shared = point if method == "base" else self.choose("base").chosen
        record = self._record(method, seed)
        if record is not None and self._fits(record, shared, point):
            return record.trial_score
        try:
            return best_score(self.train(method, seed, shared, self._settings(method, point)))
        except DivergenceError:
            return DIVERGED

    def _run(self, method: str, seed: int) -> None:
        shared, selection = self.choose("base").chosen, self.choose(method)
        point = selection.chosen
        result = self.train(method, seed, shared, self._settings(method, point))
        problem = self._problem(shared)
        scores = problem.score(result.copy(result.record.winner))
        record = record_of(
            result,
            scores,
            dataset=self.dataset,
            task=self.task,
            architecture=self.architecture,
            method=method,
            config={
                **shared,
                "alpha": point.get("alpha", 0.0),
                "chosen": dict(point),
                "trials": len(selection.trials),
                "trial_score": best_score(result),
                "pretrain": asdict(problem.setup.pretrain),
                "finetune": asdict(problem.setup.finetune),
                **self.config,
            },
            peak_rss=self._peaks[method, seed],
        )
        if result.record.winner == 0 and len(result.states) == 2:
            second = problem.score(result.copy(1))
            record.stages[1]["settings"] = {k: float(v.mean()) for k, v in second.items()}
        record.write(self.results, scores.values())
        means = "  ".join(f"{name} {mean:.4f}" for name, mean in record.settings.items())
        print(f"{record.name}: {record.seconds:.0f} s  {dict(point)}  {means}", flush=True)

    @property
    def _folder(self) -> Path:
        """Of the checkpoints; each task and preset has one, as it has one of records."""
        return self.runs / self.results.name

    @property
    def _study(self) -> str:
        return f"{self.results.name} {self.dataset} {self.architecture}"

    @property
    def _studies(self) -> Studies:
        return Studies(self.runs / "studies.db")

    def _problem(self, shared: Point) -> Problem:
        key = repr(sorted(shared.items()))
        if key not in self._problems:
            self._problems[key] = self.problem(shared)
        return self._problems[key]

    def _points(self, method: str) -> Sequence[Point]:
        """All settings to choose from, the defaults first where they are among them."""
        if method == "base":
            return [
                dict(zip(self.shared, values, strict=True))
                for values in product(*self.shared.values())
            ]
        return method_named(method).points(self.task)

    def _trials(self, method: str) -> list[Planned]:
        points = self._points(method)
        # Base shows all of its few points: what it chooses, every row is trained with.
        return plan_trials(
            points, max(len(points), self.budget) if method == "base" else self.budget
        )

    def _settings(self, method: str, point: Point) -> Settings:
        """Base has none of its own: its points are what all methods share."""
        return configured(method_named(method), {} if method == "base" else point)

    def _say(self, words: str) -> None:
        print(f"{self.title}: {words}", flush=True)

    def _name(self, method: str, seed: int) -> str:
        return record_name(self.dataset, self.architecture, method, seed)

    def _opening(self, method: str, seed: int) -> str:
        return f"{self.dataset}-{method}-opening-{seed}"

    def _record(self, method: str, seed: int) -> RunRecord | None:
        path = self.results / f"{self._name(method, seed)}.json"
        return RunRecord.read(path) if path.exists() else None

    def _recorded(self, method: str, seed: int) -> RunRecord | None:
        """The run's record, unless it was made with other settings or from another run of Base."""
        record = self._record(method, seed)
        chosen = [
            self._selection(name) if self._trials(name) else self.choose(name)
            for name in ("base", method)
        ]
        if record is None or chosen[0] is None or chosen[1] is None:
            return None
        base = self._record("base", seed)
        if base is not None and not goes_on_from(record, base):
            return None
        return record if self._fits(record, chosen[0].chosen, chosen[1].chosen) else None

    def _fits(self, record: RunRecord, shared: Point, point: Point) -> bool:
        """Whether a record was made with these settings."""
        config = record.config
        own = {} if record.method == "base" else {**config, **config.get("chosen", {})}
        wanted = {} if record.method == "base" else point
        return (
            _agrees(self.config, config)
            and all(config.get(name) == value for name, value in shared.items())
            and all(own.get(name) == value for name, value in wanted.items())
        )

    def _selection_file(self, method: str) -> Path:
        name = f"{self.dataset}-{self.architecture}-{method}"
        return self.results / "selection" / f"{name}.json"

    def _selection(self, method: str) -> Selection | None:
        """What was chosen before by the same trials, for the same experiment."""
        path = self._selection_file(method)
        found = Selection.read(path) if path.exists() else None
        if found is None or not found.config or not _agrees(self.config, found.config):
            return None
        if method != "base":
            base = self._selection("base") if self._trials("base") else self.choose("base")
            if base is None or found.config.get("shared") != dict(base.chosen):
                return None
        made = [Planned(dict(trial.point), trial.seed) for trial in found.trials]
        return found if made == self._trials(method) else None


def _agrees(config: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Whether what a file says of an experiment is what the experiment is now.

    A file from before something was noted says nothing against it.
    """
    now = json.loads(json.dumps(config))
    return all(now[name] == value for name, value in recorded.items() if name in now)


def best_score(result: Result) -> float:
    """Validation score of the last stage, or of the result where that stage is judged otherwise."""
    if result.curriculum[-1].score is None:
        return result.record.stages[-1].best_score
    assert result.record.validation is not None
    return result.record.validation
