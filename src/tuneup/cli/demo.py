"""``tuneup demo``."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console

from tuneup.names import Architecture, TaskName
from tuneup.runtime import refuse_distributed, tune_malloc

from .options import SEED, listed, number_between, writable
from .progress import TensorBoardOption, followed, print_scores

if TYPE_CHECKING:
    from tuneup.workflow.outcome import Outcome
    from tuneup.workflow.problems import Problem

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
        TaskName,
        typer.Option(metavar="TASK", help=f"What is learned: {listed(get_args(TaskName))}."),
    ] = "node-classification",
    architecture: Annotated[
        Architecture | None,
        typer.Option(
            metavar="NAME",
            help=f"Which graph neural network: {listed(get_args(Architecture))}.",
            show_default="sage; gcn for recommendation",
        ),
    ] = None,
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
    folder = out or Path("runs") / ("demo" if task == "node-classification" else f"demo-{task}")
    with writable(folder):
        # Imported here: --help and a wrong argument should not wait for matplotlib and PyG.
        from tuneup.workflow.demo import demo_problem

        tune_malloc()
        _demo(demo_problem(task, graph_seed, architecture), folder, alpha, seed, tensorboard)


def _demo(problem: Problem, out: Path, alpha: float, seed: int, tensorboard: Path | None) -> None:
    from tuneup.train import JsonLines
    from tuneup.workflow.demo import run_demo, write_demo

    console, start = Console(), time.perf_counter()
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    say(problem.description)
    with TemporaryDirectory() as scratch:
        log = JsonLines(Path(scratch) / "log.jsonl")
        with followed(console, ("Base", "Stage 2"), log, tensorboard) as callback:
            demo = run_demo(problem, seed=seed, alpha=alpha, callback=callback)
        print_scores(console, demo.summary)
        drawable = find_spec("matplotlib") is not None
        for path in write_demo(demo, out, partial(_draw, demo) if drawable else None, log.path):
            say(f"wrote {path}")
    if not drawable:
        say("No figure: matplotlib is not installed; pip install 'tuneup-gnn[report]'")
    say(f"done in {time.perf_counter() - start:.0f} s")
    say(f"Open {out / 'report.html'} in a browser to see it all.")


def _draw(demo: Outcome, path: Path) -> None:
    """Draw the scores by degree of Base and the result."""
    from tuneup.report import degree_figure

    problem = demo.problem
    title = f"{problem.name}, {problem.setup.encoder.architecture}: {problem.task.metric} by degree"
    curves = {
        model: [scores[name] for name in SHOWN if name in scores]
        for model, scores in (("Base", demo.base), ("Result", demo.tuneup))
    }
    degree_figure(curves, path, title=title, unit=problem.unit)
