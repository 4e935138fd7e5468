"""Where a fitted model stands: beside Base, stage 2 and simple models, setting by setting.

Rows are groups of nodes in one setting: all of them, those without an edge, the tail and the head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuneup.evaluation import TAIL_DEGREE, Gain, degree_groups, paired_gain
from tuneup.metrics import NodeScores

BASE, STAGE_2, RESULT, CONTROL = "Base", "Stage 2", "TuneUp", "Base, longer"
"""What the models of a fit are called: TuneUp is the result, whichever state was selected."""

NAMES = {"base": BASE, "stage-2": STAGE_2, "tuneup": RESULT, "control": CONTROL}
"""Titles of a fit's models by their names in files, in the order of tables."""

ISOLATED = "isolated"
"""The group of nodes without an edge in a setting's input graph."""

Scores = Mapping[str, NodeScores]
"""A model's scores by setting."""


@dataclass(frozen=True)
class Standing:
    """All models' mean scores on one group of one setting's nodes.

    Attributes:
        setting: as in :class:`~tuneup.metrics.NodeScores`.
        group: ``"overall"``, ``"isolated"``, ``"tail"`` or ``"head"``.
        nodes: number of nodes in the group.
        scores: mean score by model.
        gain: what the result adds to Base.
        floor: title of the simple model that is best here; empty where there is none.
        floor_gain: what the result adds to that model; ``None`` where there is none.
    """

    setting: str
    group: str
    nodes: int
    scores: Mapping[str, float]
    gain: Gain
    floor: str = ""
    floor_gain: Gain | None = None

    @property
    def result(self) -> float:
        """Mean score of the model that was selected."""
        return self.scores[RESULT]

    @property
    def floor_score(self) -> float | None:
        """Mean score of the best simple model."""
        return None if self.floor_gain is None else self.result - self.floor_gain.absolute


def standings(
    models: Mapping[str, Scores],
    floors: Mapping[str, Scores] | None = None,
    tail_degree: int = TAIL_DEGREE,
) -> list[Standing]:
    """Every group of every setting that has nodes, in the order of the settings.

    Args:
        models: name -> setting -> scores; :data:`BASE` and :data:`RESULT` must be among them.
        floors: title of a simple model -> setting -> scores, on the same nodes.
        tail_degree: a tail node has at most this many edges.
    """
    rows = []
    for setting in models[RESULT]:
        grouped = {name: _groups(own[setting], tail_degree) for name, own in models.items()}
        simple = {
            title: _groups(own[setting], tail_degree)
            for title, own in (floors or {}).items()
            if setting in own
        }
        for group, mine in grouped[RESULT].items():
            if len(mine):
                scores = {name: found[group].mean() for name, found in grouped.items()}
                gain = paired_gain(grouped[BASE][group], mine, flips=None)
                best = max(simple, key=lambda title: simple[title][group].mean(), default="")
                over = paired_gain(simple[best][group], mine, flips=None) if best else None
                rows.append(Standing(setting, group, len(mine), scores, gain, best, over))
    return rows


def overall(rows: Sequence[Standing]) -> list[Standing]:
    """The rows of whole settings."""
    return [row for row in rows if row.group == "overall"]


def _groups(scores: NodeScores, tail_degree: int) -> dict[str, NodeScores]:
    found = degree_groups(scores, tail_degree)
    return {name: found[name] for name in ("overall", ISOLATED, "tail", "head") if name in found}
