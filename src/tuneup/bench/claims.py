"""Sentences of the paper that a cell of a table can agree or disagree with, counted.

Ours beside the paper's own: what holds in its tables is not always what it says of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tuneup.evaluation import Gain
from tuneup.methods.titles import title_of
from tuneup.report.table import markdown_table

from .gains import PaperGain
from .published import paper_blocks
from .tables import Block

TASKS = {
    "node-classification": "Node classification",
    "link-prediction": "Link prediction",
    "recommendation": "Recommendation",
}


class Compared(Protocol):
    """A graph with an architecture, ours or the paper's."""

    @property
    def settings(self) -> Sequence[str]:
        """Columns of its table."""

    def gain(self, before: str, after: str, setting: str) -> Gain | PaperGain | None:
        """What one method adds to another, where both are known."""

    def lacking(self, *methods: str) -> Sequence[int]:
        """Training seeds of the table that one of these methods was not run with."""


Graph = TypeVar("Graph", bound=Compared)


@dataclass(frozen=True)
class Claim:
    """A statement that holds, fails or (``None``) cannot be judged in a cell."""

    text: str
    holds: Callable[[Compared, str], bool | None]
    methods: Sequence[str]
    """that it is about"""

    def count(self, blocks: Sequence[Block]) -> str:
        """``12 of 20``."""
        return _count(self.holds, [block for block in blocks if not block.lacking(*self.methods)])


@dataclass(frozen=True)
class Lead:
    """One method is better than another: by its mean, and clearly, or clearly not.

    Ours are counted with their intervals (:meth:`count`), the paper's by their means alone
    (:meth:`holds`).
    """

    text: str
    before: str
    after: str = "tuneup"

    def holds(self, block: Compared, setting: str) -> bool | None:
        """Whether the mean of one lies above that of the other."""
        gain = block.gain(self.before, self.after, setting)
        return None if gain is None else gain.absolute > 0

    def count(self, blocks: Sequence[Block]) -> str:
        """``18 of 20 (9 clearly, 1 clearly not)``, over the seeds that both have.

        What a single seed shows is counted apart.
        """
        gains = [gain for block, name in _cells(blocks) if (gain := self._gain(block, name))]
        if not gains:
            return ""
        above = sum(gain.absolute > 0 for gain in gains)
        once = [gain for gain in gains if gain.seeds == 1]
        parts = [_clearly([gain for gain in gains if gain.seeds > 1])]
        parts += [f"one seed: {_clearly(once)}"] * bool(once)
        return f"{above} of {len(gains)} ({'; '.join(filter(None, parts))})"

    def _gain(self, block: Block, setting: str) -> Gain | None:
        if block.lacking(self.before, self.after):
            return None
        return block.gain(self.before, self.after, setting)


def _count(holds: Callable[[Compared, str], bool | None], blocks: Sequence[Compared]) -> str:
    found = [holds(block, name) for block, name in _cells(blocks)]
    known = [answer for answer in found if answer is not None]
    return f"{sum(known)} of {len(known)}" if known else ""


def _clearly(gains: Sequence[Gain]) -> str:
    above, below = sum(gain.low > 0 for gain in gains), sum(gain.high < 0 for gain in gains)
    return f"{above} clearly, {below} clearly not" if gains else ""


def _cells(blocks: Sequence[Graph]) -> Iterator[tuple[Graph, str]]:
    for block in blocks:
        for setting in block.settings:
            yield block, setting


def _colder_is_more(block: Compared, setting: str) -> bool | None:
    order = [name for name in block.settings if name == "inductive" or name.startswith("cold")]
    if setting not in order[1:]:
        return None
    before = order[order.index(setting) - 1]
    one, other = (block.gain("base", "tuneup", name) for name in (before, setting))
    if one is None or other is None or math.isnan(one.relative + other.relative):
        return None
    return other.relative > one.relative


def _curriculum_is_needed(block: Compared, setting: str) -> bool | None:
    """The row without curriculum lies nearer to DropEdge than to TuneUp."""
    drop, tuneup = (
        block.gain("without-curriculum", name, setting) for name in ("dropedge", "tuneup")
    )
    if drop is None or tuneup is None:
        return None
    return abs(drop.absolute) < abs(tuneup.absolute)  # each on the seeds that both have


CLAIMS = (
    Lead("TuneUp is above Base", "base"),
    Claim(
        "the colder, the larger the relative gain (against the setting before)",
        _colder_is_more,
        ("base", "tuneup"),
    ),
    Lead("TuneUp is above DropEdge", "dropedge"),
    Lead("TuneUp is above its form without curriculum", "without-curriculum"),
    Lead("TuneUp is above its form without synthetic tails", "without-syn-tails"),
    Lead("TuneUp is above its form without pseudo-labels", "without-pseudo-labels"),
    Claim(
        "without curriculum it is nearer to DropEdge than to TuneUp",
        _curriculum_is_needed,
        ("dropedge", "without-curriculum", "tuneup"),
    ),
    Lead("TuneUp is above LocalAug", "localaug"),
    Lead("TuneUp is above ColdBrew", "coldbrew"),
    Lead("TuneUp is above GraphLessNN", "graphlessnn"),
    Lead("TuneUp is above Tail-GNN", "tail-gnn"),
    Lead("TuneUp is above RAWLS-GCN", "rawls-gcn"),
    Lead("TuneUp is above NodeDup, which came after the paper", "nodedup"),
)

WORDS = (
    "A cell is a dataset, an architecture and a setting (and a preset, where both were run). "
    "Counted are the means, ours and in the columns beside them those of the paper's tables; "
    "*clearly* says that the paired 95 % interval leaves 0 out. Of one seed, that interval is over "
    "nodes or users alone: another seed may say otherwise. A method that lacks seeds is not "
    "counted. The settings of one dataset and architecture are scores of the same models, so that "
    "cells are not independent, and no interval is widened for there being hundreds of them."
)


def claims_words(blocks: Sequence[Block]) -> str:
    """How to read the tables, what lacks scores by node, and where Base is no measure."""
    words = [WORDS]
    if lacking := _places(blocks, lambda block: block.means_only):
        words.append(
            "Stage 2 validated worse than Base in some of TuneUp's runs (of how many) of "
            f"{lacking}: it is the result all the same, as in Algorithm 1. Release 0.1 recorded "
            "its means there, which count, but no scores by node: intervals leave these runs out."
        )
    if below := _places(blocks, lambda block: block.above_base):
        words.append(
            f"Base is below what needs no training at all in {below}: that a method is above it "
            "shows little there."
        )
    return " ".join(words)


def _places(blocks: Sequence[Block], told: Callable[[Block], str]) -> str:
    """``gowalla, recommendation, gat (popularity); ...``: blocks of which there is a word."""
    return "; ".join(f"{block.name} ({words})" for block in blocks if (words := told(block)))


def claims_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task a claim holds."""
    return _table("claim", CLAIMS, blocks)


def above_base_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task every other method is above Base."""
    methods = dict.fromkeys(row.method for block in blocks for row in block.rows)
    others = [name for name in methods if name not in ("base", "tuneup")]
    return _table("above Base", [Lead(title_of(name), "base", name) for name in others], blocks)


def _table(heading: str, claims: Sequence[Claim | Lead], blocks: Sequence[Block]) -> str:
    tasks = [task for task in TASKS if any(block.task == task for block in blocks)]
    columns = [name for task in tasks for name in (TASKS[task], "paper")]
    lines = []
    for claim in claims:
        told = []
        for task in tasks:
            mine = [block for block in blocks if block.task == task]
            told += [claim.count(mine), _count(claim.holds, paper_blocks(mine))]
        if any(told):
            lines.append([claim.text, *told])
    return markdown_table([heading, *columns], lines)
