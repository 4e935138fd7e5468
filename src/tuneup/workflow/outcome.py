"""A finished fit: scores of Base, stage 2, the result and simple models, and its summary."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from torch import nn

from tuneup.curriculum import SyntheticTails, View, full, tails
from tuneup.evaluation import ClassReport, Floor, Setting, head_tail
from tuneup.methods import in_order, title_of
from tuneup.metrics import NodeScores
from tuneup.metrics.calibration import UNIT
from tuneup.names import Alpha
from tuneup.report.comparison import MODEL_TITLES
from tuneup.report.summary import (
    ClassSummary,
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)
from tuneup.report.verdict import verdict
from tuneup.runtime import machine, versions
from tuneup.tasks import NodeClassification
from tuneup.train import Result, TrainingRecord
from tuneup.train.result import StageRecord

from .problems import Problem
from .search import Trial

Scores = Mapping[str, Mapping[str, NodeScores]]
"""Scores by model and setting."""

_DERIVED = ("stage-2", "control")
"""Models whose stages and curves are shown with others."""


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
    def floors(self) -> Sequence[Floor]:
        """Simple models to compare with, in the same settings."""
        return self.problem.floors

    @property
    def floor_scores(self) -> Scores:
        """Those of simple models, by name and setting."""
        return {floor.name: floor.scores for floor in self.floors if floor.scores}

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
        models, floors = (
            {
                title: {setting: report.groups for setting, report in own.items()}
                for title, own in named.items()
            }
            for named in ({MODEL_TITLES[name]: own for name, own in reports.items()}, simple)
        )
        return ClassSummary(
            task.metric,
            self.problem.classes or tuple(map(str, range(task.data.num_classes))),
            temperatures["tuneup"],
            {name: report.measures["calibration-error"] or 0.0 for name, report in before.items()},
            reports["tuneup"],
            models,
            floors,
        )

    @cached_property
    def summary(self) -> RunSummary:
        """What a terminal shows, and a page."""
        found = run_summary(self._facts, self.models, self.floor_scores)
        return replace(found, verdict=verdict(found))

    def metrics(self, command: str, refit: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Data, settings, scores and training in values of JSON: the contents of ``metrics.json``.

        Args:
            command: what to type for the same run.
            refit: what a model was trained on again that was saved in the place of the result.
        """
        found = {**self._facts, "command": command, "verdict": [*self.summary.verdict]}
        if refit:
            found["refit"] = dict(refit)
            found["verdict"].append(_refit_words(refit))
        return found

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """All metrics that are known without a verdict."""
        problem, encoder = self.problem, self.problem.setup.encoder
        data = {"graph": problem.name, **{k: f"{count:,}" for k, count in problem.sizes.items()}}
        if problem.graph_seed is not None:
            data["made by"] = f"a generator, from seed {problem.graph_seed}"
        first = problem.settings[0].name
        found: dict[str, Any] = {
            "task": problem.setup.task_name,
            "architecture": encoder.architecture,
            "unit": problem.unit,
            "graph": problem.description,
            "data": data,
            "graph_seed": problem.graph_seed,
            "alpha": self.alpha,
            "configuration": {
                "share of links hidden in stage 2 (alpha)": (
                    f"{self.alpha}, chosen on validation" if self.candidates else self.alpha
                ),
                "layers": encoder.num_layers,
                "width": encoder.width,
                "dropout": encoder.dropout,
            },
            "metric": next(iter(self.tuneup.values())).metric,
            "floors": {f.title: f.scores[first].mean() for f in self.floors if first in f.scores},
            "simple": {floor.name: floor.title for floor in self.floors if floor.scores},
            "scores": {
                method: {
                    name: {
                        group: {
                            key: None if math.isnan(value) else value  # JSON has no NaN
                            for key, value in asdict(mean).items()
                        }
                        for group, mean in head_tail(score).items()
                    }
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
            found["reason"] = problem.reason
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


def _refit_words(refit: Mapping[str, Any]) -> str:
    """That the saved model is another than the one that was scored."""
    epochs = " and ".join(f"{count:,}" for count in refit["epochs"])
    return (
        f"The saved model was trained again on everything, {refit['examples']:,} examples, for "
        f"{epochs} epochs. All scores are of the model before: nothing is left to score it on."
    )


def run_summary(metrics: Mapping[str, Any], models: Scores, floors: Scores) -> RunSummary:
    """A run as its page shows it.

    Args:
        metrics: the contents of ``metrics.json``.
        models: scores of every model.
        floors: scores of simple models.
    """
    training = TrainingRecord.from_json(metrics["training"])
    task, architecture = str(metrics["task"]), str(metrics["architecture"])
    selection = metrics.get("selection") or {"trials": ()}
    trials = [
        TrialSummary(
            dict(trial["point"]),
            int(trial["seed"]),
            float(trial["score"]),
            trial["point"] == selection["chosen"],
        )
        for trial in selection["trials"]
    ]
    options = metrics.get("options", {})
    alpha, whole = options.get("alpha", metrics.get("alpha")), options.get("whole", False)
    views: dict[int, tuple[View, ...]] = {}
    if alpha is not None:
        views = {0: (full,), 1: (full, tails(alpha)) if whole else (tails(alpha),)}
    stages = [_stage(stage, views.get(stage.stage, ())) for stage in training.stages]
    data, configuration, known_versions = (
        {str(key): str(value) for key, value in metrics.get(name, {}).items()}
        for name in ("data", "configuration", "versions")
    )
    if not data and "graph" in metrics:
        data = {"graph": str(metrics["graph"])}
    title = f"{data.get('graph', 'run')}, {architecture}, {task.replace('-', ' ')}"
    return RunSummary(
        title=str(metrics.get("title") or title),
        methods=[
            MethodSummary(
                MODEL_TITLES.get(name) or title_of(name),
                [_seed_run(name, training, stages, models[name], selection.get("seconds"))],
                trials=() if name in ("base", *_DERIVED) else trials,
            )
            for name in _ordered(models)
        ],
        unit=str(metrics.get("unit") or unit_of(task)),
        data=data,
        configuration=configuration,
        command=str(metrics.get("command") or ""),
        versions=known_versions,
        machine=machine_words(metrics.get("machine", {})),
        task=task,
        architecture=architecture,
        metric=str(metrics["metric"]),
        floors={str(metrics["simple"][name]): floors[name] for name in _ordered(floors)},
        verdict=[str(line) for line in metrics.get("verdict", [])],
        record=training,
        classes=ClassSummary.from_json(metrics["classes"]) if "classes" in metrics else None,
        reason=str(metrics.get("reason") or ""),
    )


def unit_of(task: str) -> str:
    """What a task scores, in the plural."""
    return "users" if task == "recommendation" else "nodes"


def stage_words(views: Sequence[View], pseudo_labels: int = 0) -> str:
    """What a stage does, for readers who know no GNN.

    Args:
        views: of its graph; none if they are not known.
        pseudo_labels: how many nodes it has pseudo-labels of.
    """
    dropping = next((view for view in views if isinstance(view, SyntheticTails)), None)
    if dropping is not None and dropping.alpha == "graded":
        words = "practice with another share of each node's links hidden in every round"
    elif dropping is not None:
        share = 100 * float(dropping.alpha)
        words = f"practice with {share:g} % of all links hidden at random in every round"
    elif views and all(view == full for view in views):
        words = "ordinary training on the whole graph"
    else:
        words = "training on changed graphs" if views else "training"
    if pseudo_labels:  # a stage may ask for them and its task have none
        words += f", with {pseudo_labels:,} of the model's own best guesses as extra examples"
    return words


def machine_words(machine: Mapping[str, Any]) -> dict[str, str]:
    """Facts about the machine of a record, with units."""
    words = {str(key): str(value) for key, value in machine.items() if key != "peak_rss"}
    if machine.get("peak_rss"):
        words["peak memory"] = f"{machine['peak_rss'] / 2**30:.1f} GiB"
    return words


def _ordered(names: Collection[str]) -> list[str]:
    """Models of a fit first, then methods as tables show them."""
    ours = [name for name in MODEL_TITLES if name in names]
    return [*ours, *in_order({*names} - MODEL_TITLES.keys())]


def _seed_run(
    name: str,
    training: TrainingRecord,
    stages: Sequence[StageSummary],
    scores: Mapping[str, NodeScores],
    seconds: float | None,
) -> SeedRun:
    """One model's part of a training; ``seconds`` are those of its selection, if there was one."""
    if name in _DERIVED:
        return SeedRun(training.seed, scores)
    count = 1 if name == "base" else len(stages)
    own = sum(stage.seconds for stage in training.stages[:count])
    return SeedRun(
        training.seed,
        scores,
        [point for point in training.curves() if point[0] < count],
        stages[:count],
        0 if name == "base" else training.winner,
        own if name == "base" or seconds is None else seconds,
    )


def _stage(stage: StageRecord, views: Sequence[View]) -> StageSummary:
    return StageSummary(
        stage_words(views, stage.pseudo_labels),
        len(stage.epochs),
        stage.best_epoch,
        stage.best_score if stage.best_epoch else None,
        stage.stopped,
    )
