"""A finished fit with its scores: Base, stage 2, the result, and simple models beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from torch import nn

from tuneup.evaluation import ClassReport, Floor, GroupMean, Setting, head_tail
from tuneup.metrics import NodeScores
from tuneup.metrics.calibration import UNIT
from tuneup.names import Alpha
from tuneup.report.comparison import Standing, standings
from tuneup.report.summary import MODEL_TITLES, ClassSummary, Groups
from tuneup.report.verdict import verdict
from tuneup.tasks import NodeClassification
from tuneup.train import Result, TrainingRecord

from .problems import Problem
from .provenance import machine, versions
from .search import Trial


@dataclass(frozen=True, eq=False)
class Outcome:
    """A training of Base and TuneUp on a problem, with the scores of every model.

    Args:
        problem: what was trained on.
        result: both stages, and the average of them that was selected.
        alpha: share of edges that stage 2 dropped.
        record: of all that was trained; candidates for alpha are stages 2, 3, ...
        candidates: the trials that alpha was selected from; none if it was given.
    """

    problem: Problem
    result: Result
    alpha: Alpha
    record: TrainingRecord
    candidates: Sequence[Trial] = ()

    @property
    def floors(self) -> Sequence[Floor]:
        """Simple models to compare with, in the same settings."""
        return self.problem.floors

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """The models by name: Base, stage 2, the result and, where there is one, the control."""
        result = self.result
        found = {"base": result.copy(0), "stage-2": result.copy(1), "tuneup": result.best()}
        return found if result.control is None else {**found, "control": result.control.best()}

    @cached_property
    def models(self) -> dict[str, dict[str, NodeScores]]:
        """Scores of every model by setting."""
        return {name: self.problem.score(model) for name, model in self.modules.items()}

    @property
    def base(self) -> Mapping[str, NodeScores]:
        """Scores of Base by setting."""
        return self.models["base"]

    @property
    def tuneup(self) -> Mapping[str, NodeScores]:
        """Scores of the result by setting."""
        return self.models["tuneup"]

    @property
    def metric(self) -> str:
        """Name of the scores."""
        return next(iter(self.tuneup.values())).metric

    @cached_property
    def standings(self) -> list[Standing]:
        """All models beside the best simple one, group by group."""
        named = {MODEL_TITLES[name]: scores for name, scores in self.models.items()}
        return standings(named, {floor.title: floor.scores for floor in self.floors})

    @cached_property
    def classes(self) -> ClassSummary | None:
        """Measures, confusion and calibration of a classifier, else ``None``.

        Every model's probabilities are calibrated on validation nodes first; those of simple models
        are as they are.
        """
        task, settings = self.problem.task, self.problem.settings
        if not isinstance(task, NodeClassification):
            return None
        scored = [each for each in settings if isinstance(each, Setting) and each.nodes.numel()]
        temperatures = {name: task.temperature(model) for name, model in self.modules.items()}
        reports = {
            name: {
                each.name: each.report(model, temperatures[name], positive=task.positive)
                for each in scored
            }
            for name, model in self.modules.items()
        }
        before = {each.name: each.report(self.modules["tuneup"], UNIT) for each in scored}
        simple = {
            floor.title: {
                each.name: ClassReport.of(
                    floor.probabilities[each.name], each.y, each.degree, positive=task.positive
                )
                for each in scored
                if each.name in floor.probabilities
            }
            for floor in self.floors
            if floor.probabilities
        }
        return ClassSummary(
            task.metric,
            self.problem.classes or tuple(map(str, range(task.data.num_classes))),
            temperatures["tuneup"],
            {name: report.measures["calibration-error"] or 0.0 for name, report in before.items()},
            reports["tuneup"],
            {MODEL_TITLES[name]: _groups(own) for name, own in reports.items()},
            {title: _groups(own) for title, own in simple.items()},
        )

    @property
    def verdict(self) -> list[str]:
        """The outcome in sentences."""
        return verdict(self.result.record, self.standings, self.problem.unit, self.classes)

    def metrics(self, command: str, refit: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Data, settings, scores and training in values of JSON: the contents of ``metrics.json``.

        Args:
            command: what to type for the same run.
            refit: what a model was trained on again that was saved in the place of the result.
        """
        problem, encoder = self.problem, self.problem.setup.encoder
        data = {"graph": problem.name, **{k: f"{count:,}" for k, count in problem.sizes.items()}}
        if problem.graph_seed is not None:
            data["made by"] = f"a generator, from seed {problem.graph_seed}"
        chosen = ", chosen on validation" if self.candidates else ""
        first = problem.settings[0].name
        found: dict[str, Any] = {
            "task": problem.setup.task_name,
            "architecture": encoder.architecture,
            "unit": problem.unit,
            "command": command,
            "graph": problem.description,
            "data": data,
            "graph_seed": problem.graph_seed,
            "alpha": self.alpha,
            "configuration": {
                "share of links hidden in stage 2 (alpha)": (
                    f"{self.alpha}{chosen}" if chosen else self.alpha
                ),
                "layers": encoder.num_layers,
                "width": encoder.width,
                "dropout": encoder.dropout,
            },
            "metric": self.metric,
            "verdict": [*self.verdict, *([_refit_words(refit)] if refit else [])],
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
            "versions": versions(),
            "machine": machine(),
        }
        if self.classes is not None:
            found["classes"] = self.classes.to_json()
        if refit:
            found["refit"] = dict(refit)
        if self.candidates:
            found["selection"] = self._selection()
        return found

    def _selection(self) -> dict[str, Any]:
        """What was tried, what was chosen, and the seconds of all."""
        seed = self.result.record.seed
        trials = [
            {"point": dict(trial.point), "seed": seed, "score": trial.score}
            for trial in self.candidates
            if trial.score is not None
        ]
        seconds = sum(stage.seconds for stage in self.record.stages)
        return {"chosen": {"alpha": self.alpha}, "trials": trials, "seconds": seconds}


def _groups(reports: Mapping[str, ClassReport]) -> dict[str, Groups]:
    return {setting: report.groups for setting, report in reports.items()}


def _refit_words(refit: Mapping[str, Any]) -> str:
    """That the saved model is another than the one that was scored."""
    epochs = " and ".join(f"{count:,}" for count in refit["epochs"])
    return (
        f"The saved model was trained again on everything, {refit['examples']:,} examples, for "
        f"{epochs} epochs. All scores are of the model before: nothing is left to score it on."
    )


def _plain(mean: GroupMean) -> dict[str, float | None]:
    """A group's numbers for JSON, which has none for the mean of nothing."""
    return {key: None if math.isnan(value) else value for key, value in asdict(mean).items()}
