"""Floors of node classification: against loops, on poisoned labels, and beside a model's scores."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.train.toy import small_encoder
from tuneup.data import Graph, block_graph, split_nodes
from tuneup.evaluation import node_floors, node_settings
from tuneup.graph import identities, sparse_features
from tuneup.metrics import correct
from tuneup.tasks import NodeClassification

NUM_NODES = 300
GRAPH = block_graph(NUM_NODES, 500, 3, 8, signal=2.0, seed=1)
SPLIT = split_nodes(NUM_NODES, labelled=0.4, new=0.2)
FEATURES = ("features-logistic", "features-boosted", "two-hop-logistic", "two-hop-boosted")
NAMES = ["majority", "neighbour-vote", *FEATURES]


def floors_of(graph, **options):
    task, settings = NodeClassification.from_split(graph, SPLIT), node_settings(graph, SPLIT)
    return {floor.name: floor for floor in node_floors(task, settings, **options)}


@pytest.fixture(scope="module")
def floors():
    return floors_of(GRAPH)


@pytest.fixture(scope="module")
def settings():
    return node_settings(GRAPH, SPLIT)


def test_the_same_nodes_degrees_and_metric_as_a_model(floors, settings):
    assert list(floors) == NAMES
    model = small_encoder()
    for setting in settings:
        theirs = setting.score(model)
        for floor in floors.values():
            ours, found = floor.scores[setting.name], floor.probabilities[setting.name]
            assert (ours.setting, ours.metric) == (theirs.setting, theirs.metric)
            assert ours.nodes.equal(theirs.nodes)
            assert ours.degree.equal(theirs.degree)
            assert found.shape == (setting.nodes.numel(), 3)
            torch.testing.assert_close(found.sum(1), torch.ones(len(found)))
            assert ours.score.equal(correct(found, setting.data.y[setting.nodes]))


def test_majority(floors, settings):
    (top, count), *_ = Counter(GRAPH.y[SPLIT.train].tolist()).most_common()
    for setting in settings:
        found = floors["majority"].probabilities[setting.name]
        assert set(found.argmax(1).tolist()) == {top}
        assert found[:, top].tolist() == pytest.approx([count / SPLIT.train.numel()] * len(found))


def test_neighbour_vote(floors, settings):
    """Of equals, and without a vote, the class with most training nodes."""
    train = {int(v): int(GRAPH.y[v]) for v in SPLIT.train}
    overall = Counter(train.values())
    ties = silent = 0
    for setting in settings:
        ids = setting.data.adjacency.global_ids.tolist()
        near = {v: [] for v in ids}
        for u, v in setting.data.adjacency.edge_index.t().tolist():
            near[ids[v]].append(ids[u])
        expected = []
        for v in setting.ids.tolist():
            votes = Counter(train[u] for u in near[v] if u in train)
            best = [c for c in range(3) if votes[c] == max(votes.values(), default=0)]
            ties, silent = ties + (len(best) == 2), silent + (not votes)
            expected.append(max(best, key=lambda c: overall[c]))
        assert floors["neighbour-vote"].probabilities[setting.name].argmax(1).tolist() == expected
    assert ties > 5
    assert silent > 5


def test_features_tell_more_than_chance(floors):
    for name in FEATURES:
        assert floors[name].note
        assert not floors[name].skipped
        for setting in ("transductive", "inductive"):
            majority = floors["majority"].scores[setting].mean()
            assert floors[name].scores[setting].mean() > majority + 0.15


@pytest.mark.parametrize("name", ["features-logistic", "features-boosted"])
def test_features_alone_know_no_edges(floors, name):
    found = floors[name].probabilities
    assert found["inductive"].equal(found["cold-90"])


def poisoned(nodes):
    y = GRAPH.y.clone()
    y[nodes] = (y[nodes] + 1) % 3
    return replace(GRAPH, y=y)


def test_labels_of_test_and_new_nodes_are_never_read(floors):
    found = floors_of(poisoned(torch.cat([SPLIT.test, SPLIT.new])))
    for name, floor in floors.items():
        for setting, expected in floor.probabilities.items():
            assert found[name].probabilities[setting].equal(expected)
            # The poison was there: it is what the predictions are compared with.
            assert not found[name].scores[setting].score.equal(floor.scores[setting].score)


def test_labels_of_training_nodes_are_read_and_validation_chooses(floors):
    found = floors_of(poisoned(SPLIT.train[:20]))
    for name, floor in floors.items():
        differs = (
            not found[name].probabilities["transductive"].equal(floor.probabilities["transductive"])
        )
        assert differs
    found = floors_of(poisoned(SPLIT.validation))
    for name in NAMES[:2]:
        assert found[name].probabilities["inductive"].equal(floors[name].probabilities["inductive"])
    assert found["features-boosted"].note != floors["features-boosted"].note


def test_the_same_from_sparse_and_double_features(floors):
    for x in (sparse_features(GRAPH.x), GRAPH.x.double()):
        found = floors_of(replace(GRAPH, x=x))
        for name in NAMES:
            for setting, expected in floors[name].probabilities.items():
                torch.testing.assert_close(
                    found[name].probabilities[setting], expected, atol=0.02, rtol=0
                )


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (replace(GRAPH, x=torch.zeros(NUM_NODES, 0)), {}),
        (
            replace(GRAPH, x=identities(torch.ones(NUM_NODES, dtype=torch.bool))),
            {"has_features": False},
        ),
    ],
)
def test_without_features(floors, graph, options):
    found = floors_of(graph, **options)
    assert list(found) == NAMES
    for name in NAMES:
        assert found[name].skipped is (name in FEATURES)
        assert ("no features" in found[name].note) is (name in FEATURES)
    assert found["neighbour-vote"].scores["cold-30"].mean() == (
        floors["neighbour-vote"].scores["cold-30"].mean()
    )


def test_wide_features_have_no_trees():
    x = torch.cat([GRAPH.x, torch.zeros(NUM_NODES, 500)], 1)
    found = floors_of(Graph(GRAPH.adjacency, sparse_features(x), GRAPH.y, 3))
    assert [name for name, floor in found.items() if floor.skipped] == ["features-boosted"]
    assert "508 columns" in found["features-boosted"].note
