"""Methods against a base: the rows of a comparison, on all nodes, the tail and the head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE, Gain, over_seeds, paired_gain, split_by_degree
from tuneup.evaluation.pairing import as_runs
from tuneup.metrics import NodeScores

LEVEL = 0.95
Runs = NodeScores | Sequence[NodeScores]
"""One run, or the runs of several training seeds in a fixed order."""


@dataclass(frozen=True)
class ComparisonRow:
    """One method against the base on one group of one setting's nodes.

    Attributes:
        setting: as in :class:`~tuneup.metrics.NodeScores`.
        group: ``"overall"``, ``"tail"`` or ``"head"``.
        nodes: number of nodes in the group.
        base: the base's mean score over nodes and seeds; NaN without nodes.
        method: name of the method.
        score: its mean score.
        gain: what it adds to the base; None without nodes.
    """

    setting: str
    group: str
    nodes: int
    base: float
    method: str
    score: float
    gain: Gain | None

    @property
    def has_interval(self) -> bool:
        """One node drawn again and again is always itself: that says nothing about the spread."""
        return self.nodes > 1


def comparison_rows(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    tail_degree: int = TAIL_DEGREE,
) -> list[ComparisonRow]:
    """Each setting of ``base`` in turn: overall, tail, head; in each of these, every method."""
    _check_settings(base, others)
    rows = []
    for setting, base_runs in base.items():
        of_base = _by_group(base_runs, tail_degree)
        of_others = {name: _by_group(runs[setting], tail_degree) for name, runs in others.items()}
        for group, before in of_base.items():
            for method, groups in of_others.items():
                after = groups[group]
                gain = (
                    paired_gain(before, after, LEVEL, flips=None)
                    if len(before[0]) and len(after[0])
                    else None
                )
                mean, score = (
                    over_seeds(run.mean() for run in runs).mean for runs in (before, after)
                )
                row = ComparisonRow(setting, group, len(before[0]), mean, method, score, gain)
                rows.append(row)
    return rows


def _by_group(runs: Runs, tail_degree: int) -> dict[str, list[NodeScores]]:
    split = [split_by_degree(run, tail_degree) for run in as_runs(runs)]
    return {group: [each[group] for each in split] for group in ("overall", "tail", "head")}


def _check_settings(base: Mapping[str, Runs], others: Mapping[str, Mapping[str, Runs]]) -> None:
    if not base or not others:
        raise InputError("a comparison needs at least one setting of the base and one other method")
    for method, of_setting in others.items():
        missing = [setting for setting in base if setting not in of_setting]
        if missing:
            raise InputError(f"{method} has no scores for {', '.join(missing)}, which the base has")
