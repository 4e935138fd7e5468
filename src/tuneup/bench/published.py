"""The paper's own tables of graphs that we have no records of, to read ours beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from .gains import SETTINGS, paper_gain
from .paper import ROWS, published, published_score, title_of
from .tables import METRICS, Block


@dataclass(frozen=True)
class PaperBlock:
    """The rows that the paper has of one dataset, task and architecture."""

    dataset: str
    task: str
    architecture: str
    methods: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def title(self) -> str:
        """``The paper's ogbn-arxiv, node-classification, gcn``."""
        return f"The paper's {self.dataset}, {self.task}, {self.architecture}"

    @property
    def heading(self) -> list[str]:
        """Of the columns."""
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
        return [*rows, ["TuneUp over Base, %", *gains]] if any(gains) else rows


def paper_blocks(blocks: Iterable[Block]) -> list[PaperBlock]:
    """Of the same tasks, architectures, rows and columns, but those that stand beside ours."""
    ours = list(blocks)
    beside = {(block.task, block.architecture, block.dataset) for block in ours}
    found = []
    for task, architecture in dict.fromkeys((block.task, block.architecture) for block in ours):
        shown = ours[0].shown
        methods = ROWS if shown is None else shown.methods
        settings = SETTINGS if shown is None else shown.settings[task]
        mine = (pl.col("task") == task) & (pl.col("architecture") == architecture)
        for (dataset,), own in published().filter(mine).group_by("dataset", maintain_order=True):
            if (task, architecture, dataset) not in beside:
                rows = tuple(name for name in methods if name in set(own["method"]))
                columns = tuple(name for name in settings if name in set(own["setting"]))
                found.append(PaperBlock(str(dataset), task, architecture, rows, columns))
    return found


def paper_text(dataset: str, task: str, architecture: str, method: str, setting: str) -> str:
    """The paper's number for a cell, in %, or its word for it; empty where it has none."""
    found = published_score(dataset, task, architecture, method, setting)
    if found is None:
        return ""
    if found.mean is None:
        return found.text
    spread = "" if found.std is None else f" ± {100 * found.std:.2f}"
    return f"{100 * found.mean:.2f}{spread}"
