"""Blocks of results as rows and columns, for whoever counts on with them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from tuneup.evaluation import Gain, MeanStd

from .conditions import conditions
from .paper import Published, published_score
from .published import PaperBlock
from .rows import Row
from .tables import METRICS, Block

COLUMNS: Mapping[str, type[pl.DataType]] = {
    "dataset": pl.String,
    "task": pl.String,
    "architecture": pl.String,
    "preset": pl.String,
    "method": pl.String,
    "setting": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "std": pl.Float64,
    "seeds": pl.Int64,
    "trials": pl.Int64,
    "chosen": pl.String,
    "means_only": pl.Int64,
    "paper_mean": pl.Float64,
    "paper_std": pl.Float64,
    "paper_text": pl.String,
    "gain_over_base": pl.Float64,
    "gain_low": pl.Float64,
    "gain_high": pl.Float64,
    "relative_gain_over_base": pl.Float64,
    "tuneup_minus_this": pl.Float64,
    "tuneup_minus_this_low": pl.Float64,
    "tuneup_minus_this_high": pl.Float64,
    # It is about these trained models: how others vary with the seed is not in it.
    "tuneup_minus_this_p_over_nodes": pl.Float64,
    "deviation": pl.String,
    "conditions": pl.String,
}
"""What each row says; nothing where there is nothing to say."""


def frame(blocks: Iterable[Block], theirs: Iterable[PaperBlock] = ()) -> pl.DataFrame:
    """One row a cell, run or not, and then those that only the paper has."""
    rows = [cell for block in blocks for row in block.rows for cell in _cells(block, row)]
    rows += [cell for block in theirs for cell in _paper_cells(block)]
    return pl.DataFrame(rows, schema=dict(COLUMNS))


def csv(blocks: Iterable[Block], theirs: Iterable[PaperBlock] = ()) -> str:
    """:func:`frame` as text."""
    buffer = io.StringIO()
    frame(blocks, theirs).write_csv(buffer)
    return buffer.getvalue()


def _cells(block: Block, row: Row) -> Iterator[dict[str, Any]]:
    for name in block.settings:
        cell = row.cells.get(name)
        where = (block.dataset, block.task, block.architecture)
        yield {
            **_place(*where, row.method, name),
            "preset": block.preset,
            "seeds": len(row.records),
            "trials": row.trials if row.records else None,
            "chosen": row.chosen,
            "means_only": len(row.means_only),
            **_score(cell.score if cell else None),
            **_paper(published_score(*where, row.method, name)),
            **_over_base(cell.over_base if cell else None),
            **_under_tuneup(cell.under_tuneup if cell else None),
            "tuneup_minus_this_p_over_nodes": block.p_value(row.method, "tuneup", name),
            "deviation": row.deviation,
            "conditions": conditions(block),
        }


def _paper_cells(block: PaperBlock) -> Iterator[dict[str, Any]]:
    where = (block.dataset, block.task, block.architecture)
    for method in block.methods:
        for name in block.settings:
            found = published_score(*where, method, name)
            yield _place(*where, method, name) | _paper(found) | {"deviation": "not run"}


def _place(dataset: str, task: str, architecture: str, method: str, setting: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "task": task,
        "architecture": architecture,
        "method": method,
        "setting": setting,
        "metric": METRICS[task],
    }


def _score(score: MeanStd | None) -> dict[str, Any]:
    if score is None:
        return {}
    return {"mean": score.mean, "std": None if math.isnan(score.std) else score.std}


def _paper(found: Published | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {"paper_mean": found.mean, "paper_std": found.std, "paper_text": found.text}


def _over_base(gain: Gain | None) -> dict[str, Any]:
    if gain is None:
        return {}
    return {
        "gain_over_base": gain.absolute,
        "gain_low": gain.low,
        "gain_high": gain.high,
        "relative_gain_over_base": gain.relative,
    }


def _under_tuneup(gain: Gain | None) -> dict[str, Any]:
    if gain is None:
        return {}
    return {
        "tuneup_minus_this": gain.absolute,
        "tuneup_minus_this_low": gain.low,
        "tuneup_minus_this_high": gain.high,
    }
