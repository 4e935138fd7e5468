"""What a run answers, and what it tells while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from torch import nn

from tuneup.curriculum import Curriculum
from tuneup.tasks import PseudoLabels

from .record import State, TrainingRecord
from .state import put_state


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every epoch (counted from 1; stages too)."""

    stage: int
    stages: int
    epoch: int
    epochs: int
    loss: float
    score: float | None
    best: float
    seconds: float
    metric: str
    stopped: str
    """why the stage ends here; empty while it goes on"""
    lr: float | None = None
    """learning rate of the epoch"""


Callback = Callable[[Progress], None]


@dataclass(eq=False)
class Result:
    """A finished run.

    ``states[k]`` is the best state of stage k, so that the base and the fine-tuned model can be
    compared from one run: see :meth:`load`.
    """

    modules: Mapping[str, nn.Module]
    curriculum: Curriculum
    record: TrainingRecord
    states: list[State]
    pseudo_labels: dict[int, PseudoLabels] = field(default_factory=dict)
    """by stage: which nodes were given which label, with what confidence, before it began"""
    fingerprint: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [
            f"stage {stage.stage + 1}: {len(stage.epochs)} epochs, best {stage.best_score:.4f} at "
            f"epoch {stage.best_epoch}, {stage.stopped}"
            for stage in self.record.stages
        ]
        return f"Result(stage {self.record.winner + 1} won; {'; '.join(lines)})"

    @property
    def model(self) -> nn.Module:
        """The module that the winning stage trained; :func:`train` left it in its best state."""
        return self.modules[self.curriculum[self.record.winner].module]

    def load(self, stage: int) -> nn.Module:
        """Put the module that ``stage`` (from 0) trained into that stage's best state."""
        module = self.modules[self.curriculum[stage].module]
        put_state(module, self.states[stage])
        return module.eval()

    def copy(self, stage: int) -> nn.Module:
        """A copy of that module in that state: base and fine-tuned model side by side."""
        module = deepcopy(self.modules[self.curriculum[stage].module])
        module.load_state_dict(self.states[stage])
        return module.eval()
