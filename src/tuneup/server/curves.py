"""The degree curve of a saved model, from the scores that training left beside it."""

from __future__ import annotations

from typing import Any

import polars as pl

from .engine import Engine

_EDGES = (0, 1, 2, 5, 10, 20, 50, 100, 1000)
"""Upper ends of the groups of degrees."""
_FEWEST = 5
"""Nodes below which a group is not shown."""


def degree_curve(engine: Engine) -> dict[str, Any] | None:
    """Mean score and number of test nodes by degree; ``None`` without scores."""
    path = engine.folder / "scores-tuneup.parquet"
    if not path.is_file():
        return None
    try:
        frame = pl.read_parquet(path)
        setting = frame["setting"][0]
        frame = frame.filter(pl.col("setting") == setting)
        groups, low = [], 0
        for high in (*_EDGES, None):
            inside = pl.col("degree") >= low
            if high is not None:
                inside &= pl.col("degree") <= high
            own = frame.filter(inside & pl.col("score").is_not_nan())
            if own.height >= _FEWEST:
                mean = own["score"].mean()
                groups.append({"from": low, "to": high, "nodes": own.height, "score": mean})
            low = (high or 0) + 1
    except (pl.exceptions.PolarsError, OSError, IndexError):
        return None
    return {"metric": engine.metrics.get("metric", "score"), "setting": setting, "groups": groups}
