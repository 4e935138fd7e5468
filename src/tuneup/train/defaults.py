"""What training uses where nothing is given: the same from Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tuneup.curriculum import Schedule
from tuneup.names import Architecture, Selection, TaskName
from tuneup.nn.encoder import Norm

EPOCHS = 2000
"""Most epochs of a stage; patience ends it long before."""
WIDTH = 128
"""Width of hidden states and embeddings."""


@dataclass(frozen=True)
class Defaults:
    """Of one task.

    Args:
        lr: learning rate of stage 1.
        finetune_lr: learning rate of stage 2.
        architecture: of the encoder.
        patience: epochs without a better validation score that end a stage.
        dropout: of hidden states.
        l2: weight of the penalty on the embeddings of links, and on a recommender's inputs.
        embedding: width of these; that of the hidden states if ``None``.
        norm: between the layers of the encoder.
        orthogonal: whether the weights of the encoder start orthogonal.
        std: of the normal distribution that a recommender's inputs start from.
        encoder_rates: learning rates of a recommender's encoder in both stages, as shares of those
            of its inputs.  The encoder learns from every pair, an input from its own alone: at one
            rate the encoder runs ahead, undoes the penalty by its scale, and the model overfits.
        unknown: whether a recommender learns an input for users and items without an edge.
    """

    lr: float
    finetune_lr: float
    architecture: Architecture = "sage"
    patience: int = 60
    dropout: float = 0.0
    l2: float = 0.0
    embedding: int | None = None
    norm: Norm = "none"
    orthogonal: bool = False
    std: float = 0.01
    encoder_rates: tuple[float, float] = (1.0, 1.0)
    unknown: bool = True

    def schedules(
        self,
        epochs: int = EPOCHS,
        patience: int | None = None,
        lr: float | None = None,
        select: Selection = "balanced",
    ) -> tuple[Schedule, Schedule]:
        """Of both stages; ``lr`` takes the place of both rates."""
        # Cold copies are scored as often as the task can afford.
        every = max(1, min(5, epochs // 20)) if select == "transductive" else None
        first, second = (
            Schedule(epochs, lr or rate, every, patience or self.patience)
            for rate in (self.lr, self.finetune_lr)
        )
        return first, second


DEFAULTS: Mapping[TaskName, Defaults] = {
    "node-classification": Defaults(0.01, 0.002, dropout=0.5),
    "link-prediction": Defaults(0.005, 0.002, l2=0.001),
    # Popularity is learned first; what else there is to learn shows after a long plateau.
    "recommendation": Defaults(
        0.01, 0.005, "gcn", patience=300, l2=0.03, orthogonal=True, encoder_rates=(0.003, 0.1)
    ),
}
"""Defaults of every task, by name."""


def defaults_of(task: TaskName, architecture: Architecture | None = None) -> Defaults:
    """Defaults of a task with an architecture, its own if ``None``."""
    usual = DEFAULTS[task]
    if task == "recommendation" and architecture == "gat":
        # Attention averages all that a node reads, its own input among many: outputs are a fraction
        # of what other encoders make of the same inputs, and a penalty outweighs what pairs say.
        usual = replace(usual, std=0.1, l2=0.003)
    return replace(usual, architecture=architecture or usual.architecture)
