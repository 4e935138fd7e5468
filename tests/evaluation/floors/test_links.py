"""Floors of link prediction, against loops over paths."""

from itertools import pairwise, product

import pytest

from tests.tasks.edge_toys import EDGES, GRAPH, link_model
from tuneup.evaluation import link_floors, link_settings

K = 20
SETTINGS = {each.name: each for each in link_settings(GRAPH, EDGES, metric=f"recall@{K}")}
FLOORS = {floor.name: floor for floor in link_floors(list(SETTINGS.values()))}


def degree(near, s, c):
    return len(near[c])


def common_neighbours(near, s, c):
    return len(near[s] & near[c])


def paths_of_three(near, s, c):
    return sum(
        (len(near[u]) * len(near[v])) ** -0.5 for u in near[s] for v in near[u] if c in near[v]
    )


ORACLES = {
    "degree": degree,
    "common-neighbours": common_neighbours,
    "paths-of-three": paths_of_three,
}


def lists(rows):
    bounds = rows.rowptr.tolist()
    return [set(rows.col[a:b].tolist()) for a, b in pairwise(bounds)]


def test_recall_of_a_sort():
    """Equals by degree, then by the smaller id; known nodes and the source are not ranked."""
    for name, setting in product(ORACLES, SETTINGS.values()):
        recall_of_a_sort(name, setting)


def recall_of_a_sort(name, setting):
    near = [set() for _ in range(setting.data.num_nodes)]
    for u, v in setting.data.adjacency.edge_index.t().tolist():
        near[v].add(u)
    expected = []
    for s, known, wanted in zip(
        setting.sources.tolist(), lists(setting.known), lists(setting.targets), strict=True
    ):
        order = sorted(
            (c for c in range(len(near)) if c not in known | {s}),
            # Rounded: equal on paper is equal, in whatever order it is added up.
            key=lambda c, s=s: (-round(ORACLES[name](near, s, c), 6), -len(near[c]), c),
        )
        expected.append(len(set(order[:K]) & wanted) / len(wanted))
    assert FLOORS[name].scores[setting.name].score.tolist() == pytest.approx(expected)
    assert len(set(expected)) > 5


def test_the_same_sources_degrees_and_metric_as_a_model():
    assert list(FLOORS) == list(ORACLES)
    model = link_model()
    for setting in SETTINGS.values():
        theirs = setting.score(model)
        for floor in FLOORS.values():
            ours = floor.scores[setting.name]
            assert (ours.setting, ours.metric) == (theirs.setting, theirs.metric)
            assert ours.nodes.equal(theirs.nodes)
            assert ours.degree.equal(theirs.degree)
            assert not floor.probabilities
