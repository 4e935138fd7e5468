"""Sentences of the paper that a cell of a table can agree or disagree with, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuneup.evaluation import Gain

from .tables import Block

TASKS = {
    "node-classification": "Node classification",
    "link-prediction": "Link prediction",
    "recommendation": "Recommendation",
}


@dataclass(frozen=True)
class Lead:
    """TuneUp is better than another method: by its mean, and clearly, or clearly not."""

    method: str
    text: str

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
        complete = len(block.records.get(self.method, ())) >= block.seeds
        return block.gain(self.method, "tuneup", setting) if complete else None


@dataclass(frozen=True)
class Claim:
    """Anything else: true of a block's setting, false, or (``None``) not to be told there."""

    text: str
    holds: Callable[[Block, str], bool | None]

    def count(self, blocks: Sequence[Block]) -> str:
        """``12 of 20``."""
        found = [self.holds(block, name) for block, name in _cells(blocks)]
        known = [answer for answer in found if answer is not None]
        return f"{sum(known)} of {len(known)}" if known else ""


def _clearly(gains: Sequence[Gain]) -> str:
    above, below = sum(gain.low > 0 for gain in gains), sum(gain.high < 0 for gain in gains)
    return f"{above} clearly, {below} clearly not" if gains else ""


def _cells(blocks: Sequence[Block]) -> Iterator[tuple[Block, str]]:
    for block in blocks:
        if block.records.get("tuneup"):
            for setting in block.settings:
                yield block, setting


def _colder_is_more(block: Block, setting: str) -> bool | None:
    order = [name for name in block.settings if name == "inductive" or name.startswith("cold")]
    if setting not in order[1:]:
        return None
    before = order[order.index(setting) - 1]
    one, other = (block.gain("base", "tuneup", name) for name in (before, setting))
    return None if one is None or other is None else other.relative > one.relative


def _curriculum_is_needed(block: Block, setting: str) -> bool | None:
    """The row without curriculum lies nearer to DropEdge than to TuneUp."""
    drop, tuneup = (
        block.gain("without-curriculum", name, setting) for name in ("dropedge", "tuneup")
    )
    if drop is None or tuneup is None:
        return None
    return abs(drop.absolute) < abs(tuneup.absolute)  # each on the seeds that both have


CLAIMS = (
    Lead("base", "TuneUp is above Base"),
    Claim("the colder, the larger the relative gain (against the setting before)", _colder_is_more),
    Lead("dropedge", "TuneUp is above DropEdge"),
    Lead("without-curriculum", "TuneUp is above its form without curriculum"),
    Lead("without-syn-tails", "TuneUp is above its form without synthetic tails"),
    Lead("without-pseudo-labels", "TuneUp is above its form without pseudo-labels"),
    Claim("without curriculum it is nearer to DropEdge than to TuneUp", _curriculum_is_needed),
    Lead("localaug", "TuneUp is above LocalAug"),
    Lead("coldbrew", "TuneUp is above ColdBrew"),
    Lead("graphlessnn", "TuneUp is above GraphLessNN"),
    Lead("tail-gnn", "TuneUp is above Tail-GNN"),
    Lead("rawls-gcn", "TuneUp is above RAWLS-GCN"),
)

WORDS = (
    "Counted are the means; *clearly* says that the paired 95 % interval leaves 0 out. Of one "
    "seed, that interval is over nodes or users alone: another seed may say otherwise. A method "
    "that lacks seeds is not counted. The settings of one dataset and architecture are scores of "
    "the same models, so that cells are not independent."
)


def claims_words(blocks: Sequence[Block]) -> str:
    """How to read the table, and where TuneUp's lead over others is Base's own."""
    kept = [
        f"{block.dataset}, {block.task}, {block.architecture} ({block.base_kept})"
        for block in blocks
        if block.base_kept
    ]
    if not kept:
        return WORDS
    return (
        f"{WORDS} TuneUp's model is Base's, as no stage 2 validated better, in some runs (of how "
        f"many) of {'; '.join(kept)}: a lead over a third method is Base's lead there."
    )


def claims_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task a claim holds."""
    tasks = [task for task in TASKS if any(block.task == task for block in blocks)]
    lines = [
        [
            "claim: holds in how many cells (dataset x architecture x setting)",
            *(TASKS[task] for task in tasks),
        ],
        [":--", *["--:"] * len(tasks)],
    ]
    for claim in CLAIMS:
        told = [claim.count([block for block in blocks if block.task == task]) for task in tasks]
        if any(told):
            lines.append([claim.text, *told])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
