"""Base, DropEdge, TuneUp and its ablations on one graph with one architecture: the paper's rows.

Two choices are made, on training seed 0's validation score alone: one option (dropout, an L2
weight) once, on Base, for all methods; and alpha per method.  A finished run is a record in the
results folder, and a run that has one is not run again.  Runs leave their checkpoints in ``runs``,
so that a suite that was stopped goes on where it was, and what was trained to choose alpha is not
trained again.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from tuneup.bench.problems import Problem
from tuneup.bench.provenance import source_revision
from tuneup.bench.records import RunRecord, record_name, record_of
from tuneup.methods import METHODS, Settings, configured, curricula, prepare, run
from tuneup.names import TaskName
from tuneup.training import Checkpoints, Result
from tuneup.training.state import describe

from .records import ROOT, shown

CHECKPOINTS = ROOT / "runs" / "suites"


@dataclass(eq=False)
class Suite:
    """Every method and seed on the same split, task and settings.

    Args:
        dataset: as records name it.
        task: likewise.
        architecture: likewise.
        results: folder of the records.
        option: what Base chooses for all methods.
        values: what it may choose from.
        problem: makes the problem for a value of the option.
        methods: rows of the table.
        seeds: training seeds.
        config: what else a record should say.
    """

    dataset: str
    task: TaskName
    architecture: str
    results: Path
    option: str
    values: Sequence[float]
    problem: Callable[[float], Problem]
    methods: Sequence[str] = tuple(method.name for method in curricula.METHODS)
    seeds: Sequence[int] = tuple(range(5))
    config: dict[str, Any] = field(default_factory=dict)
    _problems: dict[float, Problem] = field(default_factory=dict)

    def run_all(self) -> None:
        """Every method and seed that has no record yet."""
        planned = list(product(self.methods, self.seeds))
        missing = [
            (method, seed)
            for method, seed in planned
            if not (self.results / f"{self._name(method, seed)}.json").exists()
        ]
        if not missing:
            self._say(
                f"all {len(planned)} runs are recorded in {shown(self.results)}; "
                "pass --fresh to remove them and run them again"
            )
            return
        self._say(f"{len(missing)} of {len(planned)} runs have no record yet and are run now")
        value = self._known(self.option, "base")
        value = self._choose_value() if value is None else value
        for method in dict.fromkeys(method for method, _ in missing):
            settings = self._known_settings(method) or self._choose_settings(method, value)
            for seed in (seed for name, seed in missing if name == method):
                self._run(method, seed, value, settings)

    def forget(self) -> None:
        """Remove the records and, as runs would go on from them, the checkpoints."""
        self._problem(self.values[0])  # without its data nothing could replace what is removed
        names = [self._name(method, seed) for method, seed in product(self.methods, self.seeds)]
        kept = sum((self.results / f"{name}.json").exists() for name in names)
        self._say(f"removing {kept} records from {shown(self.results)}, and all checkpoints")
        for name in names:
            for suffix in (".json", ".parquet"):  # a record that exists is complete: it goes first
                (self.results / f"{name}{suffix}").unlink(missing_ok=True)
            for folder in (CHECKPOINTS / self.task).glob(f"{name}-{'?' * 8}"):
                shutil.rmtree(folder)

    def train(self, method: str, seed: int, value: float, settings: Settings) -> Result:
        """One run; stage 1 is the Base run of the seed wherever a method begins with it."""
        problem = self._problem(value)
        recipe = prepare(settings, problem.setup, seed)
        plain = METHODS["base"].settings
        base = self.train("base", seed, value, plain) if recipe.shares_base else None
        stages = describe(recipe.curriculum)  # not `repr`, which has addresses of functions
        decisive = (value, describe(settings), stages, self.config, source_revision())
        mark = f"{zlib.crc32(repr(decisive).encode()):08x}"  # other settings or code: another run
        folder = CHECKPOINTS / self.task / f"{self._name(method, seed)}-{mark}"
        return run(
            METHODS[method],
            problem.setup,
            settings=settings,
            seed=seed,
            base=base,
            checkpoints=Checkpoints(folder, every=50),
        )

    def _problem(self, value: float) -> Problem:
        if value not in self._problems:
            self._problems[value] = self.problem(value)
        return self._problems[value]

    def _choose_value(self) -> float:
        """The best on Base's validation score."""
        plain = METHODS["base"].settings
        return max(self.values, key=lambda value: best_score(self.train("base", 0, value, plain)))

    def _choose_settings(self, method: str, value: float) -> Settings:
        """The best of the method's grid on its validation score, of its last stage."""
        trials = METHODS[method].trials()
        if len(trials) == 1:
            return trials[0]
        return max(trials, key=lambda trial: best_score(self.train(method, 0, value, trial)))

    def _run(self, method: str, seed: int, value: float, settings: Settings) -> None:
        result = self.train(method, seed, value, settings)
        problem = self._problem(value)
        scores = problem.score(result.copy(result.record.winner))
        chosen = {name: getattr(settings, name) for name in METHODS[method].grid}
        record = record_of(
            result,
            scores,
            dataset=self.dataset,
            task=self.task,
            architecture=self.architecture,
            method=method,
            config={
                self.option: value,
                "alpha": chosen.get("alpha", 0.0),
                "chosen": chosen,
                "trials": len(METHODS[method].trials()),
                **self.config,
                "pretrain": asdict(problem.setup.pretrain),
                "finetune": asdict(problem.setup.finetune),
            },
        )
        if result.record.winner == 0 and len(result.states) == 2:
            second = problem.score(result.copy(1))
            record.stages[1]["settings"] = {k: float(v.mean()) for k, v in second.items()}
        record.write(self.results, scores.values())
        means = "  ".join(f"{name} {mean:.4f}" for name, mean in record.settings.items())
        print(f"{record.name}: {record.seconds:.0f} s  {chosen}  {means}", flush=True)

    def _say(self, words: str) -> None:
        print(f"{self.dataset} {self.architecture}: {words}", flush=True)

    def _name(self, method: str, seed: int) -> str:
        return record_name(self.dataset, self.architecture, method, seed)

    def _known(self, option: str, method: str) -> float | None:
        """What an earlier, interrupted call chose."""
        for path in self.results.glob(f"{self.dataset}-{self.architecture}-{method}-*.json"):
            value: float = RunRecord.read(path).config[option]
            return value
        return None

    def _known_settings(self, method: str) -> Settings | None:
        """Likewise, of the method's own settings."""
        for path in self.results.glob(f"{self.dataset}-{self.architecture}-{method}-*.json"):
            config = RunRecord.read(path).config
            chosen = {name: config.get("chosen", config)[name] for name in METHODS[method].grid}
            return configured(METHODS[method], chosen)
        return None


def best_score(result: Result) -> float:
    """Validation score of the last stage, or of the result where that stage is judged otherwise."""
    if result.curriculum[-1].score is None:
        return result.record.stages[-1].best_score
    assert result.record.validation is not None
    return result.record.validation
