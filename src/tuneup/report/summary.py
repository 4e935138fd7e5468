"""Everything that is shown of a run: what terminal, verdict and page all read.

Whoever trained or read a run makes a :class:`RunSummary` of it.  Everything that a run may lack has
a default; what is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE, ClassGroup, ClassReport
from tuneup.metrics import NodeScores, Temperature
from tuneup.train import TrainingRecord

from .comparison import BASE, RESULT, Row, score_rows
from .table import metric_words

_HEADLINES = (RESULT, "TuneUp")
"""What a headline is about: the result of a fit, or else the method."""

Curve = Sequence[tuple[int, int, float, float | None]]
"""A training epoch by epoch: (stage, epoch, loss, validation score or None)."""

Groups = Mapping[str, ClassGroup]
"""Measures by group of nodes."""


@dataclass(frozen=True)
class StageSummary:
    """One stage of one training: ``words`` says what it does, in plain words."""

    words: str
    epochs: int
    best_epoch: int
    best_score: float | None
    stopped: str = ""


@dataclass(frozen=True)
class TrialSummary:
    """One training that settings were chosen by."""

    point: Mapping[str, object]
    seed: int
    score: float
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class SeedRun:
    """One training of a method, from one seed.

    Args:
        seed: of the training.
        scores: one score per node, by setting.
        curve: (stage, epoch, loss, validation score or None), epoch by epoch.
        stages: how each stage went.
        winner: stage whose state was selected.
        seconds: spent in training; None where that is not known.
    """

    seed: int
    scores: Mapping[str, NodeScores]
    curve: Curve = ()
    stages: Sequence[StageSummary] = ()
    winner: int = 0
    seconds: float | None = None

    @property
    def guarded(self) -> bool:
        """Whether later stages were tried and thrown away for the first one's state."""
        return len(self.stages) > 1 and self.winner == 0


@dataclass(frozen=True, eq=False)
class MethodSummary:
    """A method with all its trainings; ``settings`` are those that were chosen for it."""

    name: str
    runs: Sequence[SeedRun]
    settings: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[TrialSummary] = ()

    def scores(self, setting: str) -> list[NodeScores]:
        """Those of each training that has the setting and nodes in it."""
        found = (run.scores[setting] for run in self.runs if setting in run.scores)
        return [scores for scores in found if len(scores)]

    @property
    def settings_scored(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(name for run in self.runs for name in run.scores))

    @property
    def by_setting(self) -> dict[str, dict[int, NodeScores]]:
        """Scores by setting and training seed."""
        return {
            name: {run.seed: run.scores[name] for run in self.runs if name in run.scores}
            for name in self.settings_scored
        }

    @property
    def seeds(self) -> list[int]:
        """Training seeds of its runs."""
        return [run.seed for run in self.runs]


@dataclass(frozen=True)
class ClassSummary:
    """Class by class: measures of every model, confusion and calibration of the result.

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

    def rows(self) -> Iterator[Row]:
        """Every group of every setting that has nodes, by the metric; gains are not tested."""
        for setting, groups in next(iter(self.models.values())).items():
            for group, found in groups.items():
                if not found.nodes:
                    continue
                models, floors = (
                    {
                        name: own[setting][group].measures[self.metric]
                        for name, own in named.items()
                        if setting in own
                    }
                    for named in (self.models, self.floors)
                )
                known = {title: score for title, score in floors.items() if score is not None}
                best = max(known, key=lambda title: known[title], default="")
                yield Row(setting, group, found.nodes, models, {}, best, known.get(best))

    def confusions(self, setting: str) -> list[tuple[int, str, str]]:
        """(count, true class, predicted class) of all mistakes, the commonest first."""
        found = [
            (count, self.names[true], self.names[predicted])
            for true, row in enumerate(self.result[setting].confusion)
            for predicted, count in enumerate(row)
            if count and true != predicted
        ]
        return sorted(found, key=lambda each: -each[0])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "names": list(self.names)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ClassSummary:
        """The inverse of :meth:`to_json`, also after JSON."""
        models, floors = (
            {
                name: {
                    setting: {group: ClassGroup(**found) for group, found in groups.items()}
                    for setting, groups in settings.items()
                }
                for name, settings in plain[kind].items()
            }
            for kind in ("models", "floors")
        )
        return cls(
            plain["metric"],
            tuple(plain["names"]),
            Temperature(**plain["temperature"]),
            plain["uncalibrated"],
            {setting: ClassReport.from_json(each) for setting, each in plain["result"].items()},
            models,
            floors,
        )


@dataclass(frozen=True, eq=False)
class RunSummary:
    """Everything that one page, or one column of a comparison, shows.

    Args:
        title: what to call it, short.
        task: node-classification, link-prediction or recommendation.
        architecture: of the encoder.
        metric: of all scores.
        methods: Base first, where there is one.
        unit: what is scored, in the plural.
        data: facts about the graph, by name.
        configuration: settings that all methods share, by name.
        command: what to type to get this run again; empty if nobody knows.
        versions: of the software, by name.
        machine: what it ran on, by name.
        tail_degree: a tail node has at most this many edges.
        floors: scores of simple models by title and setting.
        verdict: what came out, in sentences.
        record: of the training, where there was a single one.
        classes: measures, confusion and calibration of a classifier.
        reason: why a classifier is judged by another measure than accuracy.
    """

    title: str
    task: str
    architecture: str
    metric: str
    methods: Sequence[MethodSummary]
    unit: str = "nodes"
    data: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    tail_degree: int = TAIL_DEGREE
    floors: Mapping[str, Mapping[str, NodeScores]] = field(default_factory=dict)
    verdict: Sequence[str] = ()
    record: TrainingRecord | None = None
    classes: ClassSummary | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not any(method.settings_scored for method in self.methods):
            raise InputError(f"{self.title}: no method has scores; expected at least one that has")
        if len(set(names)) < len(names):
            raise InputError(f"{self.title}: names of methods must be unique, got {names}")
        runs = [run for method in self.methods for run in method.runs]
        others = {each.metric for run in runs for each in run.scores.values()} - {self.metric}
        if others:
            raise InputError(
                f"{self.title}: a report shows one metric, {self.metric}; "
                f"some scores are {', '.join(sorted(others))}"
            )

    @property
    def by_class(self) -> bool:
        """Whether models are judged by another measure than the score per node."""
        return self.classes is not None and self.classes.metric != self.metric

    @property
    def measure(self) -> str:
        """What models are judged by, in words."""
        return self.classes.score_words if self.classes and self.by_class else self.metric

    @property
    def selected_by(self) -> str:
        """The validation score, in words."""
        return self.metric if self.classes is None else metric_words(self.classes.metric)

    @cached_property
    def score_rows(self) -> list[Row]:
        """The models group by group, by their scores per node."""
        models = {method.name: method.by_setting for method in self.methods}
        return score_rows(models, self.floors, self.tail_degree)

    @cached_property
    def rows(self) -> list[Row]:
        """The models group by group, by :attr:`measure`."""
        return [*self.classes.rows()] if self.classes and self.by_class else self.score_rows

    @property
    def base(self) -> MethodSummary | None:
        """What the others are compared with."""
        return next((method for method in self.methods if method.name == BASE), None)

    @property
    def focus(self) -> MethodSummary:
        """What the headline is about."""
        named = (method for method in self.methods if method.name in _HEADLINES)
        return next(named, self.methods[-1])

    @property
    def settings(self) -> list[str]:
        """All that any method was scored in, in order of appearance."""
        return list(dict.fromkeys(s for method in self.methods for s in method.settings_scored))

    @property
    def seeds(self) -> list[int]:
        """Of all trainings."""
        return sorted({seed for method in self.methods for seed in method.seeds})
