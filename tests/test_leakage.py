"""No test label and no test-only edge or feature reaches training: poisoned, they change nothing.

A test of this kind passes too if the poison is never poured.  So the same poison is shown to change
the evaluation, and poison in what training may read is shown to change the training.
"""

from dataclasses import dataclass

import pytest
import torch

from tests.train.toy import PygNet, small_encoder
from tuneup.curriculum import CURRICULA, Schedule
from tuneup.data import Graph, block_graph, split_nodes
from tuneup.evaluation.settings import evaluate, node_settings
from tuneup.graph import adjacency_from
from tuneup.tasks import NodeClassification
from tuneup.train import train

NUM_NODES = 300
GRAPH = block_graph(NUM_NODES, 900, 3, 8, signal=2.0, seed=1)
SPLIT = split_nodes(NUM_NODES, labelled=0.2, new=0.1)
SCHEDULE = Schedule(8, lr=0.02)


def with_labels(graph, nodes):
    """The nodes' labels, all wrong."""
    y = graph.y.clone()
    y[nodes] = (y[nodes] + 1) % 3
    return Graph(graph.adjacency, graph.x, y, 3)


def with_features(graph, nodes):
    """The nodes' features, replaced by large noise."""
    x = graph.x.clone()
    x[nodes] = 100 * torch.randn(nodes.numel(), 8, generator=torch.Generator().manual_seed(0))
    return Graph(graph.adjacency, x, graph.y, 3)


def with_edges(graph, edge_index):
    adjacency = adjacency_from(edge_index, NUM_NODES, undirected=True)
    return Graph(adjacency, graph.x, graph.y, 3)


def rewired(graph, new):
    """Every edge of the new nodes goes, and twice as many others come."""
    touches = torch.isin(graph.adjacency.edge_index, new).any(0)
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, NUM_NODES, (int(touches.sum()),), generator=generator)
    starts = new[torch.randint(0, new.numel(), ends.shape, generator=generator)]
    kept = graph.adjacency.edge_index[:, ~touches]
    return with_edges(graph, torch.cat([kept, torch.stack([starts, ends])], 1))


UNSEEN = torch.cat([SPLIT.test, SPLIT.new])
POISONS = {
    "labels of test and new nodes": with_labels(GRAPH, UNSEEN),
    "edges of new nodes": rewired(GRAPH, SPLIT.new),
    "features of new nodes": with_features(GRAPH, SPLIT.new),
}
POISONED = with_features(rewired(with_labels(GRAPH, UNSEEN), SPLIT.new), SPLIT.new)


@dataclass
class Trained:
    """All that a run leaves behind."""

    states: list
    curves: list
    pseudo: list
    scores: dict

    def __eq__(self, other):
        return self.curves == other.curves and self.same_tensors(other)

    def same_tensors(self, other):
        if len(self.states) != len(other.states) or len(self.pseudo) != len(other.pseudo):
            return False
        pairs = zip([*self.states, *self.pseudo], [*other.states, *other.pseudo], strict=True)
        return all(
            a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs
        )


def trained(graph, name, make=small_encoder):
    task = NodeClassification.from_split(graph, SPLIT)
    result = train(make(), task, CURRICULA[name](0.5, SCHEDULE, SCHEDULE), seed=2)
    scores = evaluate(result.model, node_settings(graph, SPLIT))
    pseudo = [vars(labels) for labels in result.pseudo_labels.values()]
    return Trained(result.states, result.record.curves(), pseudo, scores)


@pytest.fixture(scope="module")
def clean():
    return {name: trained(GRAPH, name) for name in CURRICULA}


def test_poison_in_what_is_unseen_changes_no_bit_of_training(clean):
    for name in CURRICULA:
        assert trained(POISONED, name) == clean[name]


def test_each_poison_changes_the_evaluation_only(clean):
    for poison in POISONS:
        found = trained(POISONS[poison], "tuneup")
        assert found == clean["tuneup"]
        before, after = clean["tuneup"].scores, found.scores
        assert before["inductive"].mean() != after["inductive"].mean()
        # On G alone only the labels of its own test nodes can be felt.
        moved = before["transductive"].mean() != after["transductive"].mean()
        assert moved is (poison == "labels of test and new nodes")


def test_a_users_module_learns_nothing_either():
    assert trained(POISONED, "tuneup", PygNet) == trained(GRAPH, "tuneup", PygNet)


def without_an_edge():
    """G without one edge of a training node."""
    edge_index = GRAPH.adjacency.edge_index
    inside = torch.isin(edge_index, SPLIT.known).all(0) & torch.isin(edge_index[0], SPLIT.train)
    u, v = edge_index[:, inside.nonzero()[0, 0]].tolist()
    gone = (edge_index == torch.tensor([[u], [v]])).all(0)
    gone |= (edge_index == torch.tensor([[v], [u]])).all(0)
    assert int(gone.sum()) == 2
    return with_edges(GRAPH, edge_index[:, ~gone])


def test_poison_in_what_is_seen_does_change_it(clean):
    for name in CURRICULA:
        label = trained(with_labels(GRAPH, SPLIT.train[:1]), name)
        assert not label.same_tensors(clean[name])
        edge = trained(without_an_edge(), name)
        assert not edge.same_tensors(clean[name])
        feature = trained(with_features(GRAPH, SPLIT.train[:1]), name)
        assert not feature.same_tensors(clean[name])
        validation = trained(with_labels(GRAPH, SPLIT.validation), name)
        # Validation labels choose the state and nothing else: the losses of stage 1 are the same.
        assert validation.curves != clean[name].curves
        first = [loss for stage, _, loss, _ in clean[name].curves if stage == 0]
        assert [loss for stage, _, loss, _ in validation.curves if stage == 0] == first
