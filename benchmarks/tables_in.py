"""Reading users' tables against what polars alone needs for the same files.

python -m benchmarks.tables_in            # 1 M edges, 100 k nodes, 50 features, CSV; 5 rounds
python -m benchmarks.tables_in --quick    # a hundredth of that, one round, nothing recorded

Ours reads, guesses columns, maps ids, checks everything and builds the graph and its features;
polars reads both files and groups edges by either end and nodes by id.  Every measurement is a
fresh process; times are taken after the imports, in turns, memory is the peak above that after the
imports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tuneup.files import write_atomic
from tuneup.runtime import tuned_environ

from . import machine
from .records import ROOT
from .sections import join, unmeasured

RESULT = ROOT / "benchmarks" / "results" / "tables-in.json"
WAYS = ("polars", "tuneup")
GOAL = 3.0
"""At most this many times polars' time, and the files' bytes."""


def write_tables(folder: Path, nodes: int, edges: int, features: int) -> None:
    """Random tables, ids in random order, numbers with six decimals."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    ids = random.permutation(nodes)
    ends = {name: ids[random.integers(0, nodes, edges)] for name in ("source", "target")}
    pl.DataFrame(ends).write_csv(folder / "edges.csv")
    columns = {f"f{i}": random.standard_normal(nodes) for i in range(features)}
    table = pl.DataFrame({"id": ids, "label": random.integers(0, 10, nodes), **columns})
    table.write_csv(folder / "nodes.csv", float_precision=6)


def measure(way: str, folder: Path) -> dict[str, float]:
    """Seconds and peak bytes of one reading, in this process."""
    import polars as pl

    from tuneup.tables import TableRequest, read_tables

    edges, nodes = str(folder / "edges.csv"), str(folder / "nodes.csv")
    before = machine.settle()
    start = time.perf_counter()
    if way == "polars":
        table = pl.read_csv(edges)
        found = pl.read_csv(nodes)
        counts = [table.group_by(name).len() for name in ("source", "target")]
        counts.append(found.group_by("id").len())
    else:
        read_tables(TableRequest(edges=(edges,), nodes=(nodes,)))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": machine.peak_resident() - before}


def run(nodes: int, edges: int, features: int, rounds: int) -> dict[str, object]:
    """All rounds, polars and ours in turns."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, nodes, edges, features)
        size = sum(path.stat().st_size for path in folder.iterdir())
        for _ in range(rounds):
            for way in WAYS:
                command = [sys.executable, "-m", "benchmarks.tables_in", "--one", way, name]
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=tuned_environ(),  # as `tuneup fit` starts itself
                    capture_output=True,
                    text=True,
                    check=True,
                )
                found[way].append(json.loads(done.stdout))
    return {
        "command": "python -m benchmarks.tables_in",
        "machine": machine.describe(),
        "nodes": nodes,
        "edges": edges,
        "features": features,
        "file_bytes": size,
        "rounds": found,
        "time_ratio": _median(found["tuneup"], "seconds") / _median(found["polars"], "seconds"),
        "memory_ratio": _median(found["tuneup"], "bytes") / size,
    }


def _median(rounds: Sequence[dict[str, float]], name: str) -> float:
    return statistics.median(each[name] for each in rounds)


def show(record: dict[str, object]) -> str:
    """A table for people."""
    rounds, size = record["rounds"], record["file_bytes"]
    assert isinstance(rounds, dict)
    assert isinstance(size, int)
    lines = ["| | seconds | peak memory, MB | of the files' bytes |", "|---|---|---|---|"]
    for way in WAYS:
        peak = _median(rounds[way], "bytes")
        lines.append(
            f"| {way} | {_median(rounds[way], 'seconds'):.2f} | {peak / 1e6:.0f} | "
            f"{peak / size:.2f} |"
        )
    lines.append("")
    for name, what in (("time_ratio", "polars' time"), ("memory_ratio", "the files' bytes")):
        ratio = record[name]
        assert isinstance(ratio, float)
        verdict = "reached" if ratio <= GOAL else "**missed**"
        lines.append(f"Goal: at most {GOAL:g} times {what}. It is {ratio:.2f}: {verdict}.")
    return "\n".join(lines)


def section(path: Path = RESULT) -> str:
    """The record as Markdown."""
    if not path.exists():
        return unmeasured("benchmarks.tables_in", "benchmarks.real_tables")
    record = json.loads(path.read_text())
    here = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    return join(f"`{record['command']}`: {here}.", show(record))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables_in")
    parser.add_argument("--quick", action="store_true", help="small tables, nothing recorded")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure(options.one[0], Path(options.one[1]))))
        return
    if options.quick:
        print(show(run(1_000, 10_000, 50, 1)))
        return
    record = run(100_000, 1_000_000, 50, options.rounds)
    write_atomic(RESULT, json.dumps(record, indent=1) + "\n")
    print(show(record))


if __name__ == "__main__":
    main()
