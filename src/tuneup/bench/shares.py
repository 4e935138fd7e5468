"""How much of TuneUp's gain a part of it has: ours beside the paper's, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence

from tuneup.evaluation import MISSING
from tuneup.methods.titles import title_of
from tuneup.report.table import markdown_table

from .published import PaperBlock, paper_blocks
from .tables import SETTINGS, Block

PARTS = ("dropedge", "without-curriculum", "without-pseudo-labels", "without-syn-tails")
LEAST = 0.01
"""Of a smaller relative gain of TuneUp no shares are shown: they would be noise."""
WORDS = (
    f"Of TuneUp's gain over Base, in %, what other rows have: {', '.join(map(title_of, PARTS))}, "
    f"in this order, where they were run. {MISSING}: TuneUp gains less than {100 * LEAST:g} %. "
    "Negative: the row is below Base."
)


def shares_table(blocks: Sequence[Block]) -> str:
    """A line for each graph and architecture, of ours and of the paper's, that has such rows."""
    lines = []
    theirs = paper_blocks(blocks)
    for task, architecture in dict.fromkeys((block.task, block.architecture) for block in blocks):
        for whose, found in (("ours", blocks), ("paper", theirs)):
            for block in found:
                cells = [_shares(block, name) for name in SETTINGS]
                if (block.task, block.architecture) == (task, architecture) and any(cells):
                    lines.append([block.name, whose, *(cell or MISSING for cell in cells)])
    heading = ["share of the gain, %", "whose", *SETTINGS]
    return markdown_table(heading, lines, words=(0, 1)) if lines else ""


def _shares(block: Block | PaperBlock, setting: str) -> str:
    """``14, 3, -8, 58``; empty without such rows or next to no gain."""
    if setting not in block.settings or block.lacking("base", "tuneup"):
        return ""
    whole = block.gain("base", "tuneup", setting)
    if whole is None or not whole.relative >= LEAST:  # of a Base of 0 it is no number
        return ""
    parts = [block.gain("base", name, setting) for name in PARTS if not block.lacking(name)]
    return ", ".join(f"{round(100 * part.absolute / whole.absolute)}" for part in parts if part)
