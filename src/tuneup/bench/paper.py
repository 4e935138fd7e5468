"""The paper's published numbers: rows of the long table whose ``whose`` is ``paper``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import polars as pl

from tuneup.errors import InputError

from .store import LONG


@dataclass(frozen=True)
class PaperTable:
    """What a table of the paper shows, in its order; settings by task, blocks (task, GNN)."""

    name: str
    blocks: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]


@cache
def published() -> pl.DataFrame:
    """Every number of the paper's tables; ``text`` where it is none ("OOM", "n/a")."""
    rows = pl.read_csv((files("tuneup.bench") / "paper.csv").read_bytes())
    fixed = {"whose": "paper", "study": "paper", "preset": "paper"}
    rows = rows.with_columns(
        *(pl.lit(value).alias(name) for name, value in fixed.items()),
        *(pl.lit(None, LONG[name]).alias(name) for name in ("run", "seed")),
        pl.when(pl.col("task") == "node-classification")
        .then(pl.lit("accuracy"))
        .otherwise(pl.lit("recall@50"))
        .alias("metric"),
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in LONG.items())


def paper_tables() -> tuple[str, ...]:
    """Names of the tables."""
    return tuple(published()["table"].unique(maintain_order=True))


def paper_table(name: str) -> PaperTable:
    """A table by its name."""
    if name not in paper_tables():
        raise InputError(f"--table: got {name!r}; expected one of {', '.join(paper_tables())}.")
    rows = published().filter(table=name)

    def seen(column: str, rows: pl.DataFrame = rows) -> tuple[str, ...]:
        return tuple(rows[column].unique(maintain_order=True))

    blocks = tuple(rows.select("task", "architecture").unique(maintain_order=True).rows())
    settings = {task: seen("setting", rows.filter(task=task)) for task in seen("task")}
    return PaperTable(name, blocks, seen("dataset"), seen("method"), settings)
