"""Count the modules of tuneup that one call passes, from its door to its result.

python -m benchmarks.hops            # a line for each of four doors
python -m benchmarks.hops --names    # with the modules behind each number

Each door is opened twice on a toy: once so that everything is imported, once counting the modules
in which a function runs. What only an import runs is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import polars as pl
import torch
from torch_geometric.data import Data

import tuneup
from tuneup.bench.runner import Suite, work
from tuneup.bench.store import Point, Store
from tuneup.cli import app
from tuneup.curriculum import Schedule
from tuneup.data import block_graph, split_nodes
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import Problem, node_problem

NODES = 200
BRIEF = Schedule(epochs=2, lr=0.01)
GRAPH = block_graph(NODES, 800, 2, 4)
SPLIT = split_nodes(NODES, labelled=0.5, y=GRAPH.y)


def python_fit(folder: Path) -> None:
    """``tuneup.fit`` with a module and data of PyG."""
    data = Data(x=GRAPH.x, y=GRAPH.y, edge_index=GRAPH.adjacency.edge_index)
    data.train_mask, data.val_mask = (torch.zeros(NODES, dtype=torch.bool) for _ in range(2))
    data.train_mask[SPLIT.train], data.val_mask[SPLIT.validation] = True, True
    tuneup.fit(tuneup.Encoder(4, 2, width=8), data, pretrain=BRIEF, finetune=BRIEF)


def command_fit(folder: Path) -> None:
    """``tuneup fit`` on a table of edges and one of nodes."""
    sender, receiver = GRAPH.adjacency.edge_index.numpy()
    pl.DataFrame({"source": sender, "target": receiver}).write_csv(folder / "edges.csv")
    columns = {f"f{k}": GRAPH.x[:, k].tolist() for k in range(4)}  # type: ignore[index]
    label = [f"c{k}" for k in GRAPH.y.tolist()]  # type: ignore[union-attr]
    nodes = pl.DataFrame({"id": range(NODES), **columns, "label": label})
    nodes.write_csv(folder / "nodes.csv")
    words = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "model")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        app(["fit", *words, "--epochs", "2", "--width", "8"], standalone_mode=False)


def predict_new(folder: Path) -> None:
    """A saved model, loaded, answers for a node that it has not seen."""
    predictor = tuneup.Predictor.load(folder / "model")
    predictor.predict_new(torch.zeros(1, 4), [[0, 1]]).to_frame()


def bench_cell(folder: Path) -> None:
    """One method with one seed, from its choice of settings to its record."""

    def problem(shared: Point) -> Problem:
        options = FitOptions(width=8, select="transductive")
        return node_problem(GRAPH, SPLIT, options).scheduled(BRIEF, BRIEF)

    suite = Suite(
        "node-classification",
        "toy",
        "sage",
        ("tuneup",),
        (0,),
        budget=1,
        grid=({"dropout": 0.0},),
        config={},
        build=problem,
    )
    work([suite], Store(folder / "records"), folder / "runs", lambda words: None)


DOORS: Mapping[str, tuple[Callable[[Path], None], int]] = {
    "tuneup.fit": (python_fit, 20),
    "tuneup fit": (command_fit, 60),
    "predict of a new node": (predict_new, 26),
    "one benchmark cell": (bench_cell, 30),
}
"""What is measured, and the most modules that it should pass."""


def modules_passed(door: Callable[[Path], None], folder: Path) -> list[str]:
    """Modules of tuneup in which a function runs."""
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        # Bodies of modules and classes are not optimised; they run once, at import.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            found.add(str(frame.f_globals.get("__name__", "")))

    sys.setprofile(note)
    try:
        door(folder)
    finally:
        sys.setprofile(None)
    return sorted(name for name in found if name.split(".")[0] == "tuneup")


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="name the modules too")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for title, (door, most) in DOORS.items():
            door(Path(first))
            found = modules_passed(door, Path(second))
            print(f"{title}: {len(found)} modules, at most {most} wanted")
            if names:
                print("  " + "\n  ".join(found))


if __name__ == "__main__":
    main()
