"""GAT on a graph of ogbn-products' size: one update of either stage, and the peak of memory.

The graph is generated in a process of its own and kept under ``runs``; another process loads it and
trains GAT (3 layers, 4 heads x 16) by the library's own loop: one update of Base, pseudo-labels for
all other nodes, one update of TuneUp's second stage on half of the edges.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tuneup.curriculum import Schedule, tuneup
from tuneup.data import Graph, block_graph, split_nodes
from tuneup.files import atomic_path
from tuneup.graph import Adjacency
from tuneup.nn import Encoder
from tuneup.report.table import markdown_table
from tuneup.runtime import peak_rss, tune_malloc
from tuneup.tasks import NodeClassification
from tuneup.train import Progress, train

from .harness import ROOT, Benchmark, Case, Found, Record, join

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
LIMIT = 20e9


def cases(quick: bool) -> list[Case]:
    """First the graph, then its training."""
    share = 0.01 if quick else 1.0
    return [{"step": step, "share": share} for step in ("generate", "train")]


def graph_file(share: float) -> Path:
    """Where the generated graph is kept."""
    return ROOT / "runs" / f"products-{share:g}.safetensors"


def measure(case: Case) -> Found:
    """Draw the graph, or one update of either stage: seconds, and the peak after each."""
    share: float = case["share"]
    return generate(share) if case["step"] == "generate" else updates(share)


def generate(share: float) -> Found:
    """Draw the graph and keep its arrays."""
    path = graph_file(share)
    if not path.exists():
        data = block_graph(round(share * NODES), round(share * EDGES), CLASSES, FEATURES)
        assert isinstance(data.x, torch.Tensor)
        assert data.y is not None
        graph = data.adjacency
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"rowptr": graph.rowptr, "col": graph.col.int(), "x": data.x, "y": data.y}
        with atomic_path(path) as partial:
            save_file(arrays, partial)
    return {}


def updates(share: float) -> Found:
    """One update of either stage; seconds, and the process' peak after each."""
    tune_malloc()
    kept = load_file(graph_file(share))
    nodes = kept["rowptr"].numel() - 1
    adjacency = Adjacency(kept["rowptr"], kept["col"].long(), nodes, undirected=True)
    data = Graph(adjacency, kept.pop("x"), kept.pop("y"), CLASSES, "products")
    del kept
    loaded = peak_rss()
    split = split_nodes(data.num_nodes, labelled=0.02, y=data.y)
    task = NodeClassification.from_split(data, split)
    del data, adjacency
    torch.manual_seed(0)
    model = Encoder(FEATURES, CLASSES, architecture="gat", width=64, heads=4)
    once = Schedule(epochs=1)
    said: list[dict[str, float]] = []
    begun = time.perf_counter()

    def tell(progress: Progress) -> None:
        said.append(
            {
                "stage": progress.stage,
                "seconds": round(progress.seconds, 1),
                "since start": round(time.perf_counter() - begun, 1),
                "loss": progress.loss,
                "peak": peak_rss(),
            }
        )

    train(model, task, tuneup(0.5, once, once), seed=0, callback=tell)
    return {
        "nodes": task.graph.num_nodes,
        "entries": int(task.graph.col.numel()),
        "loaded": loaded,
        "updates": said,
        "peak": peak_rss(),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def report(record: Record) -> str:
    """The updates, and whether all of it stayed below the limit."""
    found = record.of(record.case(step="train"))[0]
    rows = [
        [f"stage {u['stage']}", f"{u['seconds']:.0f}", f"{u['peak'] / 1e9:.1f}"]
        for u in found["updates"]
    ]
    heading = ("update, with its validation", "seconds", "peak of the process so far, GB")
    verdict = "reached" if found["peak"] < LIMIT else "**missed**"
    return join(
        f"Training sees {found['nodes']:,} nodes and {found['entries'] // 2:,} edges.",
        markdown_table(heading, rows),
        f"Goal: below {LIMIT / 1e9:.0f} GB in all; the peak is {found['peak'] / 1e9:.1f} GB: "
        f"{verdict}.",
    )


BENCHMARK = Benchmark(
    "products-gat", "GAT on a graph of ogbn-products' size", cases, measure, report, rounds=1
)
