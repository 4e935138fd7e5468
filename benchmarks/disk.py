"""Writing graph folders: time and memory within a budget, and the engine that sorts.

An ingest reads a Parquet table of edges (power-law receivers) and one of nodes (32 features, a
label), with 1 GiB to spend; memory is the peak of anonymous memory of the process, imports
included, as files that are mapped belong to the system.  The engines sort both directions of the
same edges into a Parquet file.  A reader takes two-hop receptive fields and their features from the
folder in a process whose data segment is limited to less than the folder's size.
"""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import torch

from tuneup.data.disk import GraphFolder, write_graph
from tuneup.data.disk.engine import Engine, anonymous_memory
from tuneup.graph import receptive_field
from tuneup.report.table import markdown_table
from tuneup.tables import TableRequest
from tuneup.workflow.ingest import ingest

from .harness import Benchmark, Case, Found, Record, goal, goals, join

BUDGET = 1 << 30
_PART = 2_000_000
"""Edges of a file."""
_SEEDS = 256


def cases(quick: bool) -> list[Case]:
    """Ingests of two sizes ten times apart, the engines, and the reader under a limit."""
    sizes = (50_000, 500_000) if quick else (1_000_000, 10_000_000)
    sorted_edges = sizes[-1]
    return [
        *({"what": "ingest", "edges": edges} for edges in sizes),
        *({"what": f"sort by {engine}", "edges": sorted_edges} for engine in ("duckdb", "polars")),
        {"what": "read under a limit", "edges": sizes[-1]},
    ]


def write_edges(folder: Path, edges: int) -> int:
    """Files of edges in a folder of their own; the number of nodes."""
    nodes, random = max(100, edges // 10), np.random.default_rng(0)
    (folder / "edges").mkdir()
    for number, start in enumerate(range(0, edges, _PART)):
        count = min(_PART, edges - start)
        source = (nodes * random.random(count) ** 2).astype(np.int64)
        frame = pl.DataFrame({"source": source, "target": random.integers(0, nodes, count)})
        frame.write_parquet(folder / "edges" / f"{number:04}.parquet")
    return nodes


def write_nodes(folder: Path, nodes: int) -> None:
    """Files of nodes with 32 features and a label."""
    random = np.random.default_rng(1)
    (folder / "nodes").mkdir()
    for number, start in enumerate(range(0, nodes, _PART // 8)):
        count = min(_PART // 8, nodes - start)
        columns = {f"f{k}": random.standard_normal(count, dtype=np.float32) for k in range(32)}
        label = random.integers(0, 10, count)
        frame = pl.DataFrame({"id": np.arange(start, start + count), "label": label, **columns})
        frame.write_parquet(folder / "nodes" / f"{number:04}.parquet")


@contextmanager
def watched() -> Iterator[list[int]]:
    """The peak of anonymous memory while the block runs, looked at every 20 ms."""
    peak, over = [anonymous_memory()], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], anonymous_memory())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def measure(case: Case) -> Found:
    """Seconds, processor seconds, peak bytes, and the bytes that were written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if case["what"] == "read under a limit":
            return _read(folder, case["edges"])
        nodes = write_edges(folder, case["edges"])
        if case["what"] == "ingest":
            write_nodes(folder, nodes)
        _let_go()
        start, begun = time.perf_counter(), time.process_time()
        with watched() as peak:
            if case["what"] == "ingest":
                edges, table = str(folder / "edges"), str(folder / "nodes")
                request = TableRequest(edges=(edges,), nodes=(table,))
                written = _bytes_of(ingest(request, folder / "graph", memory=BUDGET))
            else:
                path = folder / "sorted.parquet"
                (_by_duckdb if case["what"].endswith("duckdb") else _by_polars)(folder, path)
                written = path.stat().st_size
        seconds, spent = time.perf_counter() - start, time.process_time() - begun
    return {"seconds": seconds, "busy": spent, "peak": peak[0], "bytes": written}


def _let_go() -> None:
    """Give back what generating the tables took."""
    from tuneup.runtime import forget_peak_rss

    forget_peak_rss()


def _bytes_of(folder: GraphFolder) -> int:
    return sum(info.bytes for info in folder.header.arrays.values())


def _by_duckdb(folder: Path, path: Path) -> None:
    engine = Engine(BUDGET, folder / "spill")
    files = f"read_parquet('{folder}/edges/*.parquet')"
    both = (
        f"SELECT target AS r, source AS s FROM {files} UNION ALL SELECT source, target FROM {files}"
    )
    engine.save(f"SELECT * FROM ({both}) ORDER BY r, s", path, ordered=False)
    engine.close()


def _by_polars(folder: Path, path: Path) -> None:
    edges = pl.scan_parquet(folder / "edges" / "*.parquet")
    ways = (("target", "source"), ("source", "target"))
    both = pl.concat([edges.select(r=first, s=second) for first, second in ways])
    both.sort("r", "s").sink_parquet(path, compression="snappy", engine="streaming")


def _read(folder: Path, edges: int) -> Found:
    """Fields and features out of a folder that is larger than what the process may allocate."""
    random = np.random.default_rng(0)
    nodes = max(100, edges // 10)
    pairs = np.lib.format.open_memmap(folder / "e.npy", mode="w+", dtype=np.int64, shape=(2, edges))
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (nodes, 512))
    for start in range(0, edges, _PART):
        count = min(_PART, edges - start)
        pairs[:, start : start + count] = random.integers(0, nodes, (2, count))
    for start in range(0, nodes, 50_000):
        x[start : start + 50_000] = random.standard_normal((min(50_000, nodes - start), 512))
    graph = write_graph(folder / "graph", pairs, nodes, x=x, memory=BUDGET)
    size = _bytes_of(graph)
    del pairs, x
    _let_go()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = anonymous_memory()
    limit = used + int(size / 1.5)
    resource.setrlimit(resource.RLIMIT_DATA, (_virtual_data() + int(size / 1.5), before[1]))
    began, begun = time.perf_counter(), time.process_time()
    taken = 0
    with watched() as peak:
        for number in range(20):
            torch.manual_seed(number)
            seeds = torch.randperm(nodes)[:_SEEDS]
            field = receptive_field(graph.neighbours, seeds, 1)
            rows = graph.x.take(field.nodes)
            assert isinstance(rows, torch.Tensor)
            taken += rows.nbytes + 8 * sum(block.num_entries for block in field.blocks)
    resource.setrlimit(resource.RLIMIT_DATA, before)
    spent = {"seconds": time.perf_counter() - began, "busy": time.process_time() - begun}
    return {**spent, "peak": peak[0], "bytes": size, "limit": limit, "taken": taken}


def _virtual_data() -> int:
    """Bytes that RLIMIT_DATA counts already: private memory that can be written."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))


def report(record: Record) -> str:
    """All cases, and whether the budget holds."""
    rows = []
    for case, _ in record.found:
        spreads = [
            record.spread(case, lambda found, key=key: float(found[key])).text(digits, scale)  # type: ignore[misc]
            for key, digits, scale in (
                ("seconds", 1, 1.0),
                ("busy", 1, 1.0),
                ("peak", 0, 2.0**-20),
                ("bytes", 0, 2.0**-20),
            )
        ]
        rows.append([case["what"], f"{case['edges']:,}", *spreads])
    heading = ("", "edges", "seconds", "processor, s", "peak anonymous, MiB", "written, MiB")
    large = record.found[1][0]
    return join(
        markdown_table(heading, rows),
        goals(
            goal(
                "memory / budget", record.spread(large, lambda found: found["peak"] / BUDGET), 1.0
            ),
        ),
    )


BENCHMARK = Benchmark("disk", "Graphs on disk", cases, measure, report, rounds=1)
