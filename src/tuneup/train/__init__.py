"""How a curriculum runs: the loop, checkpoints, records."""

from .annealing import SchedulerFactory
from .checkpoint import Checkpoints
from .control import train_control
from .defaults import DEFAULTS
from .dial import blend
from .digests import TRAINING_VERSION, describe, stage_digests
from .judging import Final
from .logs import JsonLines, both
from .loop import train
from .optim import SlowModule, adam
from .record import Dial, Epoch, StageRecord, TrainingRecord
from .result import Progress, Result
from .tensorboard import TensorBoard

__all__ = [
    "DEFAULTS",
    "TRAINING_VERSION",
    "Checkpoints",
    "Dial",
    "Epoch",
    "Final",
    "JsonLines",
    "Progress",
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
    "stage_digests",
    "train",
    "train_control",
]
