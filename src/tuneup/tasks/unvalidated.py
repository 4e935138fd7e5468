"""Tasks that keep nothing apart for validation, to train on everything that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import nn

from .link_prediction import LinkPrediction
from .node_classification import NodeClassification
from .recommendation import Recommendation
from .selection import WHOLE


class Unvalidated:
    """Lets validation be empty; every state of a model scores 0.

    Such a task is trained for a number of epochs that is known, with ``final="last"``.
    """

    is_validated: ClassVar[bool] = False

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """0 at every ratio."""
        return dict.fromkeys(ratios, 0.0)

    def validate(self, model: nn.Module) -> float:
        """0."""
        return 0.0


class AllLabels(Unvalidated, NodeClassification):
    """Node classification that learns from every label."""


class AllLinks(Unvalidated, LinkPrediction):
    """Link prediction that learns from every edge."""


class AllPairs(Unvalidated, Recommendation):
    """Recommendation that learns from every pair."""
