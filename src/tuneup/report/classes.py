"""Class by class: what a fit of node classification shows beside the accuracy of each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuneup.evaluation import ClassGroup, ClassReport
from tuneup.metrics import Temperature

from .labels import metric_words, setting_words
from .standings import RESULT

Groups = Mapping[str, ClassGroup]
"""Measures by group of nodes: "overall", "isolated", "tail" and "head"."""


@dataclass(frozen=True)
class ClassSummary:
    """The measures of every model, and the confusion and the calibration of the result.

    Args:
        metric: validation score that the result was selected by.
        names: of the classes.
        temperature: what the result's logits are divided by.
        uncalibrated: the result's calibration error by setting, before that.
        result: report of the result by setting.
        models: measures by model, setting and group; each model with temperatures of its own.
        floors: the same of simple models, whose probabilities are as they are.
    """

    metric: str
    names: tuple[str, ...]
    temperature: Temperature
    uncalibrated: Mapping[str, float]
    result: Mapping[str, ClassReport]
    models: Mapping[str, Mapping[str, Groups]]
    floors: Mapping[str, Mapping[str, Groups]]

    @property
    def positive(self) -> str | None:
        """Of two classes the name of the one to find."""
        number = next(iter(self.result.values())).positive
        return None if number is None else self.names[number]

    @property
    def score_words(self) -> str:
        """``"average precision of class fraud"``: what models are compared by."""
        words = metric_words(self.metric)
        one = self.metric in ("average-precision", "auroc") and self.positive is not None
        return f"{words} of class {self.positive}" if one else words

    def score(self, model: str, setting: str, group: str = "overall") -> float | None:
        """A model's or a floor's measure of the metric."""
        found = {**self.models, **self.floors}[model][setting][group]
        return found.measures[self.metric]

    def best_floor(self, setting: str, group: str = "overall") -> str | None:
        """The simple model with the best measure; ``None`` if none has one."""
        found = {
            name: score
            for name, own in self.floors.items()
            if setting in own and (score := self.score(name, setting, group)) is not None
        }
        return max(found, key=lambda name: found[name], default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        return {**plain, "names": list(self.names)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ClassSummary:
        """The inverse of :meth:`to_json`, also after JSON."""
        return cls(
            plain["metric"],
            tuple(plain["names"]),
            Temperature(**plain["temperature"]),
            plain["uncalibrated"],
            {setting: ClassReport.from_json(each) for setting, each in plain["result"].items()},
            _groups(plain["models"]),
            _groups(plain["floors"]),
        )


def _groups(plain: Mapping[str, Any]) -> dict[str, dict[str, dict[str, ClassGroup]]]:
    return {
        name: {
            setting: {group: ClassGroup(**found) for group, found in groups.items()}
            for setting, groups in settings.items()
        }
        for name, settings in plain.items()
    }


def floor_words(summary: ClassSummary, unit: str) -> Iterator[str]:
    """Where a simple model has a better score than the result, or that none has."""
    rows = []
    for setting in summary.result:
        floor, own = summary.best_floor(setting), summary.score(RESULT, setting)
        if floor is not None and own is not None:
            theirs = summary.score(floor, setting)
            assert theirs is not None
            rows.append(
                (own - theirs, floor, setting, f"{_percent(theirs)} against {_percent(own)}")
            )
    above = [row for row in rows if row[0] < 0]
    for _, floor, setting, both in above:
        yield (
            f"A simple model has a better {summary.score_words} on {setting_words(setting, unit)}: "
            f"{floor}, {both}."
        )
    if rows and not above:
        lead, floor, setting, _ = min(rows)
        yield (
            f"A better {summary.score_words} than every simple model in every setting: the least "
            f"lead is {100 * lead:+.1f} points over {floor} on {setting_words(setting, unit)}."
        )


def found_words(summary: ClassSummary, unit: str) -> str:
    """How many nodes of the class to find are found in the first setting."""
    setting, report = next(iter(summary.result.items()))
    if report.positive is None:
        return ""
    row, name = report.classes[report.positive], summary.positive
    hits = report.confusion[report.positive][report.positive]
    said = sum(line[report.positive] for line in report.confusion)
    return (
        f"Of {row.nodes:,} {setting_words(setting, unit)} of class {name}, {hits:,} are predicted "
        f"as {name}; {said - hits:,} others are too."
    )


def calibration_words(summary: ClassSummary, unit: str) -> str:
    """The calibration error of the result, before and after."""
    parts = []
    for setting in summary.result:
        own = summary.result[setting].measures["calibration-error"]
        if own is not None:
            before = _percent(summary.uncalibrated[setting])
            parts.append(f"{_percent(own)} on {setting_words(setting, unit)} (before: {before})")
    first_and_last = dict.fromkeys([*parts[:1], *parts[-1:]])
    return f"Calibration error of the probabilities: {', '.join(first_and_last)}."


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
