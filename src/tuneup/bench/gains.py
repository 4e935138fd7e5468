"""TuneUp's relative gains over Base, ours beside the paper's, graph by graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from tuneup.evaluation import MISSING
from tuneup.report.table import markdown_table

from .paper import published, published_score
from .tables import SETTINGS, Block

GAIN_ROW = "TuneUp over Base, %"
"""The last line of a table in the paper's layout."""


class PaperGain(NamedTuple):
    """How far two published means lie apart; the paper has no intervals of it."""

    absolute: float
    relative: float


def gains_table(blocks: Sequence[Block]) -> str:
    """A line for each graph that we or the paper have, in %."""
    lines = []
    for task, architecture in dict.fromkeys((block.task, block.architecture) for block in blocks):
        for block in blocks:
            if (block.task, block.architecture) == (task, architecture):
                lines.append([block.name, "ours", *_ours(block)])
        for dataset, gains in _theirs(task, architecture):
            lines.append([f"{dataset}, {task}, {architecture}", "paper", *gains])
    return markdown_table([GAIN_ROW, "whose", *SETTINGS], lines, words=(0, 1))


def _ours(block: Block) -> list[str]:
    known = () if block.lacking("base", "tuneup") else block.settings
    gains = [block.gain("base", "tuneup", name) if name in known else None for name in SETTINGS]
    return [MISSING if gain is None else signed(gain.relative) for gain in gains]


def _theirs(task: str, architecture: str) -> Iterator[tuple[str, list[str]]]:
    mine = (pl.col("task") == task) & (pl.col("architecture") == architecture)
    for dataset in published().filter(mine)["dataset"].unique(maintain_order=True):
        gains = [paper_gain(dataset, task, architecture, name) for name in SETTINGS]
        yield dataset, [gain or MISSING for gain in gains]


def paper_gain(dataset: str, task: str, architecture: str, setting: str) -> str:
    """The paper's own gain in a setting, in %; empty where it has none."""
    gain = paper_difference(dataset, task, architecture, "base", "tuneup", setting)
    return "" if gain is None else signed(gain.relative)


def paper_difference(
    dataset: str, task: str, architecture: str, before: str, after: str, setting: str
) -> PaperGain | None:
    """What ``after`` adds to ``before`` in the paper, where it has numbers of both."""
    one, other = (
        published_score(dataset, task, architecture, name, setting) for name in (before, after)
    )
    if one is None or other is None or one.mean is None or other.mean is None:
        return None
    return PaperGain(other.mean - one.mean, other.mean / one.mean - 1)


def signed(share: float) -> str:
    """In %, with its sign; 0 has one too, and it is not a minus. What is no number is missing."""
    return MISSING if math.isnan(share) else f"{round(100 * share, 1) + 0.0:+.1f}"
