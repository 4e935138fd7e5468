"""Base, DropEdge, TuneUp and its ablations on real graphs, in every setting.

    TUNEUP_DATA=... python -m benchmarks.real_graphs run            # all, resumes where it stopped
    TUNEUP_DATA=... python -m benchmarks.real_graphs run dblp sage  # one dataset and architecture
    TUNEUP_DATA=... python -m benchmarks.real_graphs run dblp --fresh    # its records removed first
    python -m benchmarks.real_tables                                # into benchmarks/README.md

2 % of the nodes labelled, half for the loss and half for validation.  Dropout (0 or 0.5) is chosen
once per graph and architecture on Base, alpha (0.25, 0.5 or 0.75) per method, both on training
seed 0's validation accuracy; the test nodes are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuneup.bench.problems import Problem
from tuneup.curriculum import Schedule
from tuneup.data import load_benchmark, split_nodes
from tuneup.evaluation import node_settings
from tuneup.methods import Setup
from tuneup.nn import EncoderSpec
from tuneup.tasks import NodeClassification

from .records import ROOT
from .suite import Suite
from .suite_command import command

RESULTS = ROOT / "benchmarks" / "results" / "node-classification"
DATASETS = ("dblp", "Computers", "CS")
ARCHITECTURES = ("sage", "gcn")
DROPOUTS = (0.0, 0.5)
SLOW = (
    Schedule(epochs=300, lr=0.001, validate_every=2, patience=60),
    Schedule(epochs=150, lr=0.001, validate_every=2, patience=40),
)
# Computers has ten times dblp's edges, CS four times its features: a faster rate for these.
FAST = (
    Schedule(epochs=300, lr=0.005, validate_every=4, patience=40),
    Schedule(epochs=150, lr=0.001, validate_every=4, patience=40),
)
SCHEDULES = {"dblp": SLOW, "Computers": FAST, "CS": FAST}
"""Of stage 1 and stage 2; the same for every method."""


def suite(dataset: str, architecture: str) -> Suite:
    """All rows of one dataset and architecture; data is read when the first run needs it."""

    def problem(dropout: float) -> Problem:
        graph = load_benchmark(dataset)
        split = split_nodes(graph.num_nodes, labelled=0.02, y=graph.y)
        first, second = SCHEDULES[dataset]
        setup = Setup(
            NodeClassification.from_split(graph, split),
            EncoderSpec(
                graph.num_features,
                graph.num_classes,
                architecture,  # type: ignore[arg-type]
                dropout=dropout,
            ),
            pretrain=first,
            finetune=second,
        )
        return Problem(dataset, graph, setup, node_settings(graph, split))

    return Suite(
        dataset,
        "node-classification",
        architecture,
        RESULTS,
        "dropout",
        DROPOUTS,
        problem,
        config={"width": 256, "layers": 3, "labelled": 0.02, "split_seed": 0},
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """``run [dataset [architecture]] [--fresh]``."""
    command("python -m benchmarks.real_graphs", arguments, suite, DATASETS, ARCHITECTURES)


if __name__ == "__main__":
    main()
