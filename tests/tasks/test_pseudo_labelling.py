"""Pseudo-labels: who gets one, which one, and how sure the model was."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.tasks import PseudoLabels, pseudo_labels


def naive(logits, edges, known):
    """Node by node: ``{node: (label, probability)}``."""
    neighbours = {v for u, v in edges if u != v} | {u for u, v in edges if u != v}
    found = {}
    for node, row in enumerate(logits.tolist()):
        if node in neighbours and not known[node]:
            powers = [math.exp(value - max(row)) for value in row]
            label = row.index(max(row))
            found[node] = label, powers[label] / sum(powers)
    return found


@st.composite
def cases(draw):
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    known = draw(st.lists(st.booleans(), min_size=num_nodes, max_size=num_nodes))
    number = st.integers(-40, 40).map(lambda k: k / 4)  # ties occur
    row = st.lists(number, min_size=3, max_size=3)
    logits = draw(st.lists(row, min_size=num_nodes, max_size=num_nodes))
    return torch.tensor(logits), edges, torch.tensor(known)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(cases())
def test_equals_the_loop(case):
    logits, edges, known = case
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    expected = naive(logits, edges, known)
    graph = adjacency_from(edge_index, len(known))
    data = Data(edge_index=edge_index, num_nodes=len(known))
    for source in (edge_index, graph, data):
        found = pseudo_labels(logits, source, known)
        assert found.nodes.tolist() == sorted(expected)
        assert found.y.tolist() == [expected[node][0] for node in sorted(expected)]
        probabilities = torch.tensor([expected[node][1] for node in sorted(expected)])
        torch.testing.assert_close(found.confidence, probabilities)
        assert len(found) == len(expected)


def test_a_self_loop_is_no_neighbour():
    edge_index = torch.tensor([[0, 1, 2], [0, 2, 1]])
    found = pseudo_labels(torch.randn(3, 2), edge_index, torch.zeros(3, dtype=torch.bool))
    assert found.nodes.tolist() == [1, 2]


def test_labels_carry_no_gradient():
    logits = torch.randn(3, 2, requires_grad=True)
    known = torch.zeros(3, dtype=torch.bool)
    found = pseudo_labels(logits, torch.tensor([[0, 1], [1, 0]]), known)
    assert not found.confidence.requires_grad


def test_a_wrong_mask_is_refused():
    for known in [torch.zeros(3), torch.zeros(4, dtype=torch.bool)]:
        with pytest.raises(InputError, match="known must be a boolean mask over the 3 nodes"):
            pseudo_labels(torch.randn(3, 2), torch.tensor([[0, 1], [1, 0]]), known)


def test_repr():
    labels = PseudoLabels(torch.arange(2), torch.tensor([1, 0]), torch.tensor([0.5, 1.0]))
    assert repr(labels) == "PseudoLabels(2 nodes, mean confidence 0.750)"
    none = PseudoLabels(torch.empty(0).long(), torch.empty(0).long(), torch.empty(0))
    assert repr(none) == "PseudoLabels(0 nodes, mean confidence nan)"
