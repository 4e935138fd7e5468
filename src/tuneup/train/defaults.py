"""What training uses where nothing is given: the same from Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuneup.curriculum import Schedule
from tuneup.names import Architecture, TaskName

EPOCHS = 2000
"""Most epochs of a stage; patience ends it long before."""
PATIENCE = 60
"""Epochs without a better validation score that end a stage."""
WIDTH = 128
"""Width of hidden states and embeddings."""


@dataclass(frozen=True)
class Defaults:
    """Of one task.

    Args:
        lr: learning rate of stage 1.
        finetune_lr: learning rate of stage 2.
        architecture: of the encoder.
        dropout: of hidden states.
    """

    lr: float
    finetune_lr: float
    architecture: Architecture = "sage"
    dropout: float = 0.0

    def schedules(
        self,
        epochs: int = EPOCHS,
        patience: int = PATIENCE,
        lr: float | None = None,
        validate_every: int | None = None,
    ) -> tuple[Schedule, Schedule]:
        """Of both stages; ``lr`` takes the place of both rates."""
        first, second = (
            Schedule(epochs, lr or rate, validate_every, patience)
            for rate in (self.lr, self.finetune_lr)
        )
        return first, second


DEFAULTS: Mapping[TaskName, Defaults] = {
    "node-classification": Defaults(0.01, 0.002, dropout=0.5),
    "link-prediction": Defaults(0.005, 0.002),
    # A mean over neighbours does not carry how popular an item is.
    "recommendation": Defaults(0.01, 0.005, architecture="gcn"),
}
"""Defaults of every task, by name."""
