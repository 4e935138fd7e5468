"""How a curriculum runs: the loop, checkpoints, records."""

from .annealing import SchedulerFactory
from .checkpoint import Checkpoints
from .loop import train
from .optim import SlowModule, adam
from .record import Epoch, StageRecord, TrainingRecord
from .result import Progress, Result

__all__ = [
    "Checkpoints",
    "Epoch",
    "Progress",
    "Result",
    "SchedulerFactory",
    "SlowModule",
    "StageRecord",
    "TrainingRecord",
    "adam",
    "train",
]
