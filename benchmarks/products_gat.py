"""GAT on a graph of ogbn-products' size: one update of either stage, and the peak of memory.

    python -m benchmarks.products_gat              # about half an hour on two cores, 20 GB needed
    python -m benchmarks.products_gat --share 0.1  # a tenth of the graph, printed

The graph is generated in a process of its own and saved under ``runs``; a second process loads it
and trains GAT (3 layers, 4 heads x 16) by the library's own loop: one update of Base, pseudo-labels
for all other nodes, one update of TuneUp's second stage on half of the edges.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tuneup.curriculum import Schedule, tuneup
from tuneup.data import Graph, block_graph, split_nodes
from tuneup.files import atomic_path, write_atomic
from tuneup.graph import Adjacency
from tuneup.nn import Encoder
from tuneup.report.table import markdown_table
from tuneup.runtime import peak_rss, tune_malloc, tuned_environ
from tuneup.tasks import NodeClassification
from tuneup.train import Progress, train

from .machine import describe
from .records import ROOT
from .sections import join

RESULTS = ROOT / "benchmarks" / "results" / "speed" / "products-gat.json"
NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
LIMIT = 20e9


def graph_file(share: float) -> Path:
    """Where the generated graph is kept."""
    return ROOT / "runs" / f"products-{share:g}.safetensors"


def generate(share: float) -> None:
    """Draw the graph and keep its arrays."""
    data = block_graph(round(share * NODES), round(share * EDGES), CLASSES, FEATURES)
    assert isinstance(data.x, torch.Tensor)
    assert data.y is not None
    graph = data.adjacency
    path = graph_file(share)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"rowptr": graph.rowptr, "col": graph.col.int(), "x": data.x, "y": data.y}
    with atomic_path(path) as partial:
        save_file(arrays, partial)


def measure(share: float) -> dict[str, object]:
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


def section(path: Path = RESULTS) -> str:
    """As Markdown."""
    if not path.exists():
        return (
            "Not measured yet: run `python -m benchmarks.products_gat`, then "
            "`python -m benchmarks.real_tables`."
        )
    found = json.loads(path.read_text())
    return join(
        f"`python -m benchmarks.products_gat`: {NODES:,} nodes and {EDGES:,} undirected edges "
        f"generated, of which training sees {found['nodes']:,} nodes and {found['entries'] // 2:,} "
        f"edges; {', '.join(f'{k} {v}' for k, v in found['machine'].items())}.",
        text_of(found),
    )


def text_of(found: dict[str, object]) -> str:
    """The updates, and whether all of it stayed below the limit."""
    updates, peak = found["updates"], found["peak"]
    assert isinstance(updates, list)
    assert isinstance(peak, int)
    rows = [
        [f"stage {u['stage']}", f"{u['seconds']:.0f}", f"{u['peak'] / 1e9:.1f}"] for u in updates
    ]
    heading = ("update, with its validation", "seconds", "peak of the process so far, GB")
    verdict = "reached" if peak < LIMIT else "**missed**"
    return join(
        markdown_table(heading, rows),
        f"Goal: below {LIMIT / 1e9:.0f} GB in all; the peak is {peak / 1e9:.1f} GB: {verdict}.",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate, measure, record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.products_gat",
        description="Memory and time of GAT's two stages on a graph of ogbn-products' size.",
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the graph's size; printed")
    parser.add_argument("--step", choices=["generate", "measure"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step == "generate":
        generate(options.share)
        return
    if options.step == "measure":
        print(json.dumps(measure(options.share)))
        return

    def step(name: str) -> str:
        command = [sys.executable, "-m", "benchmarks.products_gat", "--step", name]
        done = subprocess.run(
            [*command, "--share", str(options.share)],
            cwd=ROOT,
            env=tuned_environ(),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{name} ended with code {done.returncode}: is there enough memory?")
        return done.stdout

    if not graph_file(options.share).exists():
        step("generate")
    found = json.loads(step("measure").splitlines()[-1])
    print(text_of(found))
    if options.share == 1.0:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(RESULTS, json.dumps({**found, "machine": describe()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
