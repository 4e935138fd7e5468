"""Suites that train in a second."""

from tests.problems import link_prediction, node_classification, recommendation
from tuneup.bench.runner import Suite, work
from tuneup.curriculum import Schedule
from tuneup.data import block_graph, block_interactions

BRIEF = Schedule(epochs=2, lr=0.01)
METHODS = ("base", "dropedge", "tuneup", "without-syn-tails")


def toy(
    dataset="toy",
    task="node-classification",
    architecture="sage",
    methods=METHODS,
    seeds=2,
    budget=4,
    made=None,
    **more,
):
    """Of nodes, or of links; ``made`` gets every setting that a problem is made for."""
    kind = node_classification if task == "node-classification" else link_prediction

    def build(shared):
        if made is not None:
            made.append(shared)
        return kind(block_graph(200, 800, 2, 4), architecture).scheduled(BRIEF, BRIEF)

    given = {"grid": ({"dropout": 0.0}, {"dropout": 0.5}), "config": {"width": 128}, "build": build}
    return Suite(
        task, dataset, architecture, methods, list(range(seeds)), budget, **{**given, **more}
    )


def rows_of_pairs():
    """Base and TuneUp as a recommender, with one seed."""
    pairs = block_interactions(200, 150, 3000, 4)
    return Suite(
        "recommendation",
        "gowalla",
        "gcn",
        ("base", "tuneup"),
        [0],
        3,
        grid=({"l2": 0.03},),
        config={},
        build=lambda shared: recommendation(pairs, "gcn").scheduled(BRIEF, BRIEF),
    )


def make(suite, store, said=None):
    """Everything of a suite that the store lacks."""
    cache = store.folder.parent / "cache"
    work([suite], store, cache, (lambda words: None) if said is None else said.append)
