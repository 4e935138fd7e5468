"""Link prediction on real graphs: Base, DropEdge, TuneUp and its ablations, in every setting.

    TUNEUP_DATA=... python -m benchmarks.link_graphs run            # all, resumes where it stopped
    TUNEUP_DATA=... python -m benchmarks.link_graphs run dblp sage  # one dataset and architecture
    TUNEUP_DATA=... python -m benchmarks.link_graphs run dblp --fresh    # its records removed first
    python -m benchmarks.real_tables                                # into benchmarks/README.md

The paper's split: half of the edges among known nodes for training.  The L2 weight is chosen once
per graph and architecture on Base, alpha (0.25, 0.5 or 0.75) per method, both on training seed 0's
validation recall@50, that of 500 sources; the test ranks all nodes for every source.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuneup.bench.problems import Problem
from tuneup.curriculum import CURRICULA, Schedule
from tuneup.data import load_benchmark
from tuneup.data.edge_split import split_edges
from tuneup.evaluation.edge_settings import link_settings
from tuneup.methods import Setup
from tuneup.nn import EncoderSpec, HadamardMLP, LinkModel
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2

from .records import ROOT
from .suite import Suite
from .suite_command import command

RESULTS = ROOT / "benchmarks" / "results" / "link-prediction"
DATASETS = ("dblp", "CS")
ARCHITECTURES = ("sage", "gcn")
METHODS = tuple(name for name in CURRICULA if name != "without-pseudo-labels")  # it is TuneUp here
SEEDS = (0, 1, 2)
PENALTIES = (0.0, 0.001, 0.01)
WIDTH, EMBEDDING, DECODER_WIDTH = 256, 64, 64
"""Hidden states as wide as the paper's; embeddings and decoder of width 64 make the exact ranking
of all pairs sixteen times as fast as those of 256."""
SCHEDULES = (
    Schedule(epochs=150, lr=0.002, validate_every=5, patience=30),
    Schedule(epochs=100, lr=0.001, validate_every=5, patience=30),
)


def suite(dataset: str, architecture: str) -> Suite:
    """All rows of one dataset and architecture; data is read when the first run needs it."""

    def problem(penalty: float) -> Problem:
        graph = load_benchmark(dataset)
        split = split_edges(graph.adjacency)
        first, second = SCHEDULES
        setup = Setup(
            LinkPrediction.from_split(graph, split, L2(output=penalty)),
            EncoderSpec(
                graph.num_features,
                EMBEDDING,
                architecture,  # type: ignore[arg-type]
                width=WIDTH,
            ),
            lambda encoder: LinkModel(encoder, HadamardMLP(EMBEDDING, DECODER_WIDTH)),
            pretrain=first,
            finetune=second,
        )
        return Problem(dataset, graph, setup, link_settings(graph, split))

    return Suite(
        dataset,
        "link-prediction",
        architecture,
        RESULTS,
        "l2",
        PENALTIES,
        problem,
        METHODS,
        SEEDS,
        {
            "width": WIDTH,
            "embedding": EMBEDDING,
            "decoder_width": DECODER_WIDTH,
            "layers": 3,
            "split_seed": 0,
        },
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """``run [dataset [architecture]] [--fresh]``."""
    command("python -m benchmarks.link_graphs", arguments, suite, DATASETS, ARCHITECTURES)


if __name__ == "__main__":
    main()
