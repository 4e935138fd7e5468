"""What a floor is: a simple model, and what it scores where a trained model is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from tuneup.metrics.scores import NodeScores


@dataclass(frozen=True, eq=False)
class Floor:
    """A simple model and its scores, to compare a trained model with.

    Args:
        name: a short key, like "two-hop-logistic".
        title: what a table shows.
        scores: by setting, of the same nodes with the same degrees and metric as a trained model's;
            empty if the floor was skipped.
        probabilities: of the classes of the scored nodes ``[n, C]``, by setting; empty where
            answers are ranked.
        note: how the floor was fitted, or why it was skipped.
    """

    name: str
    title: str
    scores: Mapping[str, NodeScores]
    probabilities: Mapping[str, Tensor] = field(default_factory=dict)
    note: str = ""

    @property
    def skipped(self) -> bool:
        """Whether there are no scores; ``note`` has the reason."""
        return not self.scores
