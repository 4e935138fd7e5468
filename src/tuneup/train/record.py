"""What a run leaves behind: curves, why each stage stopped, and which one won."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from tuneup.names import Selection

_NEVER = float("-inf")
"""Best score of a stage that was never validated: JSON has no such number."""


@dataclass(frozen=True)
class Epoch:
    """One epoch of a stage (counted from 1); ``score`` is ``None`` where it was not validated."""

    epoch: int
    loss: float
    score: float | None
    lr: float
    seconds: float


@dataclass
class StageRecord:
    """One stage as it went."""

    stage: int
    module: str
    description: str
    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = _NEVER
    stopped: str = ""
    """why it stopped: "ran all epochs", or which patience ran out when"""
    pseudo_labels: int = 0
    """how many nodes were pseudo-labelled before its first epoch"""
    metric: str = ""
    """name of its score, if that is not the task's"""
    unfinished: bool = False
    """whether its epochs ended while it was still improving"""
    digest: str = ""
    """of everything that decided its weights: see :mod:`tuneup.train.digests`"""

    @property
    def seconds(self) -> float:
        """Time spent in updates and validation."""
        return sum(epoch.seconds for epoch in self.epochs)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists; a stage that was never validated has no best score."""
        best = None if self.best_score == _NEVER else self.best_score
        return {**asdict(self), "best_score": best}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StageRecord:
        """The inverse of :meth:`to_json`."""
        best = _NEVER if data["best_score"] is None else data["best_score"]
        epochs = [Epoch(**epoch) for epoch in data["epochs"]]
        return cls(**{**data, "epochs": epochs, "best_score": best})


@dataclass(frozen=True)
class Dial:
    """Validation of the averages ``(1 - w) Base + w stage 2``, and the one that was selected.

    Attributes:
        weights: the values of w, ascending from 0 (Base) to 1 (stage 2).
        scores: the selection's score of each.
        by_ratio: the score of each by share of the validation nodes' removed edges.
        chosen: the selected w.
        ends_only: why nothing between the ends was tried; empty where it was.
    """

    weights: tuple[float, ...]
    scores: tuple[float, ...]
    by_ratio: Mapping[float, tuple[float, ...]]
    chosen: float
    ends_only: str = ""

    @property
    def score(self) -> float:
        """Of the selected average."""
        return self.scores[self.weights.index(self.chosen)]

    def to_json(self) -> dict[str, Any]:
        """Plain lists; ratios become texts."""
        return {
            "weights": list(self.weights),
            "scores": list(self.scores),
            "by_ratio": {str(ratio): list(scores) for ratio, scores in self.by_ratio.items()},
            "chosen": self.chosen,
            "ends_only": self.ends_only,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Dial:
        """The inverse of :meth:`to_json`."""
        by_ratio = {float(ratio): tuple(each) for ratio, each in data["by_ratio"].items()}
        weights, scores = tuple(data["weights"]), tuple(data["scores"])
        return cls(weights, scores, by_ratio, data["chosen"], data["ends_only"])


@dataclass
class TrainingRecord:
    """All stages of a run, and the stage whose best state it returned."""

    seed: int
    metric: str
    stages: list[StageRecord] = field(default_factory=list)
    winner: int = 0
    """stage whose best state is the result; of averaged weights, the last one averaged"""
    validation: float | None = None
    """the task's validation score of the result, once there is one"""
    selection: Selection = "transductive"
    """which copies of the validation nodes scores are averaged over"""
    dial: Dial | None = None
    """how averages of the first and the last stage validated, where these were tried"""

    @property
    def weight(self) -> float:
        """Share of the last stage's weights in the result: 0 is Base, 1 is stage 2."""
        if self.dial is not None:
            return self.dial.chosen
        return 1.0 if self.winner else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        stages = [stage.to_json() for stage in self.stages]
        dial = None if self.dial is None else self.dial.to_json()
        return {**asdict(self), "stages": stages, "dial": dial}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainingRecord:
        """The inverse of :meth:`to_json`."""
        stages = [StageRecord.from_json(stage) for stage in data["stages"]]
        dial = None if data.get("dial") is None else Dial.from_json(data["dial"])
        return cls(**{**data, "stages": stages, "dial": dial})

    def curves(self) -> list[tuple[int, int, float, float | None]]:
        """``(stage, epoch, loss, score)`` of every epoch, without the timings."""
        return [(s.stage, e.epoch, e.loss, e.score) for s in self.stages for e in s.epochs]


State = dict[str, Tensor]
"""A module's parameters and buffers by name."""
