"""The demo: Base and TuneUp on a graph made from a seed, evaluated in every setting."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from tuneup.data import (
    demo_graph,
    demo_interactions,
    demo_link_graph,
    split_edges,
    split_interactions,
    split_nodes,
)
from tuneup.files import atomic_path, ensure_writable, uninterrupted, write_atomic
from tuneup.names import Alpha, Architecture, TaskName
from tuneup.tasks import Task
from tuneup.train import Callback, Result
from tuneup.train.logs import LOG_FILE

from .fit import fit
from .options import FitOptions
from .outcome import Outcome
from .problems import Problem, link_problem, node_problem, pair_problem
from .run_folders import METRICS_FILE, write_run_files

FILES = ("degrees.png", LOG_FILE, METRICS_FILE, "pseudo-labels.parquet", "report.html")
"""What a demo may write besides scores; files of an earlier run that this one lacks are removed."""


EPOCHS = 200
"""Most epochs of a stage of the demo."""


def demo_problem(
    task: TaskName, graph_seed: int, architecture: Architecture | None = None
) -> Problem:
    """A task's problem on the generated graph of a seed, with the paper's splits."""
    options = FitOptions(architecture=architecture, width=64, epochs=EPOCHS)
    if task == "recommendation":
        pairs = demo_interactions(graph_seed)
        found = pair_problem(pairs, split_interactions(pairs), options)
    elif task == "link-prediction":
        graph = demo_link_graph(graph_seed)
        found = link_problem(graph, split_edges(graph.adjacency), options)
    else:
        graph = demo_graph(graph_seed)
        split = split_nodes(graph.num_nodes, labelled=0.02, y=graph.y)
        found = node_problem(graph, split, options)
    return replace(found, graph_seed=graph_seed)


def run_demo(
    problem: Problem, *, seed: int = 0, alpha: Alpha = 0.5, callback: Callback | None = None
) -> Outcome:
    """Train both stages once, stage 2 on synthetic tails alone as in the paper."""
    return fit(problem, FitOptions(alpha=alpha, whole=False, seed=seed), callback=callback)


def command_of(demo: Outcome) -> str:
    """What to type for the same demo; every option is named, as defaults may change."""
    setup = demo.problem.setup
    return (
        f"tuneup demo --task {setup.task_name} --architecture {setup.encoder.architecture} "
        f"--alpha {demo.alpha} --seed {demo.result.record.seed} "
        f"--graph-seed {demo.problem.graph_seed or 0}"
    )


def write_demo(
    demo: Outcome, folder: Path, draw: Callable[[Path], None] | None, log: Path | None = None
) -> list[Path]:
    """Metrics, scores, figure, log and report: all of them, or none and the folder as it was."""
    ensure_writable(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as temporary:
        scratch = Path(temporary)
        if draw is not None:
            draw(scratch / "degrees.png")
        metrics = demo.metrics(command_of(demo))
        write_run_files(demo, metrics, scratch, log=log)
        text = json.dumps(metrics, indent=1, allow_nan=False)
        write_atomic(scratch / METRICS_FILE, text + "\n")
        if demo.result.pseudo_labels:
            labels = scratch / "pseudo-labels.parquet"
            _write_pseudo_labels(labels, demo.result, demo.problem.task)
        made = sorted(scratch.iterdir())
        with uninterrupted():
            earlier = {folder / name for name in FILES} | {*folder.glob("scores-*.parquet")}
            for stale in earlier - {folder / path.name for path in made}:
                stale.unlink(missing_ok=True)
            return [path.replace(folder / path.name) for path in made]


def _write_pseudo_labels(path: Path, result: Result, task: Task[Any]) -> None:
    """Which node (by global id) was given which label, with what confidence, before which stage."""
    ids = task.graph.global_ids
    parts = [
        pl.DataFrame(
            {
                "stage": pl.Series([stage + 1] * len(labels), dtype=pl.Int32),
                "node": ids[labels.nodes].cpu().numpy(),
                "label": labels.y.cpu().numpy(),
                "confidence": labels.confidence.cpu().numpy(),
            }
        )
        for stage, labels in result.pseudo_labels.items()
    ]
    with atomic_path(path) as partial:
        pl.concat(parts).write_parquet(partial)
