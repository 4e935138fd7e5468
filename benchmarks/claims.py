"""Sentences of the paper that a cell of a table can agree or disagree with, counted.

Ours beside the paper's own: what holds in its tables is not always what it says of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuneup.bench.tables import Block, RunBlock, paper_blocks
from tuneup.evaluation import MISSING
from tuneup.methods import title_of
from tuneup.report.table import markdown_table

TASKS = {
    "node-classification": "Node classification",
    "link-prediction": "Link prediction",
    "recommendation": "Recommendation",
}
PARTS = ("dropedge", "without-curriculum", "without-pseudo-labels", "without-syn-tails")


@dataclass(frozen=True)
class Claim:
    """A statement about methods, counted over the cells that have all of them.

    Args:
        text: in words.
        methods: that it needs.
        holds: whether it is true in a cell, None where that cannot be said; by default, that the
            second method is better than the first.
    """

    text: str
    methods: tuple[str, ...]
    holds: Callable[[Block, str], bool | None] | None = None

    def count(self, blocks: Sequence[Block]) -> str:
        """``12 of 20``; of two methods ``12 of 20 (9, 1)``: significantly better, and worse."""
        complete = [block for block in blocks if not block.lacking(*self.methods)]
        cells = [(block, setting) for block in complete for setting in block.settings]
        holds = self.holds or self._is_better
        known = [answer for answer in (holds(*cell) for cell in cells) if answer is not None]
        text = f"{sum(known)} of {len(known)}" if known else ""
        if not known or self.holds or not isinstance(blocks[0], RunBlock):
            return text
        signs = [significance(*cell, *self.methods) for cell in cells]
        return f"{text} ({signs.count(1)}, {signs.count(-1)})"

    def _is_better(self, block: Block, setting: str) -> bool | None:
        before, after = self.methods
        gain = block.gain(before, after, setting)
        return None if gain is None else gain.absolute > 0


def significance(block: Block, setting: str, before: str = "base", after: str = "tuneup") -> int:
    """1 or -1 where the interval is above or below 0; 0 elsewhere, and for the paper.

    An interval of one seed, where other runs lack scores by node, decides nothing.
    """
    gain = block.gain(before, after, setting)
    if gain is None or (isinstance(block, RunBlock) and gain.seeds == 1 < len(block.seeds)):
        return 0
    return (gain.low > 0) - (gain.high < 0)


def _colder_is_more(block: Block, setting: str) -> bool | None:
    order = [name for name in block.settings if name == "inductive" or name.startswith("cold")]
    if setting not in order[1:]:
        return None
    warmer = order[order.index(setting) - 1]
    one, other = (block.gain("base", "tuneup", name) for name in (warmer, setting))
    if one is None or other is None or math.isnan(one.relative + other.relative):
        return None
    return other.relative > one.relative


def _curriculum_is_needed(block: Block, setting: str) -> bool | None:
    near, far = (block.gain("without-curriculum", m, setting) for m in ("dropedge", "tuneup"))
    return None if near is None or far is None else abs(near.absolute) < abs(far.absolute)


CLAIMS = (
    Claim("TuneUp is above Base", ("base", "tuneup")),
    Claim(
        "its relative gain grows with the share of removed edges",
        ("base", "tuneup"),
        _colder_is_more,
    ),
    Claim("TuneUp is above DropEdge", ("dropedge", "tuneup")),
    Claim("TuneUp is above its form without curriculum", ("without-curriculum", "tuneup")),
    Claim("TuneUp is above its form without synthetic tails", ("without-syn-tails", "tuneup")),
    Claim("TuneUp is above its form without pseudo-labels", ("without-pseudo-labels", "tuneup")),
    Claim(
        "without curriculum it is nearer to DropEdge than to TuneUp",
        ("dropedge", "without-curriculum", "tuneup"),
        _curriculum_is_needed,
    ),
    Claim("TuneUp is above LocalAug", ("localaug", "tuneup")),
    Claim("TuneUp is above ColdBrew", ("coldbrew", "tuneup")),
    Claim("TuneUp is above GraphLessNN", ("graphlessnn", "tuneup")),
    Claim("TuneUp is above Tail-GNN", ("tail-gnn", "tuneup")),
    Claim("TuneUp is above RAWLS-GCN", ("rawls-gcn", "tuneup")),
    Claim("TuneUp is above NodeDup, which came after the paper", ("nodedup", "tuneup")),
)


def claims_table(blocks: Sequence[RunBlock]) -> str:
    """In how many cells of each task a claim holds, ours and the paper's."""
    return _table("claim", CLAIMS, blocks)


def above_base_table(blocks: Sequence[RunBlock]) -> str:
    """In how many cells of each task every other method is above Base."""
    methods = dict.fromkeys(method for block in blocks for method in block.methods)
    others = [name for name in methods if name not in ("base", "tuneup")]
    return _table("above Base", [Claim(title_of(m), ("base", m)) for m in others], blocks)


def _table(heading: str, claims: Sequence[Claim], blocks: Sequence[RunBlock]) -> str:
    groups: list[Sequence[Block]] = []
    for task in TASKS:
        own = [block for block in blocks if block.task == task]
        groups += [own, paper_blocks((block.task, block.architecture) for block in own)]
    counted = {claim.text: [claim.count(group) for group in groups] for claim in claims}
    rows = [[text, *counts] for text, counts in counted.items() if any(counts)]
    columns = [name for title in TASKS.values() for name in (title, "paper")]
    return markdown_table([heading, *columns], rows)


def shares_table(blocks: Sequence[Block], settings: Sequence[str]) -> str:
    """How much of TuneUp's gain over Base the rows of its parts have, in %."""
    lines = []
    for block in blocks:
        cells = [_shares(block, setting) for setting in settings]
        if any(cells):
            lines.append([block.short_name, block.whose, *(cell or MISSING for cell in cells)])
    return markdown_table(["share of the gain, %", "whose", *settings], lines, words=(0, 1))


def _shares(block: Block, setting: str) -> str:
    if setting not in block.settings or block.lacking("base", "tuneup"):
        return ""
    whole = block.gain("base", "tuneup", setting)
    if whole is None or not whole.relative >= 0.01:  # of next to nothing no share is shown
        return ""
    parts = [block.gain("base", name, setting) for name in PARTS if not block.lacking(name)]
    return ", ".join(f"{round(100 * part.absolute / whole.absolute)}" for part in parts if part)
