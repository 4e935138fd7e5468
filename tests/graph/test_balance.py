"""The doubly stochastic scaling: sums, symmetry, and graphs that are hard to balance."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.graph import adjacency_from, receptive_field
from tuneup.graph.matrix import balance


def operator(graph):
    """The scaled matrix, dense, read off its products with unit vectors."""
    return graph.matrix("doubly-stochastic") @ torch.eye(graph.num_nodes)


def random_edges(nodes, count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(nodes, (2, count), generator=generator)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(0, 120), st.integers(0, 1000))
def test_rows_and_columns_sum_to_one(nodes, count, seed):
    """Also with isolated nodes, which keep all of their own."""
    graph = adjacency_from(random_edges(nodes, count, seed), nodes, undirected=True)
    found = operator(graph)
    torch.testing.assert_close(found.sum(0), torch.ones(nodes), atol=0.011, rtol=0)
    torch.testing.assert_close(found.sum(1), torch.ones(nodes), atol=0.011, rtol=0)
    torch.testing.assert_close(found, found.t())
    alone = graph.degree == 0
    torch.testing.assert_close(found.diagonal()[alone], torch.ones(int(alone.sum())))


def test_it_scales_and_does_not_rewire():
    graph = adjacency_from(random_edges(20, 60, 1), 20, undirected=True)
    plain = graph.matrix("sum") @ torch.eye(20) + torch.eye(20)
    scale = balance(graph)
    torch.testing.assert_close(operator(graph), scale[:, None] * plain * scale)


@pytest.mark.parametrize(("left", "right"), [(1, 50), (3, 40), (10, 10)])
def test_bipartite_graphs_of_unequal_sides(left, right):
    """Without self-loops no scaling of these would exist."""
    pairs = torch.cartesian_prod(torch.arange(left), left + torch.arange(right)).t()
    graph = adjacency_from(pairs, left + right, undirected=True)
    found = operator(graph)
    torch.testing.assert_close(found.sum(1), torch.ones(left + right), atol=0.011, rtol=0)


def test_a_tighter_tolerance_comes_closer():
    graph = adjacency_from(random_edges(30, 90, 2), 30, undirected=True)
    scale = balance(graph, 1e-5)
    plain = graph.matrix("sum") @ torch.eye(30) + torch.eye(30)
    sums = scale * (plain @ scale)
    torch.testing.assert_close(sums, torch.ones(30), atol=2e-5, rtol=0)


def test_a_graph_that_has_none_is_refused():
    directed = adjacency_from(torch.tensor([[0, 1], [1, 2]]), 3, undirected=False)
    with pytest.raises(InputError, match="this one is directed"):
        directed.matrix("doubly-stochastic")
    graph = adjacency_from(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4, undirected=True)
    block = receptive_field(graph.neighbours, torch.tensor([0]), 1).blocks[0]
    with pytest.raises(InputError, match="Only a whole undirected graph"):
        block.matrix("doubly-stochastic")
