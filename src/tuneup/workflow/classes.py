"""The class-by-class summary of the models of a fit, and of the simple ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from tuneup.evaluation import ClassReport, Floor, Setting
from tuneup.metrics.calibration import UNIT
from tuneup.report.classes import ClassSummary, Groups
from tuneup.report.standings import NAMES
from tuneup.tasks import NodeClassification

from .problems import Problem


def class_summary(
    problem: Problem, models: Mapping[str, nn.Module], floors: Sequence[Floor]
) -> ClassSummary | None:
    """Of every model in every setting with nodes; ``None`` where no classes are predicted.

    Every model's probabilities are calibrated on validation nodes first.

    Args:
        problem: what the models were trained on.
        models: by their names in files; "tuneup" is the result.
        floors: simple models, in the same settings.
    """
    task = problem.task
    if not isinstance(task, NodeClassification):
        return None
    settings = [each for each in problem.settings if isinstance(each, Setting)]
    settings = [each for each in settings if each.nodes.numel()]
    temperatures = {name: task.temperature(model) for name, model in models.items()}
    reports = {
        name: {
            each.name: each.report(model, temperatures[name], positive=task.positive)
            for each in settings
        }
        for name, model in models.items()
    }
    before = {each.name: each.report(models["tuneup"], UNIT) for each in settings}
    simple = {
        floor.title: {
            each.name: ClassReport.of(
                floor.probabilities[each.name], each.y, each.degree, positive=task.positive
            )
            for each in settings
            if each.name in floor.probabilities
        }
        for floor in floors
        if floor.probabilities
    }
    return ClassSummary(
        task.metric,
        problem.classes or tuple(map(str, range(task.data.num_classes))),
        temperatures["tuneup"],
        {name: report.measures["calibration-error"] or 0.0 for name, report in before.items()},
        reports["tuneup"],
        {NAMES[name]: _groups(own) for name, own in reports.items()},
        {title: _groups(own) for title, own in simple.items()},
    )


def _groups(reports: Mapping[str, ClassReport]) -> dict[str, Groups]:
    return {setting: report.groups for setting, report in reports.items()}
