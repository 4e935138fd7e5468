"""What training Base and TuneUp on a problem came to, and what its run folder says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tuneup.evaluation import GroupMean, head_tail
from tuneup.metrics import NodeScores
from tuneup.training import Result, TrainingRecord

from .alpha import Candidate
from .problems import Problem
from .provenance import machine, versions


@dataclass(frozen=True, eq=False)
class Outcome:
    """Base and TuneUp of one training, with their scores by setting."""

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

    def metrics(self, command: str) -> dict[str, Any]:
        """What was run and with what, all that the closing table shows, and how training went.

        Args:
            command: what to type for the same run.
        """
        scores = {"base": self.base, "tuneup": self.tuneup}
        return {
            "task": self.problem.setup.task_name,
            "architecture": self.problem.setup.encoder.architecture,
            "unit": self.problem.unit,
            "command": command,
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


def _plain(mean: GroupMean) -> dict[str, float | None]:
    """A group's numbers for JSON, which has none for the mean of nothing."""
    found = asdict(mean)
    return {key: None if math.isnan(value) else value for key, value in found.items()}
