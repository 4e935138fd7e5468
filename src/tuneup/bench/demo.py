"""The demo: Base and TuneUp on a graph made from a seed, evaluated in every setting."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuneup.evaluation import GroupMean, head_tail
from tuneup.files import ensure_writable, uninterrupted, write_atomic
from tuneup.methods import METHODS, run
from tuneup.methods.curricula import FromCurriculum
from tuneup.metrics import NodeScores, write_scores
from tuneup.report.page import write_page
from tuneup.training import Result, TrainingRecord
from tuneup.training.logs import LOG_FILE
from tuneup.training.result import Callback

from .choosing import Candidate
from .problems import Problem
from .provenance import machine, versions
from .records import write_pseudo_labels
from .run_folders import read_run_folder

FILES = {
    "degrees.png",
    LOG_FILE,
    "metrics.json",
    "pseudo-labels.parquet",
    "report.html",
    "scores-base.parquet",
    "scores-tuneup.parquet",
}
"""What a demo may write: one of an earlier run that this one did not is removed."""


@dataclass(frozen=True, eq=False)
class Demo:
    """One demo run and its scores by setting."""

    problem: Problem
    result: Result
    base: Mapping[str, NodeScores]
    tuneup: Mapping[str, NodeScores]
    alpha: float
    candidates: Sequence[Candidate] = ()
    """what alpha was chosen from, if it was not given"""
    told: TrainingRecord | None = None
    """all that was trained, if that is more than the result"""

    @property
    def command(self) -> str:
        """What to type for the same run; every option is named, as defaults may change."""
        setup = self.problem.setup
        return (
            f"tuneup demo --task {setup.task_name} --architecture {setup.encoder.architecture} "
            f"--alpha {self.alpha} --seed {self.result.record.seed} "
            f"--graph-seed {self.problem.graph_seed or 0}"
        )

    @property
    def _data(self) -> dict[str, str]:
        facts = {"graph": self.problem.name}
        facts |= {name: f"{count:,}" for name, count in self.problem.sizes.items()}
        if self.problem.graph_seed is not None:
            facts["made by"] = f"a generator, from seed {self.problem.graph_seed}"
        return facts

    @property
    def _selection(self) -> dict[str, Any]:
        """In the shape of a :class:`~tuneup.bench.selection.Selection`."""
        if not self.candidates:
            return {}
        seed = self.result.record.seed
        trials = [
            {"point": {"alpha": each.alpha}, "seed": seed, "score": each.score}
            for each in self.candidates
        ]
        told = self.told or self.result.record
        seconds = sum(stage.seconds for stage in told.stages)
        return {
            "selection": {"chosen": {"alpha": self.alpha}, "trials": trials, "seconds": seconds}
        }

    def metrics(self) -> dict[str, Any]:
        """What was run and with what, all that the closing table shows, and how training went."""
        scores = {"base": self.base, "tuneup": self.tuneup}
        return {
            "task": self.problem.setup.task_name,
            "architecture": self.problem.setup.encoder.architecture,
            "unit": self.problem.unit,
            "command": self.command,
            "graph": self.problem.description,
            "data": self._data,
            "graph_seed": self.problem.graph_seed,
            "alpha": self.alpha,
            "configuration": {
                "share of links hidden in stage 2 (alpha)": (
                    f"{self.alpha}, chosen on validation" if self.candidates else self.alpha
                ),
                "layers": self.problem.setup.encoder.num_layers,
                "width": self.problem.setup.encoder.width,
                "dropout": self.problem.setup.encoder.dropout,
            },
            "metric": self.problem.task.metric,
            "floors": self.problem.floors,
            "scores": {
                method: {
                    name: {group: _plain(mean) for group, mean in head_tail(score).items()}
                    for name, score in settings.items()
                }
                for method, settings in scores.items()
            },
            "training": self.result.record.to_json(),
            **self._selection,
            "versions": versions(),
            "machine": machine(),
        }


def run_demo(
    problem: Problem, *, seed: int = 0, alpha: float = 0.5, callback: Callback | None = None
) -> Demo:
    """Train both stages once: Base is the best state of stage 1, TuneUp that of the whole run."""
    result = run(
        METHODS["tuneup"],
        problem.setup,
        settings=FromCurriculum("tuneup", alpha),
        seed=seed,
        callback=callback,
    )
    base, best = (problem.score(result.load(stage)) for stage in (0, result.record.winner))
    return Demo(problem, result, base, best, alpha)


def write_demo(
    demo: Demo, folder: Path, draw: Callable[[Path], None], log: Path | None = None
) -> list[Path]:
    """Metrics, scores, figure, log and report: all of them, or none and the folder as it was."""
    ensure_writable(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as temporary:
        scratch = Path(temporary)
        draw(scratch / "degrees.png")
        for method in ("base", "tuneup"):
            write_scores(scratch / f"scores-{method}.parquet", [*getattr(demo, method).values()])
        text = json.dumps(demo.metrics(), indent=1, allow_nan=False)
        write_atomic(scratch / "metrics.json", text + "\n")
        if demo.result.pseudo_labels:
            labels = scratch / "pseudo-labels.parquet"
            write_pseudo_labels(labels, demo.result, demo.problem.task)
        if log is not None:
            shutil.copyfile(log, scratch / LOG_FILE)
        write_page(scratch / "report.html", [read_run_folder(scratch)])
        made = sorted(scratch.iterdir())
        with uninterrupted():
            for stale in FILES - {path.name for path in made}:
                (folder / stale).unlink(missing_ok=True)
            return [path.replace(folder / path.name) for path in made]


def _plain(mean: GroupMean) -> dict[str, float | None]:
    """A group's numbers for JSON, which has none for the mean of nothing."""
    found = asdict(mean)
    return {key: None if math.isnan(value) else value for key, value in found.items()}
