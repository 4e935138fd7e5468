"""``tuneup demo``."""

from __future__ import annotations

import time
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, get_args

import typer
from rich.console import Console

from tuneup.names import Architecture, TaskName
from tuneup.runtime import refuse_distributed, tune_malloc

from .options import SEED, listed, number_between, writable
from .progress import TensorBoardOption, followed
from .scores import print_scores

ArchitectureChoice = StrEnum("ArchitectureChoice", {n: n for n in get_args(Architecture)})  # type: ignore[misc]
TaskChoice = StrEnum("TaskChoice", {n: n for n in get_args(TaskName)})  # type: ignore[misc]

ArchitectureOption = Annotated[
    ArchitectureChoice | None,
    typer.Option(
        metavar="NAME",
        help=f"Which graph neural network: {listed(get_args(Architecture))}.",
        show_default="sage; gcn for recommendation",
    ),
]

NODES, PAIRS = TaskChoice("node-classification"), TaskChoice("recommendation")

DEFAULTS = {PAIRS: "gcn"}
"""Architectures where it is not SAGE: its mean forgets how popular an item is."""


SHOWN = ("transductive", "inductive", "cold-90")
"""Settings with a panel in the figure, of those that the task has."""


def command(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the report, the figure and the metrics.",
            show_default="runs/demo or runs/demo-TASK",
        ),
    ] = None,
    task: Annotated[
        TaskChoice,
        typer.Option(metavar="TASK", help=f"What is learned: {listed(get_args(TaskName))}."),
    ] = NODES,
    architecture: ArchitectureOption = None,
    alpha: Annotated[
        float,
        typer.Option(
            parser=number_between(0, 1),
            metavar="SHARE",
            help="Share of edges dropped in stage 2, from 0 to 1.",
        ),
    ] = 0.5,
    seed: Annotated[
        int, typer.Option(parser=SEED, metavar="SEED", help="Seed of the training.")
    ] = 0,
    graph_seed: Annotated[
        int, typer.Option(parser=SEED, metavar="SEED", help="Seed of the generated graph.")
    ] = 0,
    tensorboard: TensorBoardOption = None,
) -> None:
    """Train Base and TuneUp on a generated graph and show the gain per degree.

    The graph has groups, a few hubs and many nodes with few edges. Node classification has 10,000
    nodes in 10 classes, 1 % of them labelled for training; link prediction ranks 4,000 nodes as
    neighbours; recommendation ranks 4,000 items for 3,000 users.

    Takes a minute or two. Nothing is downloaded.
    """
    refuse_distributed()
    folder = out or Path("runs") / ("demo" if task == NODES else f"demo-{task}")
    named = architecture or DEFAULTS.get(task, "sage")
    with writable(folder), TemporaryDirectory() as scratch:
        log = Path(scratch) / "log.jsonl"
        _demo(folder, task, named, alpha, seed, graph_seed, log, tensorboard)


def _demo(
    out: Path,
    task: str,
    architecture: str,
    alpha: float,
    seed: int,
    graph_seed: int,
    log: Path,
    tensorboard: Path | None,
) -> None:
    # Imported here: --help and a wrong argument should not wait for matplotlib and PyG.
    from tuneup.report import degree_figure
    from tuneup.train import JsonLines
    from tuneup.workflow.demo import demo_problem, run_demo, write_demo

    tune_malloc()
    console = Console()
    start = time.perf_counter()
    names = ("Stage 1, Base", "Stage 2, TuneUp")
    problem = demo_problem(task, graph_seed, architecture)  # type: ignore[arg-type]
    console.print(problem.description, highlight=False)
    with followed(console, names, JsonLines(log), tensorboard) as callback:
        demo = run_demo(problem, seed=seed, alpha=alpha, callback=callback)
    curves = {
        method: [scores[name] for name in SHOWN if name in scores]
        for method, scores in (("Base", demo.base), ("TuneUp", demo.tuneup))
    }
    title = f"{problem.name}, {architecture}: {problem.task.metric} by degree"
    print_scores(console, demo)

    def draw(path: Path) -> None:
        degree_figure(curves, path, title=title, unit=problem.unit)

    drawable = find_spec("matplotlib") is not None
    for path in write_demo(demo, out, draw if drawable else None, log):
        console.print(f"wrote {path}", highlight=False)
    if not drawable:
        install = "pip install 'tuneup-gnn[report]'"
        console.print(f"No figure: matplotlib is not installed; {install}", markup=False)
    console.print(f"done in {time.perf_counter() - start:.0f} s", highlight=False)
    page = out / "report.html"
    console.print(f"Open {page} in a browser to see it all.", highlight=False, soft_wrap=True)
