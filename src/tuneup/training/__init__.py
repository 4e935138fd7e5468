"""How a curriculum runs: the loop, checkpoints, records."""

from .annealing import SchedulerFactory
from .checkpoint import Checkpoints
from .logs import JsonLines, both
from .loop import train
from .optim import SlowModule, adam
from .record import Epoch, StageRecord, TrainingRecord
from .result import Progress, Result
from .tensorboard import TensorBoard

__all__ = [
    "Checkpoints",
    "Epoch",
    "JsonLines",
    "Progress",
    "Result",
    "SchedulerFactory",
    "SlowModule",
    "StageRecord",
    "TensorBoard",
    "TrainingRecord",
    "adam",
    "both",
    "train",
]
