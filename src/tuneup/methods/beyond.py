"""TuneUp with other synthetic tails and other pseudo-labels, and the combination to use: TuneUp 2.

Each row differs from TuneUp in one point; ``tuneup-2`` has the points that held on validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuneup.curriculum import Labeller, Stage, View, base, full, tails
from tuneup.names import Alpha

from .base import Method, Recipe, Setup
from .labels import SmoothedLabels, SoftLabels, WeightedLabels
from .targeted import TargetDegree

_NODES_ONLY: dict[str, Any] = {
    "tasks": ("node-classification",),
    "why_not": "edge tasks have no pseudo-labels",
}


@dataclass(frozen=True)
class Variant:
    """Base, then a second stage with other views or pseudo-labels than TuneUp's.

    Args:
        alpha: share of edges that synthetic tails drop; "graded": of every node's own.
        whole: whether the second stage sees the graph itself too.
        labels: what makes pseudo-labels; by default the most probable class.
        degree: thin every node to at most this expected degree, in place of dropping ``alpha``.
    """

    alpha: Alpha = 0.5
    whole: bool = False
    labels: Labeller | None = None
    degree: int | None = None

    def __post_init__(self) -> None:
        self._tails  # noqa: B018  refuses bad settings here, not at the first update

    @property
    def _tails(self) -> View:
        return tails(self.alpha) if self.degree is None else TargetDegree(self.degree)

    def __call__(self, setup: Setup) -> Recipe:
        """Two stages, on the setup's schedules."""
        views = (full, self._tails) if self.whole else (self._tails,)
        second = Stage(views=views, pseudo_labels=self.labels or True, schedule=setup.finetune)
        return Recipe(setup.base_model(), (*base(setup.pretrain), second))


def _row(
    name: str, title: str, summary: str, settings: Variant, grid: Mapping[str, Any], **more: Any
) -> Method:
    return Method(name, summary, "", settings, grid=grid, title=title, **more)


_ALPHAS = {"alpha": (0.25, 0.5, 0.75)}

METHODS = (
    _row(
        "tuneup-graded",
        "TuneUp, graded tails",
        "TuneUp whose nodes each drop a share of their own",
        Variant("graded"),
        {},
    ),
    _row(
        "tuneup-degree",
        "TuneUp, tails of a degree",
        "TuneUp whose nodes are thinned to a tail's degree",
        Variant(degree=5),
        {"degree": (3, 5, 10)},
    ),
    _row(
        "tuneup-soft",
        "TuneUp, soft labels",
        "TuneUp with the teacher's probabilities as pseudo-labels",
        Variant(labels=SoftLabels()),
        _ALPHAS,
        **_NODES_ONLY,
    ),
    _row(
        "tuneup-weighted",
        "TuneUp, weighted labels",
        "TuneUp with pseudo-labels weighted by their probability",
        Variant(labels=WeightedLabels()),
        _ALPHAS,
        **_NODES_ONLY,
    ),
    _row(
        "tuneup-smoothed",
        "TuneUp, smoothed labels",
        "TuneUp with corrected and smoothed pseudo-labels",
        Variant(labels=SmoothedLabels()),
        _ALPHAS,
        **_NODES_ONLY,
    ),
    _row(
        "tuneup-2",
        "TuneUp 2",
        "graded tails and the graph itself in stage 2: the default of `tuneup fit`",
        Variant("graded", whole=True),
        {},
    ),
)
