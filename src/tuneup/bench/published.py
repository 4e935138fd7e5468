"""The paper's own tables of graphs that we have no records of, to read ours beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tuneup.methods.titles import ROWS, title_of

from .gains import GAIN_ROW, PaperGain, paper_difference, paper_gain
from .paper import published, published_score
from .tables import METRICS, SETTINGS, Block


@dataclass(frozen=True)
class PaperBlock:
    """The rows that the paper has of one dataset, task and architecture."""

    dataset: str
    task: str
    architecture: str
    methods: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """``ogbn-arxiv, node-classification, gcn``."""
        return f"{self.dataset}, {self.task}, {self.architecture}"

    @property
    def title(self) -> str:
        """``The paper's ogbn-arxiv, node-classification, gcn``."""
        return f"The paper's {self.name}"

    @property
    def heading(self) -> list[str]:
        """The names of the columns: the metric, then the settings."""
        return [f"{METRICS[self.task]}, %", *self.settings]

    @property
    def lines(self) -> list[list[str]]:
        """One line a method, and TuneUp's relative gain over Base below them."""
        cell = (self.dataset, self.task, self.architecture)
        rows = [
            [title_of(method), *(paper_text(*cell, method, name) for name in self.settings)]
            for method in self.methods
        ]
        gains = [paper_gain(*cell, name) for name in self.settings]
        return [*rows, [GAIN_ROW, *gains]] if any(gains) else rows

    def gain(self, before: str, after: str, setting: str) -> PaperGain | None:
        """What ``after`` adds to ``before``, where the paper has numbers of both."""
        cell = (self.dataset, self.task, self.architecture)
        return paper_difference(*cell, before, after, setting)

    def lacking(self, *methods: str) -> Sequence[int]:
        """No seeds: the paper has five of whatever it has."""
        return ()


def paper_blocks(shown: Sequence[Block]) -> list[PaperBlock]:
    """All that the paper has of the tasks, architectures, rows and columns of ours."""
    found = []
    for task, architecture in dict.fromkeys((block.task, block.architecture) for block in shown):
        table = shown[0].shown
        methods = ROWS if table is None else table.methods
        settings = SETTINGS if table is None else table.settings[task]
        mine = (pl.col("task") == task) & (pl.col("architecture") == architecture)
        for (name,), own in published().filter(mine).group_by("dataset", maintain_order=True):
            rows = tuple(method for method in methods if method in set(own["method"]))
            columns = tuple(setting for setting in settings if setting in set(own["setting"]))
            found.append(PaperBlock(str(name), task, architecture, rows, columns))
    return found


def paper_alone(shown: Sequence[Block], datasets: Sequence[str] = ()) -> list[PaperBlock]:
    """Those of :func:`paper_blocks` whose graphs we did not run.

    Args:
        shown: our own, of all graphs or of the ``datasets``.
        datasets: those that are asked for; by default all.
    """
    run = {(block.task, block.architecture, block.dataset) for block in shown}
    return [
        block
        for block in paper_blocks(shown)
        if (not datasets or block.dataset in datasets)
        and (block.task, block.architecture, block.dataset) not in run
    ]


def paper_text(dataset: str, task: str, architecture: str, method: str, setting: str) -> str:
    """The paper's number for a cell, in %, or its word for it; empty where it has none."""
    found = published_score(dataset, task, architecture, method, setting)
    if found is None:
        return ""
    if found.mean is None:
        return found.text
    spread = "" if found.std is None else f" ± {100 * found.std:.2f}"
    return f"{100 * found.mean:.2f}{spread}"
