"""Sentences of the paper that a cell of a table can agree or disagree with, counted.

Ours beside the paper's own: what holds in its tables is not always what it says of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuneup.bench.tables import Block, PaperBlock, paper_blocks
from tuneup.evaluation import MISSING, Gain
from tuneup.methods import title_of
from tuneup.report.table import markdown_table

Blocks = Sequence[Block | PaperBlock]
TASKS = {
    "node-classification": "Node classification",
    "link-prediction": "Link prediction",
    "recommendation": "Recommendation",
}
PARTS = ("dropedge", "without-curriculum", "without-pseudo-labels", "without-syn-tails")


@dataclass(frozen=True)
class Claim:
    """A statement that holds, fails or (``None``) cannot be judged in a cell."""

    text: str
    methods: tuple[str, ...]
    holds: Callable[[Block | PaperBlock, str], bool | None]

    def count(self, blocks: Blocks) -> str:
        """``12 of 20``."""
        found = [self.holds(block, name) for block, name in _cells(blocks, self.methods)]
        known = [answer for answer in found if answer is not None]
        return f"{sum(known)} of {len(known)}" if known else ""


@dataclass(frozen=True)
class Lead:
    """One method is better than another: by its mean, and significantly so or significantly not."""

    text: str
    before: str
    after: str = "tuneup"

    def count(self, blocks: Blocks) -> str:
        """``18 of 20 (9, 1)``: better, of how many; significantly better, significantly worse."""
        found = [block.gain(self.before, self.after, name) for block, name in _cells(blocks, self)]
        gains = [gain for gain in found if gain is not None]
        if not gains:
            return ""
        above = f"{sum(gain.absolute > 0 for gain in gains)} of {len(gains)}"
        if not isinstance(gains[0], Gain):
            return above
        signs = [
            significance(block, self.before, self.after, name)
            for block, name in _cells(blocks, self)
        ]
        return f"{above} ({signs.count(1)}, {signs.count(-1)})"


def significance(block: Block | PaperBlock, before: str, after: str, setting: str) -> int:
    """1 or -1 where the interval is above or below 0; 0 elsewhere, and for the paper.

    An interval of one seed, where other runs lack scores by node, decides nothing.
    """
    gain = block.gain(before, after, setting)
    if not isinstance(gain, Gain) or not isinstance(block, Block):
        return 0
    if gain.seeds == 1 and len(block.seeds) > 1:
        return 0
    return (gain.low > 0) - (gain.high < 0)


def _cells(
    blocks: Blocks, about: Lead | tuple[str, ...]
) -> Iterator[tuple[Block | PaperBlock, str]]:
    methods = (about.before, about.after) if isinstance(about, Lead) else about
    for block in blocks:
        if not block.lacking(*methods):
            yield from ((block, setting) for setting in block.settings)


def _colder_is_more(block: Block | PaperBlock, setting: str) -> bool | None:
    order = [name for name in block.settings if name == "inductive" or name.startswith("cold")]
    if setting not in order[1:]:
        return None
    before = order[order.index(setting) - 1]
    one, other = (block.gain("base", "tuneup", name) for name in (before, setting))
    if one is None or other is None or math.isnan(one.relative + other.relative):
        return None
    return other.relative > one.relative


def _curriculum_is_needed(block: Block | PaperBlock, setting: str) -> bool | None:
    one, other = (
        block.gain("without-curriculum", name, setting) for name in ("dropedge", "tuneup")
    )
    return None if one is None or other is None else abs(one.absolute) < abs(other.absolute)


CLAIMS: Sequence[Claim | Lead] = (
    Lead("TuneUp is above Base", "base"),
    Claim(
        "its relative gain grows with the share of removed edges",
        ("base", "tuneup"),
        _colder_is_more,
    ),
    Lead("TuneUp is above DropEdge", "dropedge"),
    Lead("TuneUp is above its form without curriculum", "without-curriculum"),
    Lead("TuneUp is above its form without synthetic tails", "without-syn-tails"),
    Lead("TuneUp is above its form without pseudo-labels", "without-pseudo-labels"),
    Claim(
        "without curriculum it is nearer to DropEdge than to TuneUp",
        ("dropedge", "without-curriculum", "tuneup"),
        _curriculum_is_needed,
    ),
    Lead("TuneUp is above LocalAug", "localaug"),
    Lead("TuneUp is above ColdBrew", "coldbrew"),
    Lead("TuneUp is above GraphLessNN", "graphlessnn"),
    Lead("TuneUp is above Tail-GNN", "tail-gnn"),
    Lead("TuneUp is above RAWLS-GCN", "rawls-gcn"),
    Lead("TuneUp is above NodeDup, which came after the paper", "nodedup"),
)


def claims_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task a claim holds, ours and the paper's."""
    return _table("claim", CLAIMS, blocks)


def above_base_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task every other method is above Base."""
    methods = dict.fromkeys(method for block in blocks for method in block.methods)
    others = [name for name in methods if name not in ("base", "tuneup")]
    return _table("above Base", [Lead(title_of(name), "base", name) for name in others], blocks)


def _table(heading: str, claims: Sequence[Claim | Lead], blocks: Sequence[Block]) -> str:
    by_task = {task: [block for block in blocks if block.task == task] for task in TASKS}
    lines = []
    for claim in claims:
        counts = []
        for own in by_task.values():
            theirs = paper_blocks((block.task, block.architecture) for block in own)
            counts += [claim.count(own), claim.count(theirs)]
        if any(counts):
            lines.append([claim.text, *counts])
    columns = [name for title in TASKS.values() for name in (title, "paper")]
    return markdown_table([heading, *columns], lines)


def shares_table(blocks: Blocks, settings: Sequence[str]) -> str:
    """How much of TuneUp's gain over Base the rows of its parts have, in %."""
    lines = []
    for block in blocks:
        cells = [_shares(block, setting) for setting in settings]
        if any(cells):
            lines.append([block.short_name, block.whose, *(cell or MISSING for cell in cells)])
    return markdown_table(["share of the gain, %", "whose", *settings], lines, words=(0, 1))


def _shares(block: Block | PaperBlock, setting: str) -> str:
    if setting not in block.settings or block.lacking("base", "tuneup"):
        return ""
    whole = block.gain("base", "tuneup", setting)
    if whole is None or not whole.relative >= 0.01:  # of next to nothing no share is shown
        return ""
    parts = [block.gain("base", name, setting) for name in PARTS if not block.lacking(name)]
    return ", ".join(f"{round(100 * part.absolute / whole.absolute)}" for part in parts if part)
