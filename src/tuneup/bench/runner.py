"""Claim and make runs: any number of processes, stopped and started at will.

What is to be done is a pure function of what the store holds (:meth:`Suite.jobs`).  A process takes
a job by a lock file, which the system frees when the process ends, however it ends.  Checkpoints
are in the cache folder, so that a job that was stopped goes on where it was, and stages that runs
share are trained once.

Settings are chosen on validation, by a number of trainings that is the same for every method,
whatever the size of its grid.  A trial is a run; a choice is a group-by over runs.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from tuneup.data import block_graph, block_interactions
from tuneup.errors import DivergenceError
from tuneup.evaluation import Floor
from tuneup.files import ensure_writable
from tuneup.methods import configured, digests, method_named, run
from tuneup.metrics import NodeScores
from tuneup.names import Architecture, TaskName
from tuneup.runtime import forget_peak_rss, machine, peak_rss, versions
from tuneup.tables.inspection import duration
from tuneup.train import Result, TensorBoard
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import Problem

from .presets import ITEMS, METRICS, base_points
from .problems import config_of, is_tables, problem_of, split_problem
from .store import Curve, Point, Run, Store, as_key

DIVERGED = -1.0
"""Validation of a trial that diverged: below every metric."""
FLOOR = "none"
"""Architecture of what is not trained."""
POLL_SECONDS = 2.0
"""How often a process looks again while others are at all that is left."""
_DIGITS = 6
"""Scores that are equal to this many digits are ties: float32 sums differ beyond them."""
_STAGE = (
    "module",
    "description",
    "best_epoch",
    "best_score",
    "stopped",
    "pseudo_labels",
    "seconds",
)
Say = Callable[[str], None]
Made = tuple[Run, Iterable[NodeScores], Curve]
"""A run that was made, with its scores and its curve."""


class Job(NamedTuple):
    """A run to be made; one that is not ``scored`` is a trial and nothing else."""

    run: Run
    scored: bool


@dataclass(frozen=True)
class Study:
    """Runs that are planned one by one; each makes a row for every model of its training.

    Args:
        title: for messages.
        specs: the last row of each training: it is made when this is there.
        train: makes all rows of one, with checkpoints in a folder.
    """

    title: str
    specs: Sequence[Run]
    train: Callable[[Run, Path], Iterator[Made]]

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """All that is not in the store."""
        known = {run.id for run in runs}
        return [Job(spec, True) for spec in self.specs if spec.id not in known]

    def make(self, job: Job, cache: Path) -> Iterator[Made]:
        """Every model of one training."""
        return self.train(job.run, self.folder(cache))

    def ids(self, runs: Sequence[Run]) -> list[str]:
        """The rows of all its trainings."""
        places = {(spec.place, spec.seed) for spec in self.specs}
        return [run.id for run in runs if (run.place, run.seed) in places]

    def folder(self, cache: Path) -> Path:
        """Where its checkpoints are."""
        return cache / f"study-{self.title.replace(' ', '-').replace(',', '')}"


@dataclass(frozen=True)
class Suite:
    """Methods and seeds on one dataset, task and architecture.

    Args:
        task: what is learned.
        dataset: by name, or a folder of tables.
        architecture: of the encoder.
        methods: rows of the table.
        seeds: of the training.
        budget: trainings to choose a method's settings by.
        preset: of schedules and sizes.
        study: a name for runs that are made under other conditions.
        grid: what Base chooses for all methods, by default the preset's.
        config: what decides a run beside its settings, by default the preset's.
        build: makes the problem, by default :func:`~tuneup.bench.problems.problem_of`.
        tensorboard: folder of logs for TensorBoard, a folder in it for each run.
    """

    task: TaskName
    dataset: str
    architecture: Architecture
    methods: Sequence[str]
    seeds: Sequence[int]
    budget: int
    preset: str = "short"
    study: str = "paper"
    grid: Sequence[Point] | None = None
    config: Mapping[str, Any] | None = None
    build: Callable[[Point], Problem] | None = None
    tensorboard: Path | None = None
    _problems: dict[str, Problem] = field(default_factory=dict, compare=False, repr=False)

    @property
    def title(self) -> str:
        """``dblp node-classification gcn``."""
        return f"{self.dataset} {self.task} {self.architecture}"

    def spec(self, method: str, seed: int, shared: Point, point: Point) -> Run:
        """A run that is not made yet."""
        where = (self.task, self.dataset, self.architecture, self.preset)
        config = config_of(*where, self.study) if self.config is None else self.config
        plain = json.loads(json.dumps(config))
        metric = METRICS[self.task]
        settings: Any = {"shared": shared, "point": point, "config": plain, "metric": metric}
        return Run(self.study, *where, method, seed, **settings)

    def points(self, method: str) -> Sequence[Point]:
        """Settings to choose from, the defaults first."""
        if method != "base":
            return method_named(method).points(self.task)
        if self.grid is not None:
            return self.grid
        if is_tables(self.dataset):
            return [{"dropout": 0.0}, {"dropout": 0.5}]
        return base_points(self.task, self.architecture, self.preset, self.study)

    def trials(self, method: str, shared: Point) -> list[Run]:
        """Trials to choose by; none where there is nothing to choose."""
        points = self.points(method)
        if method == "base":  # all of its few points: what it chooses, every row is trained with
            plan = plan_trials(points, max(len(points), self.budget), as_key)
            return [self.spec(method, seed, point, {}) for point, seed in plan]

        def training(point: Point) -> Hashable:
            """The same for points of the method that one training serves."""
            settings = configured(method_named(method), point)
            setup = _toy(self.task, self.architecture).setup
            return digests(method_named(method), setup, settings=settings)[-1]

        plan = plan_trials(points, self.budget, training)
        return [self.spec(method, seed, shared, point) for point, seed in plan]

    def choice(
        self, method: str, shared: Point, known: Mapping[str, Run]
    ) -> tuple[Point | None, list[Run]]:
        """The settings that were chosen, if all trials are made, and the trials that are not."""
        trials = self.trials(method, shared)
        if not trials:
            return self.points(method)[0], []
        missing = [each for each in trials if each.id not in known or not known[each.id].trial]
        if missing:
            return None, missing

        def settings(run: Run) -> Point:
            return run.shared if method == "base" else run.point

        made, place = [known[each.id] for each in trials], trials[0].place
        scored = [r for r in known.values() if r.means and r.method == method and r.place == place]
        tried = [(settings(run), run.seed, run.validation) for run in made]
        return best_of(tried, [settings(run) for run in scored]), []

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """Trials and runs that can be made now."""
        known = {run.id: run for run in runs}
        shared, missing = self.choice("base", {}, known)
        found = [Job(trial, False) for trial in missing]
        for method in self.methods if shared is not None else ():
            assert shared is not None
            point, missing = ({}, []) if method == "base" else self.choice(method, shared, known)
            found += [Job(trial, False) for trial in missing]
            if point is not None:
                specs = [self.spec(method, seed, shared, point) for seed in self.seeds]
                found += [Job(s, True) for s in specs if s.id not in known or not known[s.id].means]
        return found

    def make(self, job: Job, cache: Path) -> Iterator[Made]:
        """Train one run; a run that is there already is marked as a trial."""
        spec, method = job.run, method_named(job.run.method)
        problem = self.problem(spec.shared)
        with ExitStack() as stack:
            board = None
            if self.tensorboard is not None:
                board = stack.enter_context(TensorBoard(self.tensorboard / spec.id))
            forget_peak_rss()
            result = run(
                method,
                problem.setup,
                settings=configured(method, spec.point),
                seed=spec.seed,
                checkpoints=self.folder(cache),
                callback=board,
            )
        scores = list(problem.score(result.best()).values()) if job.scored else []
        yield made_run(spec, result, scores)
        once = job.scored and spec.method == "base" and spec.seed == min(self.seeds)
        if once and (self.task == ITEMS or is_tables(self.dataset)):  # where a user would ask
            yield from floor_runs(spec, problem.floors)

    def ids(self, runs: Sequence[Run]) -> list[str]:
        """Runs and trials of its methods; fails where they could not be made again."""
        self.problem(self.points("base")[0])
        place = self.spec("base", 0, {}, {}).place
        return [run.id for run in runs if run.place == place and run.method in self.methods]

    def folder(self, cache: Path) -> Path:
        """One for all architectures, which share some stages."""
        return cache / f"{self.study}-{self.task}-{Path(self.dataset).name}-{self.preset}"

    def problem(self, shared: Point) -> Problem:
        """The problem for what Base chose, made once."""
        key = as_key(shared)
        if key not in self._problems:
            self._problems[key] = (self.build or self.usual_problem)(shared)
        return self._problems[key]

    def usual_problem(self, shared: Point) -> Problem:
        """The problem that its names stand for."""
        where = (self.task, self.dataset, self.architecture, self.preset)
        return problem_of(*where, shared, self.study)


Work = Suite | Study


def made_run(spec: Run, result: Result, scores: Sequence[NodeScores]) -> Made:
    """A run with what came out of its training, and its scores and curve."""
    record = result.record
    last = record.stages[-1].best_score
    if result.curriculum[-1].score is not None:  # the stage is judged by another score
        assert record.validation is not None
        last = record.validation
    made = replace(
        spec,
        validation=last,
        means={part.setting: part.mean() for part in scores},
        metric=record.metric,
        winner=record.winner,
        seconds=round(sum(stage.seconds for stage in record.stages), 2),
        stages=[{name: getattr(stage, name) for name in _STAGE} for stage in record.stages],
        versions=versions(),
        machine=machine() | {"peak_rss": peak_rss()},
    )
    curve = [(stage, epoch, round(loss, 6), score) for stage, epoch, loss, score in record.curves()]
    return made, scores, curve


def floor_runs(spec: Run, floors: Sequence[Floor]) -> Iterator[Made]:
    """Rows of models that need no training, instead of a run."""
    for floor in floors:
        scores = list(floor.scores.values())
        means = {own.setting: own.mean() for own in scores}
        for own in scores:
            lonely = own.select(own.degree == 0)
            if own.setting == "transductive" and len(lonely):
                means["no-edge"] = lonely.mean()
        row = Run(spec.study, spec.task, spec.dataset, FLOOR, spec.preset, floor.name, 0)
        if scores:
            yield replace(row, metric=spec.metric, means=means), scores, ()


def work(tasks: Sequence[Work], store: Store, cache: Path, say: Say) -> None:
    """Make all jobs of all tasks, beside whatever other processes make.

    A run that diverges is left out, and the others are made.

    Raises:
        DivergenceError: after all else is done, where runs diverged.
    """
    for folder in (store.folder, cache):
        ensure_writable(folder)
    failed: dict[str, DivergenceError] = {}
    for each in tasks:
        while jobs := [job for job in each.jobs(store.runs()) if job.run.id not in failed]:
            if not any(_claim(each, job, store, cache, failed, say) for job in jobs):
                time.sleep(POLL_SECONDS)  # others are at all of them; one that dies frees its own
        store.fold()
        say(f"{each.title}: all runs are in {store.folder}; --fresh makes them again")
    if failed:
        raise DivergenceError(
            f"diverged, and not recorded: {', '.join(failed)}. All other runs are. "
            f"{next(iter(failed.values()))}"
        )


def _claim(
    task: Work,
    job: Job,
    store: Store,
    cache: Path,
    failed: dict[str, DivergenceError],
    say: Say,
) -> bool:
    """Make a job unless another process is at it; whether it was free."""
    lock = cache / "locks" / f"{job.run.id}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            known = {run.id: run for run in store.runs()}.get(job.run.id)
            if known is not None and not job.scored:  # a run serves as a trial
                scores = store.scores([known]).get(known.id, {})
                store.add(replace(known, trial=True), scores.values(), store.curve(known))
            elif known is None or not known.means:
                was_trial = not job.scored or (known is not None and known.trial)
                try:
                    for run, scored, curve in task.make(job, cache):
                        mine = run.id == job.run.id
                        store.add(replace(run, trial=mine and was_trial), scored, curve)
                        say(_said(run))
                except DivergenceError as error:
                    if job.scored:
                        failed[job.run.id] = error
                    else:
                        store.add(replace(job.run, trial=True, validation=DIVERGED))
    except Timeout:
        return False
    return True


def _said(run: Run) -> str:
    means = "  ".join(f"{name} {mean:.4f}" for name, mean in run.means.items())
    settings = ", ".join(f"{k} {v}" for k, v in {**run.shared, **run.point}.items())
    score = means or f"validation {run.validation:.4f}"
    return f"{run.name} ({settings}): {score}, {duration(run.seconds)}"


def forget(tasks: Sequence[Work], store: Store, cache: Path, say: Say) -> None:
    """Remove runs and trials, and the checkpoints that they would resume from."""
    for each in tasks:
        ids = each.ids(store.runs())
        say(f"{each.title}: removing {len(ids)} runs and trials from {store.folder}")
        store.fold(ids)
        shutil.rmtree(each.folder(cache), ignore_errors=True)


def plan_trials(
    points: Sequence[Point], budget: int, training: Callable[[Point], Hashable]
) -> list[tuple[Point, int]]:
    """Points and seeds of ``budget`` trainings, or none where there is nothing to choose.

    Too many points: :func:`spread`.  Too few: the points again, in the same order, with further
    seeds.  Points with one ``training``, which is read in several ways, are tried together.
    """
    if len(points) < 2:
        return []
    alike: dict[Hashable, list[Point]] = defaultdict(list)
    for point in points:
        alike[training(point)].append(point)
    order = list(alike.values())
    if len(order) > budget:
        shown = spread([own[0] for own in order], budget)
        order = [alike[training(point)] for point in shown]
    rounds = [(order[k % len(order)], k // len(order)) for k in range(budget)]
    return [(point, seed) for own, seed in rounds for point in own]


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


def best_of(trials: Sequence[tuple[Point, int, float]], made: Sequence[Point] = ()) -> Point:
    """The point that scores best, allowing for what the seeds add.

    Where every point was tried with every seed, that is the best mean.  Where some were tried with
    further seeds, ``score = point + seed`` is fitted to all trials by least squares: a seed that
    only some points were tried with says nothing against the others.  A point that diverged with
    any seed is chosen only where all did.  Of equals, one that runs were ``made`` with, else the
    first.
    """
    unsound = {as_key(point) for point, _, score in trials if score == DIVERGED}
    sound = [trial for trial in trials if as_key(trial[0]) not in unsound] or trials
    points = {as_key(point): point for point, _, _ in sound}
    keys, seeds = list(points), list(dict.fromkeys(seed for _, seed, _ in sound))
    design = np.zeros((len(sound), len(keys) + len(seeds)))
    for row, (point, seed, _) in zip(design, sound, strict=True):
        row[keys.index(as_key(point))] = row[len(keys) + seeds.index(seed)] = 1
    worth, *_ = np.linalg.lstsq(design, np.array([score for *_, score in sound]), rcond=None)
    worth = worth[: len(keys)].round(_DIGITS)
    equals = [key for key, value in zip(keys, worth, strict=True) if value == worth.max()]
    known = {as_key(point) for point in made}
    return points[next((key for key in equals if key in known), equals[0])]


@cache
def _toy(task: TaskName, architecture: Architecture) -> Problem:
    """A tiny problem, to see which settings train the same without reading any data."""
    data = block_interactions(20, 20, 100, 2) if task == ITEMS else block_graph(60, 120, 2, 4)
    return split_problem(task, data, FitOptions(architecture, width=8, select="transductive"))


def describe_plan(tasks: Sequence[Work], store: Store) -> Iterator[str]:
    """What would be made, with the time that the medians of earlier runs tell."""
    runs, total, unknown = store.runs(), 0.0, 0
    for each in tasks:
        jobs = each.jobs(runs)
        count = Counter(job.run.method for job in jobs)
        trials = sum(not job.scored for job in jobs)
        seconds = [median_seconds(runs, job.run) for job in jobs]
        total += sum(known or 0.0 for known in seconds)
        unknown += seconds.count(None)
        rows = ", ".join(f"{number} of {method}" for method, number in count.items())
        listing = f"{len(jobs)} jobs, {trials} of them trials: {rows}" if jobs else "nothing to do"
        yield f"{each.title}: {listing}"
    never = f"; {unknown} trainings were never timed" if unknown else ""
    yield (
        f"in all about {duration(total) if total else '0 seconds'} on one core by the medians of "
        f"earlier runs, without evaluation{never}. Runs that follow from a choice are not counted "
        "before the choice is made."
    )


def median_seconds(runs: Sequence[Run], spec: Run) -> float | None:
    """Median of the runs most like one, or None where nothing of its method and task was run."""
    likeness = ["preset", "task", "method", "architecture", "dataset"]
    for count in range(len(likeness), 1, -1):
        where = {name: getattr(spec, name) for name in likeness[:count]}.items()
        alike = [run.seconds for run in runs if run.seconds and where <= vars(run).items()]
        if alike:
            return median(alike)
    return None
