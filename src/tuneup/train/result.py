"""What a run returns: its modules and states, and the record of how it went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from torch import nn

from tuneup.curriculum import Curriculum
from tuneup.errors import InputError
from tuneup.names import Selection
from tuneup.tasks import PseudoLabels, Task

from .selection import Dial, State, comparable_stages, last_answer, put_blend, put_state

if TYPE_CHECKING:
    import polars as pl

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
    """How one stage went.

    Attributes:
        stage: counted from 0.
        module: name of the module that it trained.
        description: the stage as text.
        epochs: that were run.
        best_epoch: the one whose state is the stage's; 0 if none was validated.
        best_score: its validation score.
        stopped: why it stopped: "ran all epochs", or which patience ran out when.
        pseudo_labels: number of nodes that were pseudo-labelled before its first epoch.
        metric: name of its score, if that is not the task's.
        unfinished: whether its epochs ended while it was still improving.
        digest: of everything that decided its weights: see :mod:`tuneup.train.digests`.
    """

    stage: int
    module: str
    description: str
    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = _NEVER
    stopped: str = ""
    pseudo_labels: int = 0
    metric: str = ""
    unfinished: bool = False
    digest: str = ""

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


@dataclass
class TrainingRecord:
    """How all stages of a run went.

    Attributes:
        seed: of the run.
        metric: name of the validation score.
        stages: their records, in order.
        winner: the stage whose best state is the result; of averaged weights, the last one.
        validation: the task's validation score of the result.
        selection: which copies of the validation nodes scores are averaged over.
        dial: how averages of the first and the last stage validated, where these were tried.
    """

    seed: int
    metric: str
    stages: list[StageRecord] = field(default_factory=list)
    winner: int = 0
    validation: float | None = None
    selection: Selection = "transductive"
    dial: Dial | None = None

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
    def from_json(cls, data: Mapping[str, Any]) -> TrainingRecord:
        """The inverse of :meth:`to_json`."""
        stages = [StageRecord.from_json(stage) for stage in data["stages"]]
        dial = None if data.get("dial") is None else Dial.from_json(data["dial"])
        return cls(**{**data, "stages": stages, "dial": dial})

    def curves(self) -> list[tuple[int, int, float, float | None]]:
        """``(stage, epoch, loss, score)`` of every epoch, without the timings."""
        return [(s.stage, e.epoch, e.loss, e.score) for s in self.stages for e in s.epochs]

    def progress(self) -> Iterator[Progress]:
        """What a callback is called with for every epoch of a finished run."""
        for stage in self.stages:
            best = _NEVER
            for epoch in stage.epochs:
                best = best if epoch.score is None else max(best, epoch.score)
                stopped = stage.stopped if epoch is stage.epochs[-1] else ""
                yield Progress.of(self, stage, epoch, best, stopped)


@dataclass(frozen=True)
class Progress:
    """What a callback is called with after every epoch.

    Attributes:
        stage: counted from 1.
        stages: how many there are.
        epoch: counted from 1.
        epochs: how many there are at most.
        loss: mean of the epoch.
        score: validation score; ``None`` where the epoch was not validated.
        best: the best score of the stage so far.
        seconds: of the epoch.
        metric: name of the score.
        stopped: why the stage ends here; empty while it continues.
        lr: learning rate of the epoch.
    """

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
    lr: float | None = None

    @classmethod
    def of(
        cls,
        record: TrainingRecord,
        stage: StageRecord,
        epoch: Epoch,
        best: float,
        stopped: str,
        stages: int | None = None,
        epochs: int | None = None,
    ) -> Progress:
        """One epoch of a record; by default there are as many stages and epochs as it holds."""
        return cls(
            stage=stage.stage + 1,
            stages=stages or len(record.stages),
            epoch=epoch.epoch,
            epochs=epochs or len(stage.epochs),
            loss=epoch.loss,
            score=epoch.score,
            best=best,
            seconds=epoch.seconds,
            metric=stage.metric or record.metric,
            stopped=stopped,
            lr=epoch.lr,
        )


Callback = Callable[[Progress], None]
"""Called after every epoch with the progress of a run."""


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

    Attributes:
        modules: the trained modules by name.
        curriculum: the stages.
        record: how they went.
        states: best state of each stage.
        task: graph, supervision, loss and validation.
        pseudo_labels: by stage, which nodes were given which label before it began.
        control: Base trained on without dropping for as long as stage 2, where it was asked for.
    """

    modules: Mapping[str, nn.Module]
    curriculum: Curriculum
    record: TrainingRecord
    states: list[State]
    task: Task[Any]
    pseudo_labels: dict[int, PseudoLabels] = field(default_factory=dict)
    control: Result | None = None

    def __repr__(self) -> str:
        lines = [
            f"stage {stage.stage + 1}: {len(stage.epochs)} epochs, best {stage.best_score:.4f} at "
            f"epoch {stage.best_epoch}, {stage.stopped}"
            for stage in self.record.stages
        ]
        return f"Result({self._verdict}; {'; '.join(lines)})"

    def _repr_html_(self) -> str:
        """A table of the stages, for notebooks."""
        titles = ("stage", "epochs", "best epoch", f"best {self.record.metric}", "stopped")
        rows = [
            (s.stage + 1, len(s.epochs), s.best_epoch, f"{s.best_score:.4f}", s.stopped)
            for s in self.record.stages
        ]
        head = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
        )
        return f"<table><caption>{escape(self._verdict)}</caption><tr>{head}</tr>{body}</table>"

    @property
    def _verdict(self) -> str:
        dial = self.record.dial
        if dial is not None and 0 < dial.chosen < 1:
            return f"{1 - dial.chosen:.1f} Base + {dial.chosen:.1f} stage 2 is the result"
        return f"stage {self.record.winner + 1} is the result"

    @property
    def history(self) -> pl.DataFrame:
        """Every epoch: stage, epoch (both from 1), loss, score, lr and seconds."""
        import polars as pl

        rows = [
            (s.stage + 1, e.epoch, e.loss, e.score, e.lr, e.seconds)
            for s in self.record.stages
            for e in s.epochs
        ]
        schema: dict[str, Any] = dict.fromkeys(("stage", "epoch"), pl.Int64)
        schema |= dict.fromkeys(("loss", "score", "lr", "seconds"), pl.Float64)
        return pl.DataFrame(rows, schema, orient="row")

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
        earlier = comparable_stages(self.curriculum, last)
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
