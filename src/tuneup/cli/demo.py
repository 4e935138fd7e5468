"""``tuneup demo``."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from tuneup.files import output_folder
from tuneup.names import Architecture
from tuneup.runtime import tune_malloc

from .progress import TrainingProgress

ArchitectureName = StrEnum("ArchitectureName", {n: n for n in get_args(Architecture)})  # type: ignore[misc]

SAGE = ArchitectureName("sage")


def command(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the metrics.")] = Path(
        "runs/demo"
    ),
    architecture: Annotated[
        ArchitectureName, typer.Option(help="Which graph neural network.")
    ] = SAGE,
    alpha: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of edges dropped in stage 2.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    graph_seed: Annotated[int, typer.Option(min=0, help="Seed of the generated graph.")] = 0,
) -> None:
    """Train Base and TuneUp on a generated graph and show the gain per degree.

    The graph has 10,000 nodes in 10 classes, a few hubs and many nodes with few edges; 1 % of the
    nodes are labelled for training. Takes less than a minute; nothing is downloaded.
    """
    with output_folder(out):
        _demo(out, architecture, alpha, seed, graph_seed)


def _demo(out: Path, architecture: str, alpha: float, seed: int, graph_seed: int) -> None:
    # Imported here: --help and a wrong argument should not wait for matplotlib and PyG.
    from tuneup.bench.demo import run_demo, write_demo
    from tuneup.data import demo_graph
    from tuneup.report import comparison_table, degree_figure

    tune_malloc()
    console = Console()
    start = time.perf_counter()
    names = ("Stage 1, Base", "Stage 2, TuneUp")
    graph = demo_graph(graph_seed)
    console.print(repr(graph), highlight=False)
    with TrainingProgress(console, names) as progress:
        demo = run_demo(graph, seed=seed, alpha=alpha, architecture=architecture, callback=progress)
    curves = {
        method: [scores[name] for name in ("transductive", "inductive", "cold-90")]
        for method, scores in (("Base", demo.base), ("TuneUp", demo.tuneup))
    }
    title = f"{demo.graph.name}, {architecture}: accuracy by degree"
    files = write_demo(demo, out, lambda path: degree_figure(curves, path, title=title))
    console.print(comparison_table(demo.base, {"TuneUp": demo.tuneup}))
    if demo.result.record.winner == 0:
        console.print("Stage 2 validated worse than stage 1, so TuneUp kept the base model.")
    for path in files:
        console.print(f"wrote {path}", highlight=False)
    console.print(f"done in {time.perf_counter() - start:.0f} s", highlight=False)
