"""LightGCN against the dense formula: outputs, gradients, isolated nodes, thinned graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from
from tuneup.nn import LightGCN


def random_graph(num_nodes, num_edges, seed):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, num_nodes, (2, num_edges), generator=generator)
    return adjacency_from(index, num_nodes, undirected=True)


def dense_matrix(graph):
    """``D^-1/2 A D^-1/2``, entry by entry; zero rows and columns for isolated nodes."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.double)
    degree = graph.rowptr.diff().tolist()
    for i, j in zip(graph.row.tolist(), graph.col.tolist(), strict=True):
        matrix[i, j] = (degree[i] * degree[j]) ** -0.5
    return matrix


def dense(graph, x, num_layers):
    matrix = dense_matrix(graph)
    powers = [torch.linalg.matrix_power(matrix, k) @ x.double() for k in range(num_layers + 1)]
    return (sum(powers) / (num_layers + 1)).float()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 15), st.integers(0, 30), st.integers(1, 4), st.integers(0, 20))
def test_equals_the_dense_formula(num_nodes, num_edges, num_layers, seed):
    graph = random_graph(num_nodes, num_edges, seed)
    for view in (graph, DropEdge(0.5, seed)(graph, step=0)):
        x = torch.randn(num_nodes, 3, requires_grad=True)
        weight = torch.randn(num_nodes, 3)
        found, expected = LightGCN(num_layers)(x, view), dense(view, x, num_layers)
        torch.testing.assert_close(found, expected)
        (ours,) = torch.autograd.grad((found * weight).sum(), x)
        (theirs,) = torch.autograd.grad((expected * weight).sum(), x)
        torch.testing.assert_close(ours, theirs)


def test_the_symmetric_matrix_has_no_diagonal():
    graph = random_graph(12, 20, 0)
    matrix = graph.matrix("symmetric")
    assert matrix.diagonal is None
    torch.testing.assert_close(matrix @ torch.eye(12), dense_matrix(graph).float())


def test_a_block_uses_the_degrees_of_the_graph():
    """Row lengths of a receptive field are not the degrees of its senders."""
    from tuneup.graph import receptive_field

    graph = random_graph(12, 20, 0)
    rows = torch.tensor([3, 7])
    field = receptive_field(graph.neighbours, rows, 1)
    x = torch.randn(12, 4)
    found = field.blocks[0].matrix("symmetric") @ x[field.nodes]
    torch.testing.assert_close(found, (dense_matrix(graph).float() @ x)[rows])


@pytest.mark.parametrize("num_layers", [1, 3])
def test_an_isolated_node_keeps_its_share_of_its_own_input(num_layers):
    graph = adjacency_from(torch.tensor([[0], [1]]), 4, undirected=True)
    x = torch.randn(4, 5, requires_grad=True)
    out = LightGCN(num_layers)(x, graph)
    torch.testing.assert_close(out[2:], x[2:] / (num_layers + 1))
    out[3].sum().backward()
    assert x.grad[:3].abs().sum() == 0
    torch.testing.assert_close(x.grad[3], torch.full((5,), 1 / (num_layers + 1)))


def test_the_input_stays_as_it_is():
    graph, x = random_graph(6, 8, 0), torch.randn(6, 2)
    before = x.clone()
    LightGCN()(x, graph)
    assert torch.equal(x, before)


def test_nothing_to_learn_and_what_it_says():
    model = LightGCN(2)
    assert list(model.parameters()) == []
    assert repr(model) == "LightGCN(num_layers=2)"
    with pytest.raises(InputError, match="num_layers must be 1 or more; got 0"):
        LightGCN(0)
