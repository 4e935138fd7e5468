"""Options of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tuneup.curriculum import Schedule
from tuneup.errors import InputError
from tuneup.methods.curricula import FromCurriculum
from tuneup.metrics import class_metric
from tuneup.names import Alpha, Architecture, Selection, TaskName
from tuneup.nn import EncoderSpec
from tuneup.tables.estimate import validates_every
from tuneup.tasks.selection import check_selection
from tuneup.train.defaults import DEFAULTS, EPOCHS, PATIENCE, WIDTH


@dataclass(frozen=True)
class FitOptions:
    """How a model is trained on somebody's own tables.

    Args:
        architecture: of the encoder; the task's own if ``None``.
        width: of the hidden states, of embeddings, and of the vector that is learned for each node
            where no column of nodes can be a feature.
        dropout: of the hidden states; the task's own if ``None``.
        epochs: at most so many a stage; patience should end it before.
        lr: learning rate of both stages; a task's own if ``None``.
        patience: epochs without a better validation score after which a stage ends.
        alpha: share of edges that stage 2 drops, or "graded", a share of its own for each node;
            chosen on validation if ``None``.
        whole: whether stage 2 is also trained on the graph itself.
        seed: of the training.
        select: what early stopping, alpha and the result are selected by.
        interpolate: whether averages of Base and stage 2 are candidates for the result.
        control: whether Base is also trained on without dropping, for as long as stage 2.
        metric: validation score of node classification; one that suits the labels if ``None``.
        class_weights: "balanced" for classes that weigh the same in the loss, or ``None``.
    """

    architecture: Architecture | None = None
    width: int = WIDTH
    dropout: float | None = None
    epochs: int = EPOCHS
    lr: float | None = None
    patience: int = PATIENCE
    alpha: Alpha | None = "graded"
    whole: bool = True
    seed: int = 0
    select: Selection = "balanced"
    interpolate: bool = True
    control: bool = False
    metric: str | None = None
    class_weights: Literal["balanced"] | None = None

    def __post_init__(self) -> None:
        check_selection(self.select)
        if self.metric is not None:
            class_metric(self.metric)  # refuses an unknown one
        if self.class_weights not in (None, "balanced"):
            raise InputError(
                f"--class-weights: got {self.class_weights}; expected balanced, or leave it out."
            )
        if self.alpha is not None:
            FromCurriculum("tuneup", self.alpha)  # refuses a bad one before anything is read
        if self.width < 4 or self.width % 4:
            raise InputError(f"--width is a multiple of 4, 4 or more; got {self.width}.")
        for name in ("epochs", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name} is 1 or more; got {getattr(self, name)}.")
        if self.architecture not in (None, *get_args(Architecture)):
            names = ", ".join(get_args(Architecture))
            raise InputError(f"--architecture is one of {names} or auto; got {self.architecture}.")
        if self.lr is not None and not self.lr > 0:
            raise InputError(f"--lr is above 0; got {self.lr}.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"--dropout is a share, 0 to below 1; got {self.dropout}.")

    def encoder(
        self, task: TaskName, in_channels: int, out_channels: int, *, orthogonal: bool = False
    ) -> EncoderSpec:
        """The encoder, with the defaults of a task where nothing was asked for."""
        usual = DEFAULTS[task]
        return EncoderSpec(
            in_channels,
            out_channels,
            self.architecture or usual.architecture,
            width=self.width,
            dropout=usual.dropout if self.dropout is None else self.dropout,
            orthogonal=orthogonal,
        )

    def schedules(self, task: TaskName) -> tuple[Schedule, Schedule]:
        """Of both stages."""
        # Cold copies are scored as often as the task can afford.
        every = validates_every(self.epochs) if self.select == "transductive" else None
        return DEFAULTS[task].schedules(self.epochs, self.patience, self.lr, every)
