"""Every method on one dataset, task and architecture: chosen on validation, run, recorded.

What all methods share (dropout, an L2 weight) is chosen once, on Base; a method's own settings by
a number of trials that is the same for every method.  Test nodes are never looked at for either.
A finished run is a record in the results folder and a finished choice a file beside it; what has
one is not done again; trials of a choice that is not finished are kept there too.  Checkpoints and
studies lie in the runs folder, so that a suite that was stopped goes on where it was, any number of
processes can work on one, and what was trained to choose is not trained again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tuneup.errors import DivergenceError, InputError
from tuneup.files import ensure_writable
from tuneup.methods import Settings, digests, method_named
from tuneup.names import Architecture, TaskName
from tuneup.workflow.problems import Problem

from .choices import Choices
from .floors import keep_floors
from .kept import Kept
from .records import RunRecord, begin_alike, curve_of, goes_on_from, record_of
from .selection import DIVERGED, Point, Selection
from .studies import Studies
from .trainings import Trainings


@dataclass(frozen=True)
class Planning:
    """What a suite would do: its trials that are not chosen by yet and its runs without a record.

    An entry is a method and a seed.  ``ready`` are runs that trials will have trained already,
    whichever point is chosen; ``replaced`` are runs whose record is not what is asked for.
    """

    trials: Sequence[tuple[str, int]]
    runs: Sequence[tuple[str, int]]
    ready: Sequence[tuple[str, int]] = ()
    replaced: Sequence[tuple[str, int]] = ()

    @property
    def trainings(self) -> Counter[str]:
        """How many there are to be made of each method."""
        made = Counter(method for method, _ in (*self.trials, *self.runs))
        return made - Counter(method for method, _ in self.ready)


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

    @property
    def title(self) -> str:
        """``dblp node-classification gcn``."""
        return f"{self.dataset} {self.task} {self.architecture}"

    @cached_property
    def trainings(self) -> Trainings:
        """What is trained; each task and preset has a folder, as it has one of records."""
        return Trainings(
            self.dataset,
            self.architecture,
            self.problem,
            self.runs / self.results.name,
            self.tensorboard,
        )

    @property
    def _files(self) -> Kept:
        return Kept(self.results, self.dataset, self.architecture, self.config)

    def run_all(self) -> None:
        """Every method and seed that has no record yet, Base's choice first.

        A run that diverges leaves the others to be made; it is told of at the end.
        """
        plan = self.plan()
        if plan.trials or plan.runs:
            self._check_possible()
        self.choose("base")
        missing = self.plan().runs
        if missing:
            self._say(f"{len(missing)} runs have no record yet and are run now")
        diverged: dict[tuple[str, int], DivergenceError] = {}

        def is_done(method: str, seed: int, *, wait: bool) -> bool:
            try:
                return self._try_run(method, seed, wait=wait)
            except DivergenceError as error:
                diverged[method, seed] = error
                return True

        left = [run for run in missing if not is_done(*run, wait=False)]
        for run in left:  # those that other processes are at, should one of them fail
            is_done(*run, wait=True)
        self._tell(diverged)
        count = len(self.methods) * len(self.seeds)
        self._say(f"all {count} runs are recorded in {self.results}; pass --fresh to run them anew")

    def _tell(self, diverged: Mapping[tuple[str, int], DivergenceError]) -> None:
        """Fail if any run did, with the words of the first."""
        if diverged:
            names = ", ".join(f"{method} of seed {seed}" for method, seed in diverged)
            raise DivergenceError(
                f"{self.title}: diverged, and without a record: {names}. All other runs are "
                f"recorded. {next(iter(diverged.values()))}"
            )

    def _try_run(self, method: str, seed: int, *, wait: bool) -> bool:
        """Make a record that is missing, unless another process is at it; whether it is there."""
        self.choose(method)
        name = self._files.name(method, seed)
        place = self.trainings.folder / "running" / f"{name}.lock"
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
        tried: set[tuple[str, int]] = set()
        choices = self._choices
        for method in dict.fromkeys(("base", *self.methods)):
            anew = fresh and method in self.methods
            if anew or choices.known(method) is None:
                every = choices.trainings(method)
                left = every if anew else choices.missing_trainings(method)
                trials += [(method, seed) for _, seed in left]
                points = {point for point, _ in every}
                seeds = Counter(seed for _, seed in left)
                tried |= {(method, seed) for seed in seeds if seeds[seed] == len(points)}
        runs = [
            (method, seed)
            for method, seed in product(self.methods, self.seeds)
            if fresh or self._recorded(method, seed) is None
        ]
        ready = tuple(run for run in runs if run in tried)
        replaced = tuple(run for run in runs if self._files.has(*run))
        return Planning(trials, runs, ready, replaced)

    @property
    def kept(self) -> list[str]:
        """Names of the records that are there, of whatever choice."""
        return [
            self._files.name(method, seed)
            for method, seed in product(self.methods, self.seeds)
            if self._files.has(method, seed)
        ]

    def forget(self) -> None:
        """Remove records and choices and, as runs would go on from them, checkpoints.

        Nothing is removed that could not be made again: without its data, where nothing can be
        written, or where its rows go on from a run of Base that is kept and comes out otherwise.
        """
        self._check_possible()
        self._check_kept_bases()
        self._say(f"removing {len(self.kept)} records from {self.results}, and all checkpoints")
        for method in self.methods:
            for seed in self.seeds:
                self._files.forget(method, seed)
            for seed in {*self.seeds, *(trial.seed for trial in self._choices.trials(method))}:
                self.trainings.forget(method, seed)
            self._choices.forget(method)

    def choose(self, method: str) -> Selection:
        """The method's settings, or for Base what all methods share; chosen once."""
        return self._choices.of(method)

    @property
    def _choices(self) -> Choices:
        return Choices(
            self.task,
            self.shared,
            self.budget,
            self._files,
            Studies(self.runs / "studies.db"),
            f"{self.results.name} {self.dataset} {self.architecture}",
            self._score,
            self._check_data,
            self._say,
        )

    def _score(self, method: str, point: Point, seed: int) -> float:
        """A trial's validation score, from a record where there is one."""
        shared = point if method == "base" else self.choose("base").chosen
        record = self._kept(method, seed, shared, point)
        if record is not None:
            return record.trial_score
        settings = self._choices.settings(method, point)
        try:
            self._check_base(method, seed, shared, settings)
            return self.trainings.train(method, seed, shared, settings).score
        except DivergenceError:
            return DIVERGED

    def _run(self, method: str, seed: int) -> None:
        shared, selection = self.choose("base").chosen, self.choose(method)
        point = selection.chosen
        settings = self._choices.settings(method, point)
        self._check_base(method, seed, shared, settings)
        trained = self.trainings.train(method, seed, shared, settings)
        result, problem = trained.result, self.trainings.problem_of(shared)
        scores = problem.score(result.best())
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
                "trials": selection.trainings,
                "trial_score": trained.score,
                "pretrain": asdict(problem.setup.pretrain),
                "finetune": asdict(problem.setup.finetune),
                **self.config,
            },
            peak_rss=trained.peak,
        )
        record.write(self.results, scores.values())
        keep_floors(self.results, self.dataset, problem)
        means = "  ".join(f"{name} {mean:.4f}" for name, mean in record.settings.items())
        print(f"{record.name}: {record.seconds:.0f} s  {dict(point)}  {means}", flush=True)

    def _check_kept_bases(self) -> None:
        """Fail where rows are run anew, but not the Base that they would go on from."""
        chosen = self._choices.known("base")
        if chosen is None or "base" in self.methods:
            return
        for method, seed in product(self.methods, self.seeds):
            self._check_base(method, seed, chosen.chosen, method_named(method).settings)

    def _check_base(self, method: str, seed: int, shared: Point, settings: Settings) -> None:
        """Fail before a row goes on from a run of Base that is not the recorded one."""
        kept = self._files.record("base", seed)
        setup = self.trainings.problem_of(shared).setup
        if kept is None or not self._files.fits(kept, shared, {}):
            return
        plain = digests(method_named("base"), setup, seed=seed)
        if digests(method_named(method), setup, settings=settings, seed=seed)[0] != plain[0]:
            return
        base = self.trainings.base(seed, shared)
        if not begin_alike(curve_of(base), kept.curve):
            raise InputError(
                f"{self.title}: Base of seed {seed} came out otherwise here than in "
                f"{self.results / kept.name}.json, as on another machine or with other versions of "
                "this code or of torch; rows that go on from it could not be compared with it. "
                "Remove that file and run Base (--method base) and then the rows again: what was "
                "chosen stays. Or run both anew (--fresh, naming base too), or use another "
                "--results."
            )

    def _check_possible(self) -> None:
        """Fail before any work, and before anything is removed, if it could not be done."""
        self._check_data()
        for folder in filter(None, (self.results, self.runs, self.tensorboard)):
            ensure_writable(folder)

    def _check_data(self) -> None:
        """Fail before any work if the data is not there."""
        chosen = self._choices.known("base")
        self.trainings.problem_of(chosen.chosen if chosen else self._choices.points("base")[0])

    def _say(self, words: str) -> None:
        print(f"{self.title}: {words}", flush=True)

    def _recorded(self, method: str, seed: int) -> RunRecord | None:
        """The run's record, if it was made with the settings that are chosen."""
        shared, own = (self._choices.known(name) for name in ("base", method))
        if shared is None or own is None:
            return None
        return self._kept(method, seed, shared.chosen, own.chosen)

    def _kept(self, method: str, seed: int, shared: Point, point: Point) -> RunRecord | None:
        """The run's record, unless it was made with other settings or from another run of Base."""
        record, base = (self._files.record(name, seed) for name in (method, "base"))
        if record is None or (base is not None and not goes_on_from(record, base)):
            return None
        return record if self._files.fits(record, shared, point) else None
