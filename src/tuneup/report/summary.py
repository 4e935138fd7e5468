"""Everything that a page shows of a run.

Whoever trained or read a run makes a :class:`RunSummary` of it, and :mod:`tuneup.report.page` draws
it.  Everything that a run may lack has a default; the page leaves out what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE, ClassGroup, ClassReport
from tuneup.metrics import NodeScores, Temperature
from tuneup.train import Dial

from .words import metric_words

BASE, STAGE_2, RESULT, CONTROL = "Base", "Stage 2", "TuneUp", "Base, longer"
"""Titles of a fit's models.  TuneUp is the selected result, and what a page's headline is about."""

MODEL_TITLES = {"base": BASE, "stage-2": STAGE_2, "tuneup": RESULT, "control": CONTROL}
"""The same by their names in files, in the order of tables."""

Curve = Sequence[tuple[int, int, float, float | None]]
"""A training epoch by epoch: (stage, epoch, loss, validation score or None)."""

Groups = Mapping[str, ClassGroup]
"""Measures by group of nodes: "overall", "isolated", "tail" and "head"."""


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

    def scores(self, setting: str, seeds: Sequence[int] | None = None) -> list[NodeScores]:
        """One per training that has the setting, all or those of ``seeds`` in their order."""
        found = {run.seed: run.scores[setting] for run in self.runs if setting in run.scores}
        return [found[seed] for seed in (found if seeds is None else seeds) if seed in found]

    @property
    def settings_scored(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(name for run in self.runs for name in run.scores))

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
        dial: how averages of Base and stage 2 validated, where these were tried.
        classes: measures, confusion and calibration of a classifier.
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
    dial: Dial | None = None
    classes: ClassSummary | None = None

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not any(method.settings_scored for method in self.methods):
            raise InputError(f"{self.title}: no method has scores; expected at least one that has")
        if len(set(names)) < len(names):
            raise InputError(f"{self.title}: names of methods must be unique, got {names}")
        others = {
            scores.metric
            for method in self.methods
            for run in method.runs
            for scores in run.scores.values()
        } - {self.metric}
        if others:
            raise InputError(
                f"{self.title}: a report shows one metric, {self.metric}; "
                f"some scores are {', '.join(sorted(others))}"
            )

    @property
    def selected_by(self) -> str:
        """The validation score, in words."""
        return self.metric if self.classes is None else metric_words(self.classes.metric)

    @property
    def base(self) -> MethodSummary | None:
        """What the others are compared with."""
        return next((method for method in self.methods if method.name == BASE), None)

    @property
    def focus(self) -> MethodSummary:
        """What the headline is about."""
        named = (method for method in self.methods if method.name == RESULT)
        return next(named, self.methods[-1])

    @property
    def settings(self) -> list[str]:
        """All that any method was scored in, in order of appearance."""
        return list(dict.fromkeys(s for method in self.methods for s in method.settings_scored))

    @property
    def seeds(self) -> list[int]:
        """Of all trainings."""
        return sorted({seed for method in self.methods for seed in method.seeds})
