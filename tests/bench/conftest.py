"""A few records, for whoever shows some."""

from dataclasses import replace

import pytest

from tests.bench.test_suite import BRIEF
from tests.problems import node_classification, recommendation
from tuneup.bench.suite import Suite
from tuneup.data import block_graph, demo_interactions

METHODS = ("base", "dropedge", "tuneup")


def recorded_suite(folder, methods=METHODS):
    """The suite that made the records of nodes in a folder; it cannot train."""
    return Suite(
        "dblp",
        "node-classification",
        "gcn",
        {"dropout": (0.0, 0.5)},
        lambda shared: pytest.fail("nothing is loaded"),
        folder,
        folder.parent / "runs",
        methods,
        (0, 1, 2),
        3,
    )


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Three methods with three seeds on a small graph, under a dataset's name."""
    folder = tmp_path_factory.mktemp("recorded")
    data = block_graph(300, 1200, 3, 8)
    replace(
        recorded_suite(folder / "node-classification"),
        problem=lambda shared: node_classification(data, "gcn").scheduled(BRIEF, BRIEF),
    ).run_all()
    pairs = demo_interactions(0)
    Suite(
        "gowalla",
        "recommendation",
        "gcn",
        {"l2": (0.03,)},
        lambda shared: recommendation(pairs, "gcn").scheduled(BRIEF, BRIEF),
        folder / "recommendation",
        folder / "runs",
        ("base", "tuneup"),
        (0,),
        3,
    ).run_all()
    return folder
