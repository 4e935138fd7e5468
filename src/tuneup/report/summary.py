"""What a page tells about a run: the seam between whoever ran something and the page.

A reader (those of this package are in ``tuneup.workflow.run_folders``) makes a
:class:`RunSummary`, the page (:mod:`tuneup.report.page`) draws it, and neither knows more of the
other.  Everything that a run may lack has a default; the page leaves out what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE
from tuneup.metrics import NodeScores
from tuneup.report.classes import ClassSummary
from tuneup.report.curves import Curve
from tuneup.report.labels import metric_words
from tuneup.train import Dial

BASE = "Base"
"""The method that others are compared with, where a run has it."""

FOCUS = "TuneUp"
"""The method that the headline is about, where a run has it; otherwise the last one."""


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
        winner: stage whose state was kept.
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
            raise InputError(f"{self.title}: a report needs a method with scores, this has none")
        if len(set(names)) < len(names):
            raise InputError(f"{self.title}: methods must have names of their own, got {names}")
        strange = {
            scores.metric
            for method in self.methods
            for run in method.runs
            for scores in run.scores.values()
        } - {self.metric}
        if strange:
            raise InputError(
                f"{self.title}: a report shows one metric, {self.metric}; "
                f"some scores are {', '.join(sorted(strange))}"
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
        named = (method for method in self.methods if method.name == FOCUS)
        return next(named, self.methods[-1])

    @property
    def settings(self) -> list[str]:
        """All that any method was scored in, in order of appearance."""
        return list(dict.fromkeys(s for method in self.methods for s in method.settings_scored))

    @property
    def seeds(self) -> list[int]:
        """Of all trainings."""
        return sorted({seed for method in self.methods for seed in method.seeds})
