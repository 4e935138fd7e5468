"""Reading users' tables against what polars alone needs for the same files.

Ours reads, guesses columns, maps ids, checks everything and builds the graph and its features;
polars reads both files and groups edges by either end and nodes by id.  Times are taken after the
imports, memory is the peak above that after the imports.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from tuneup.report.table import markdown_table
from tuneup.tables import TableRequest, read_tables

from .harness import (
    Benchmark,
    Case,
    Found,
    Record,
    epoch_seconds,
    goal,
    goals,
    join,
    peak_bytes,
    peak_resident,
    settle,
)

GOAL = 3.0
"""At most this many times polars' time, and the files' bytes."""


def cases(quick: bool) -> list[Case]:
    """1 M edges and 100 k nodes with 50 features, or a hundredth of that."""
    edges = 10_000 if quick else 1_000_000
    return [{"way": way, "nodes": edges // 10, "edges": edges} for way in ("polars", "tuneup")]


def write_tables(folder: Path, nodes: int, edges: int, features: int) -> None:
    """Random tables, ids in random order, numbers with six decimals."""
    random = np.random.default_rng(0)
    ids = random.permutation(nodes)
    ends = {name: ids[random.integers(0, nodes, edges)] for name in ("source", "target")}
    pl.DataFrame(ends).write_csv(folder / "edges.csv")
    columns = {f"f{i}": random.standard_normal(nodes) for i in range(features)}
    table = pl.DataFrame({"id": ids, "label": random.integers(0, 10, nodes), **columns})
    table.write_csv(folder / "nodes.csv", float_precision=6)


def measure(case: Case) -> Found:
    """Seconds and peak bytes of one reading."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, case["nodes"], case["edges"], 50)
        edges, nodes = str(folder / "edges.csv"), str(folder / "nodes.csv")
        _ = read_tables  # imported before the clock starts
        before, start = settle(), time.perf_counter()
        if case["way"] == "polars":
            table, found = pl.read_csv(edges), pl.read_csv(nodes)
            _ = [table.group_by(name).len() for name in ("source", "target")]
            _ = found.group_by("id").len()
        else:
            read_tables(TableRequest(edges=(edges,), nodes=(nodes,)))
        seconds, peak = time.perf_counter() - start, peak_resident() - before
        size = sum(path.stat().st_size for path in folder.iterdir())
    return {"seconds": [seconds], "peak": peak, "file_bytes": size}


def report(record: Record) -> str:
    """Both ways, and the goals."""

    def share(found: Found) -> float:
        return float(found["peak"] / found["file_bytes"])

    (polars, _), (ours, _) = record.found
    rows = [
        [
            case["way"],
            record.spread(case, epoch_seconds).text(),
            record.spread(case, peak_bytes).text(0, 1e-6),
            record.spread(case, share).text(),
        ]
        for case in (polars, ours)
    ]
    heading = ("", "seconds", "peak memory, MB", "of the files' bytes")
    return join(
        markdown_table(heading, rows),
        goals(
            goal("time: tuneup / polars", record.ratio(ours, polars, epoch_seconds), GOAL),
            goal("memory / the files' bytes", record.spread(ours, share), GOAL),
        ),
    )


BENCHMARK = Benchmark("tables-in", "Reading tables", cases, measure, report)
