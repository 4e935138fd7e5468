"""What a run leaves behind: curves, why each stage stopped, and which one won."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

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

    @property
    def seconds(self) -> float:
        """Time spent in updates and validation."""
        return sum(epoch.seconds for epoch in self.epochs)


@dataclass
class TrainingRecord:
    """All stages of a run, and the stage whose best state it returned."""

    seed: int
    metric: str
    stages: list[StageRecord] = field(default_factory=list)
    winner: int = 0
    """stage whose best state validated best (the later one on a tie)"""
    validation: float | None = None
    """the task's validation score of the result, once there is one"""

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists; a stage that was never validated has no best score."""
        plain = asdict(self)
        for stage in plain["stages"]:
            if stage["best_score"] == _NEVER:
                stage["best_score"] = None
        return plain

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrainingRecord:
        """The inverse of :meth:`to_json`."""
        stages = []
        for stage in data["stages"]:
            best = _NEVER if stage["best_score"] is None else stage["best_score"]
            epochs = [Epoch(**epoch) for epoch in stage["epochs"]]
            stages.append(StageRecord(**{**stage, "epochs": epochs, "best_score": best}))
        return cls(**{**data, "stages": stages})

    def curves(self) -> list[tuple[int, int, float, float | None]]:
        """``(stage, epoch, loss, score)`` of every epoch, without the timings."""
        return [(s.stage, e.epoch, e.loss, e.score) for s in self.stages for e in s.epochs]


State = dict[str, Tensor]
"""A module's parameters and buffers by name."""
