"""The paper's published numbers, and what each of its tables shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import polars as pl

from tuneup.errors import InputError
from tuneup.methods.titles import PAPER_TITLES

_METHODS = {theirs: ours for ours, theirs in PAPER_TITLES.items()}
_DATASETS = {"arxiv": "ogbn-arxiv", "products": "ogbn-products"}


@dataclass(frozen=True)
class Published:
    """One number of the paper; ``text`` where it is none ("OOM", "n/a")."""

    mean: float | None
    std: float | None
    text: str


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: which task, architectures, methods and settings it has."""

    name: str
    blocks: tuple[tuple[str, str], ...]
    """(task, architecture), in the paper's order"""
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    """by task"""


@cache
def published() -> pl.DataFrame:
    """All of it: table, task, dataset, architecture, method, setting, mean (text), std."""
    text = (files("tuneup.bench") / "paper.csv").read_bytes()
    return pl.read_csv(text).with_columns(
        pl.col("method").replace_strict(_METHODS),
        pl.col("dataset").replace(_DATASETS),
        pl.col("setting").str.replace("inductive-cold", "cold", literal=True),
        # A name that the paper itself misspells.
        pl.col("table").str.replace("linkprerd", "linkpred", literal=True),
    )


def paper_tables() -> tuple[str, ...]:
    """Names of the tables."""
    return tuple(published()["table"].unique(maintain_order=True))


def paper_table(name: str) -> PaperTable:
    """A table by its name."""
    if name not in paper_tables():
        raise InputError(f"The paper has no table {name!r}; it has {', '.join(paper_tables())}.")
    rows = published().filter(pl.col("table") == name)

    def seen(column: str) -> tuple[str, ...]:
        return tuple(rows[column].unique(maintain_order=True))

    blocks = tuple(rows.select("task", "architecture").unique(maintain_order=True).rows())
    settings = {
        task: tuple(rows.filter(pl.col("task") == task)["setting"].unique(maintain_order=True))
        for task in seen("task")
    }
    return PaperTable(name, blocks, seen("dataset"), seen("method"), settings)


def published_score(
    dataset: str, task: str, architecture: str, method: str, setting: str
) -> Published | None:
    """The paper's number for a cell, from whichever table has it; ``None`` if none has."""
    return _by_cell().get((dataset, task, architecture, method, setting))


@cache
def _by_cell() -> dict[tuple[str, ...], Published]:
    """Every cell's number, of the first table that has it."""
    cell = ("dataset", "task", "architecture", "method", "setting")
    found: dict[tuple[str, ...], Published] = {}
    for row in published().iter_rows(named=True):
        found.setdefault(tuple(row[name] for name in cell), _number(row["mean"], row["std"]))
    return found


def _number(text: str, std: float | None) -> Published:
    try:
        return Published(float(text), std, text)
    except ValueError:
        return Published(None, None, text)
