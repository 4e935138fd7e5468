"""What training Base and TuneUp on a problem came to, and what its run folder says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tuneup.evaluation import Floor, GroupMean, head_tail
from tuneup.metrics import NodeScores
from tuneup.names import Alpha
from tuneup.report.classes import ClassSummary, calibration_words, floor_words, found_words
from tuneup.report.standings import NAMES, Standing, standings
from tuneup.report.verdict import open_ends, result_words, verdict
from tuneup.train import Result, TrainingRecord

from .alpha import Candidate, Trained
from .classes import class_summary
from .problems import Problem
from .provenance import machine, versions


@dataclass(frozen=True, eq=False)
class Outcome:
    """Base, stage 2 and the result of one training, with their scores by setting.

    Args:
        problem: what was trained on.
        result: both stages and the dial between them.
        models: scores by setting of each model, by its name in files.
        floors: simple models to compare with, in the same settings.
        alpha: share of edges that stage 2 dropped.
        candidates: what alpha was selected from, if it was not given.
        told: all that was trained, if that is more than the result.
        control: Base trained on without dropping, where it was asked for.
        classes: measures, confusion and calibration of a classifier.
    """

    problem: Problem
    result: Result
    models: Mapping[str, Mapping[str, NodeScores]]
    floors: Sequence[Floor]
    alpha: Alpha
    candidates: Sequence[Candidate] = ()
    told: TrainingRecord | None = None
    control: Result | None = None
    classes: ClassSummary | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        trained: Trained,
        *,
        control: Result | None = None,
        floors: Sequence[Floor] = (),
    ) -> Outcome:
        """Score every model of a finished training."""
        result = trained.result
        models = {"base": result.copy(0), "stage-2": result.copy(1), "tuneup": result.best()}
        if control is not None:
            models["control"] = control.best()
        scores = {name: problem.score(model) for name, model in models.items()}
        return cls(
            problem,
            result,
            scores,
            floors,
            trained.alpha,
            trained.candidates,
            trained.told,
            control,
            class_summary(problem, models, floors),
        )

    @property
    def base(self) -> Mapping[str, NodeScores]:
        """Scores of Base by setting."""
        return self.models["base"]

    @property
    def tuneup(self) -> Mapping[str, NodeScores]:
        """Scores of the result by setting."""
        return self.models["tuneup"]

    @cached_property
    def standings(self) -> list[Standing]:
        """All models beside the best simple one, group by group."""
        named = {NAMES[name]: scores for name, scores in self.models.items()}
        return standings(named, {floor.title: floor.scores for floor in self.floors})

    @property
    def verdict(self) -> list[str]:
        """What came out, in sentences."""
        record, unit, classes = self.result.record, self.problem.unit, self.classes
        if classes is None:
            return verdict(record, self.standings, unit)
        calibration = calibration_words(classes, unit)
        if classes.metric == self.metric:
            return [*verdict(record, self.standings, unit), calibration]
        first = [*floor_words(classes, unit), result_words(record)]
        found = found_words(classes, unit)
        return [*first, *open_ends(record), *([found] if found else []), calibration]

    @property
    def metric(self) -> str:
        """What the scores are."""
        return next(iter(self.tuneup.values())).metric

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

    def metrics(self, command: str, refit: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What was run and with what, all that the closing table shows, and how training went.

        Args:
            command: what to type for the same run.
            refit: what a model was trained on again that was saved in the place of the result.
        """
        verdict = [*self.verdict, *([refit_words(refit)] if refit else [])]
        classes = {} if self.classes is None else {"classes": self.classes.to_json()}
        first = self.problem.settings[0].name
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
            "metric": self.metric,
            "verdict": verdict,
            **classes,
            **({"refit": dict(refit)} if refit else {}),
            "floors": {f.title: f.scores[first].mean() for f in self.floors if first in f.scores},
            "simple": {floor.name: floor.title for floor in self.floors if floor.scores},
            "scores": {
                method: {
                    name: {group: _plain(mean) for group, mean in head_tail(score).items()}
                    for name, score in settings.items()
                }
                for method, settings in self.models.items()
            },
            "training": self.result.record.to_json(),
            **self._selection,
            "versions": versions(),
            "machine": machine(),
        }


def refit_words(refit: Mapping[str, Any]) -> str:
    """That the saved model is another than the one that was scored."""
    epochs = " and ".join(f"{count:,}" for count in refit["epochs"])
    return (
        f"The saved model was trained again on everything, {refit['examples']:,} examples, for "
        f"{epochs} epochs. All scores are of the model before: nothing is left to score it on."
    )


def _plain(mean: GroupMean) -> dict[str, float | None]:
    """A group's numbers for JSON, which has none for the mean of nothing."""
    found = asdict(mean)
    return {key: None if math.isnan(value) else value for key, value in found.items()}
