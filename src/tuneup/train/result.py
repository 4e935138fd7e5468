"""What a run answers, and what it tells while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from tuneup.curriculum import Curriculum
from tuneup.errors import InputError
from tuneup.tasks import PseudoLabels, Task

from .dial import put_blend
from .judging import last_answer, rivals
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
    compared from one run: see :meth:`load`.  What lies between them is :meth:`interpolate`'s.

    Example::

        result = tuneup.fit(model, data, pretrain=schedule, finetune=schedule)
        print(result)                       # epochs and scores of both stages
        base = result.record.stages[0].best_score
        halfway = result.interpolate(0.5)   # a module between Base and stage 2
    """

    modules: Mapping[str, nn.Module]
    curriculum: Curriculum
    record: TrainingRecord
    states: list[State]
    task: Task[Any]
    pseudo_labels: dict[int, PseudoLabels] = field(default_factory=dict)
    """by stage: which nodes were given which label, with what confidence, before it began"""
    control: Result | None = None
    """Base trained on without dropping for as long as stage 2, where it was asked for"""

    def __repr__(self) -> str:
        lines = [
            f"stage {stage.stage + 1}: {len(stage.epochs)} epochs, best {stage.best_score:.4f} at "
            f"epoch {stage.best_epoch}, {stage.stopped}"
            for stage in self.record.stages
        ]
        dial = self.record.dial
        kept = f"stage {self.record.winner + 1} is the result"
        if dial is not None and 0 < dial.chosen < 1:
            kept = f"{1 - dial.chosen:.1f} Base + {dial.chosen:.1f} stage 2 is the result"
        return f"Result({kept}; {'; '.join(lines)})"

    @property
    def model(self) -> nn.Module:
        """The module that the resulting stage trained; :func:`train` left it in that state."""
        return self.modules[self.curriculum[self.record.winner].module]

    def interpolate(self, w: float) -> nn.Module:
        """A copy of the model with weights ``(1 - w) Base + w stage 2``.

        Move towards 1 where the nodes to predict have fewer edges than those of training, towards 0
        where they have as many.  ``record.dial`` holds the validation score of each w by share of
        removed edges.

        Args:
            w: 0 for the state of stage 1, 1 for that of the last stage.

        Raises:
            InputError: if w is not between 0 and 1, or the two states have no average.
        """
        if not 0.0 <= w <= 1.0:
            raise InputError(f"w is a share of stage 2's weights, 0 to 1; got {w}.")
        last = last_answer(self.curriculum)
        earlier = rivals(self.curriculum, last)
        if not earlier:
            raise InputError("Only a run of two stages or more of one module can be interpolated.")
        module = deepcopy(self.modules[self.curriculum[last].module])
        put_blend(module, self.task, (self.states[earlier[0]], self.states[last]), w)
        return module.eval()

    def best(self) -> nn.Module:
        """A copy of the result: the model of one stage, or the selected average of two."""
        if self.record.dial is not None:
            return self.interpolate(self.record.dial.chosen)
        return self.copy(self.record.winner)

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
