"""Whom the gain reaches: Base and TuneUp by the degree of the nodes that training knew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tuneup.evaluation import MISSING
from tuneup.evaluation.degrees import TAIL_DEGREE
from tuneup.metrics import NodeScores
from tuneup.report.table import markdown_table

from .gains import signed
from .tables import Block

GROUPS = ((0, 0), (1, 1), (2, 3), (4, TAIL_DEGREE), (TAIL_DEGREE + 1, None))
"""Lowest and highest degree of each group: the tail in four parts, and the head."""
SETTING = "transductive"
FEWEST = 100
"""Nodes of a group that is shown: the mean of a few is noise."""
WORDS = (
    "By degree in the graph that training saw: Base's mean → TuneUp's, in %; in parentheses the "
    "relative gain, and the share of those scored that have such a degree. Means are over all "
    f"seeds; groups of fewer than {FEWEST} are left out."
)


class Group(NamedTuple):
    """Base's mean and TuneUp's over the nodes of some degrees, and their share of all nodes."""

    before: float
    after: float
    share: float

    def __str__(self) -> str:
        gain = signed(self.after / self.before - 1) if self.before else MISSING
        means = f"{100 * self.before:.1f} → {100 * self.after:.1f}"
        return f"{means} ({gain}; {100 * self.share:.0f} %)"


def degrees_table(blocks: Sequence[Block]) -> str:
    """A line for each graph and architecture that has both rows, a column for each group.

    Below it, in how many groups TuneUp is above Base.
    """
    headings = [
        f"{low}" if low == high else f"{low} to {high}" if high else f"{low} and more"
        for low, high in GROUPS
    ]
    lines = []
    shown: list[Group] = []
    for block in blocks:
        groups = [_group(block, *degrees) for degrees in GROUPS]
        if any(groups):
            lines.append([_label(block), *(str(each) if each else MISSING for each in groups)])
            shown += filter(None, groups)
    if not shown:
        return ""
    table = markdown_table(["dataset, architecture", *headings], lines)
    above = sum(group.after > group.before for group in shown)
    below = sum(group.after < group.before for group in shown)
    return (
        f"{table}\n\nTuneUp's mean is above Base's in {above} of these {len(shown)} groups, and "
        f"below it in {below}."
    )


def _label(block: Block) -> str:
    """Dataset and architecture, an unusual preset, and how many runs have no scores by node."""
    lacking = f"; without {block.means_only} runs" if block.means_only else ""
    return f"{block.short_name}{lacking}"


def _group(block: Block, low: int, high: int | None) -> Group | None:
    """None with too few nodes or without both rows."""
    if not {"base", "tuneup"} <= block.scores.keys():
        return None
    before, after = (block.scores[method][SETTING] for method in ("base", "tuneup"))
    common = sorted(before.keys() & after.keys())
    groups = [[_within(one[seed], low, high) for seed in common] for one in (before, after)]
    if not common or len(groups[0][0]) < FEWEST:
        return None
    old, new = (sum(own.mean() for own in group) / len(group) for group in groups)
    return Group(old, new, len(groups[0][0]) / len(before[common[0]]))


def _within(scores: NodeScores, low: int, high: int | None) -> NodeScores:
    inside = scores.degree >= low
    return scores.select(inside if high is None else inside & (scores.degree <= high))
