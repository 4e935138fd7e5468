"""The section of node classification: measures of every model, confusion, and calibration."""

from __future__ import annotations

from collections.abc import Sequence

from tuneup.evaluation import MISSING, ClassGroup, ClassReport
from tuneup.evaluation.classes import MEASURES
from tuneup.report.classes import ClassSummary
from tuneup.report.labels import metric_words
from tuneup.report.standings import RESULT
from tuneup.report.summary import RunSummary

from .markup import Html, table, tag
from .scores import group_label
from .sections import section
from .words import percent, setting_words

_MOST = 12
"""Classes up to which the whole confusion table is shown; of more, the commonest confusions."""


def classes(run: RunSummary) -> Html:
    """All tables; nothing where no classes are predicted."""
    found = run.classes
    if found is None:
        return Html("")
    setting = next(iter(found.result))
    where, report = setting_words(setting, run.unit), found.result[setting]
    said = (
        f"Accuracy hardly counts rare classes. The result was selected by {found.score_words}. "
        "Measures of classes count every class the same. Log loss and calibration error say how "
        "far the probabilities are from what happens: for these two, less is better."
    )
    return section(
        "classes",
        "Class by class",
        tag("p", said),
        _models(found, run.unit),
        _measures(found, run.unit),
        tag("h3", f"Classes of {where}"),
        _rows(found, report, where),
        _confusion(found, report, where),
        tag("h3", "Can the probabilities be believed?"),
        tag("p", _temperature_words(found)),
        _bins(report, where),
    )


def _models(found: ClassSummary, unit: str) -> Html:
    """The metric of every model and of the best simple one."""
    body = []
    for setting in found.result:
        for group in found.models[RESULT][setting]:
            if not found.models[RESULT][setting][group].nodes:
                continue
            floor = found.best_floor(setting, group)
            best = MISSING
            if floor is not None:
                best = f"{_share(found.score(floor, setting, group))} {floor}"
            body.append(
                [
                    group_label(setting, group, unit),
                    f"{found.models[RESULT][setting][group].nodes:,}",
                    *(_share(found.score(model, setting, group)) for model in found.models),
                    *([best] if found.floors else []),
                ]
            )
    head = ["", unit, *found.models, *(["best simple model"] if found.floors else [])]
    caption = f"{_capital(found.score_words)} of every model"
    return table(head, body, caption, "scores standings")


def _measures(found: ClassSummary, unit: str) -> Html:
    body = [
        [
            tag("strong", setting_words(setting, unit)),
            *(_measure(report.groups["overall"], name) for name in MEASURES),
        ]
        for setting, report in found.result.items()
    ]
    head = ["", *(metric_words(name) for name in MEASURES)]
    return table(head, body, f"All measures of {RESULT}", "numbers")


def _rows(found: ClassSummary, report: ClassReport, where: str) -> Html:
    body = [
        [name, f"{row.nodes:,}", _share(row.precision), _share(row.recall)]
        for name, row in zip(found.names, report.classes, strict=True)
    ]
    head = ["class", "nodes", "precision", "recall"]
    return table(
        head,
        body,
        f"Each class of {where}: how many predictions are right, and how many "
        "of its nodes are found",
        "numbers",
    )


def _confusion(found: ClassSummary, report: ClassReport, where: str) -> Html:
    if len(found.names) <= _MOST:
        body: list[Sequence[object]] = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(found.names, report.confusion, strict=True)
        ]
        head = ["true class", *(f"as {name}" for name in found.names)]
        return table(head, body, f"Confusion: {where} by true and by predicted class", "numbers")
    cells = [
        (count, true, said)
        for true, row in enumerate(report.confusion)
        for said, count in enumerate(row)
        if count and true != said
    ]
    cells.sort(key=lambda cell: (-cell[0], cell[1:]))
    body = [
        [found.names[true], found.names[said], f"{count:,}"] for count, true, said in cells[:_MOST]
    ]
    head = ["true class", "predicted class", "nodes"]
    return table(head, body, f"The commonest confusions among {where}", "numbers")


def _temperature_words(found: ClassSummary) -> str:
    used = found.temperature
    errors = {name: each.measures["calibration-error"] for name, each in found.result.items()}
    first = next(iter(errors))
    before, after = percent(found.uncalibrated[first]), _share(errors[first])
    return (
        f"Probabilities are divided by a temperature that was fitted on validation data: "
        f"{used.connected:.2f} for those with links and {used.isolated:.2f} for those without. "
        f"Where the model says 80 %, it should be right in 80 of 100 cases; on average it is off "
        f"by {after} (before: {before}). Predictions of a saved model are calibrated the same way."
    )


def _bins(report: ClassReport, where: str) -> Html:
    body = [
        [percent(each.confidence), percent(each.accuracy), f"{each.count:,}"]
        for each in report.calibration
    ]
    head = ["says", "is right", "nodes"]
    numbers = table(head, body, f"Confidence and accuracy of {where}", "numbers")
    return tag("details", tag("summary", "Confidence and accuracy, bin by bin"), numbers)


def _measure(group: ClassGroup, name: str) -> str:
    value = group.measures[name]
    if name == "log-loss":
        return MISSING if value is None else f"{value:.3f}"
    return _share(value)


def _share(value: float | None) -> str:
    return MISSING if value is None else percent(value)


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
