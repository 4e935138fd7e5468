"""How a curriculum runs: the loop, the store of stages, records and callbacks."""

from .checkpoints import Checkpoints
from .defaults import DEFAULTS
from .digests import TRAINING_VERSION, describe, stage_digests
from .logs import JsonLines, ProgressBar, TensorBoard, both
from .loop import train
from .optimizers import SchedulerFactory, SlowModule, adam
from .ranks import Ranks, join
from .result import Callback, Epoch, Progress, Result, StageRecord, TrainingRecord
from .selection import Dial, Final, blend

__all__ = [
    "DEFAULTS",
    "TRAINING_VERSION",
    "Callback",
    "Checkpoints",
    "Dial",
    "Epoch",
    "Final",
    "JsonLines",
    "Progress",
    "ProgressBar",
    "Ranks",
    "Result",
    "SchedulerFactory",
    "SlowModule",
    "StageRecord",
    "TensorBoard",
    "TrainingRecord",
    "adam",
    "blend",
    "both",
    "describe",
    "join",
    "stage_digests",
    "train",
]
