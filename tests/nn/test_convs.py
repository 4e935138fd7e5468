"""Our convolutions load PyG's state dicts and give PyG's outputs and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric import nn as pyg

from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from, receptive_field, sparse_features
from tuneup.nn import GATConv, GCNConv, SAGEConv, convs

PAIRS = {
    "sage": (lambda i, o: SAGEConv(i, o), lambda i, o: pyg.SAGEConv(i, o)),
    "sage-sum": (lambda i, o: SAGEConv(i, o, "sum"), lambda i, o: pyg.SAGEConv(i, o, aggr="sum")),
    "sage-max": (lambda i, o: SAGEConv(i, o, "max"), lambda i, o: pyg.SAGEConv(i, o, aggr="max")),
    "gcn": (GCNConv, lambda i, o: pyg.GCNConv(i, o)),
    "gat": (lambda i, o: GATConv(i, o, 3), lambda i, o: pyg.GATConv(i, o, 3)),
    "gat-mean": (
        lambda i, o: GATConv(i, o, 3, concat=False),
        lambda i, o: pyg.GATConv(i, o, 3, concat=False),
    ),
}


def random_graph(num_nodes: int, num_edges: int, seed: int, undirected: bool):
    """Random edges among the first two thirds of the nodes: the rest is isolated."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, max(1, 2 * num_nodes // 3), (2, num_edges), generator=generator)
    return adjacency_from(edges, num_nodes, undirected=undirected)


def outputs_and_gradients(conv, x, graph, weights):
    """Output, gradient of the input, gradients of all parameters by name."""
    x = x.clone().requires_grad_()
    out = conv(x, graph)
    (out * weights).sum().backward()
    return out, {"x": x.grad, **{name: p.grad for name, p in conv.named_parameters()}}


def pair(name: str, in_channels: int, out_channels: int):
    ours, theirs = (make(in_channels, out_channels) for make in PAIRS[name])
    with torch.no_grad():
        for parameter in theirs.parameters():  # zeros would hide a forgotten bias
            parameter.normal_()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=15, deadline=None)
@given(
    num_nodes=st.integers(1, 30),
    density=st.integers(0, 5),
    seed=st.integers(0, 1000),
    undirected=st.booleans(),
    widths=st.sampled_from([(4, 7), (7, 4), (5, 5)]),
)
def test_matches_pyg(name, num_nodes, density, seed, undirected, widths):
    """In float64, where a sum that nearly cancels does not drown in rounding."""
    assert_matches_pyg(name, num_nodes, density, seed, undirected, widths, torch.double)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(5))
def test_matches_pyg_in_single_precision(name, seed):
    assert_matches_pyg(name, 30, 4, seed, True, (5, 5), torch.float)


def assert_matches_pyg(name, num_nodes, density, seed, undirected, widths, dtype):
    torch.manual_seed(seed)
    graph = random_graph(num_nodes, density * num_nodes, seed, undirected)
    ours, theirs = (conv.to(dtype) for conv in pair(name, *widths))
    x = torch.randn(num_nodes, widths[0], dtype=dtype)
    with torch.no_grad():
        weights = torch.randn_like(theirs(x, graph.edge_index))
    expected, expected_gradients = outputs_and_gradients(theirs, x, graph.edge_index, weights)
    found, gradients = outputs_and_gradients(ours, x, graph, weights)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert gradients.keys() == expected_gradients.keys()
    for key, expected_gradient in expected_gradients.items():
        scale = max(1.0, float(expected_gradient.abs().max()))
        torch.testing.assert_close(
            gradients[key] / scale, expected_gradient / scale, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", PAIRS)
def test_state_dict_is_pygs(name):
    ours, theirs = (make(4, 3) for make in PAIRS[name])
    shapes = {key: value.shape for key, value in theirs.state_dict().items()}
    assert {key: value.shape for key, value in ours.state_dict().items()} == shapes


@pytest.mark.parametrize("name", PAIRS)
def test_a_dropped_graph_is_a_graph_of_its_own(name):
    """After dropping, normalisation and attention see the surviving edges only."""
    graph = random_graph(40, 150, 0, undirected=True)
    dropped = DropEdge(0.5)(graph, step=3)
    ours, theirs = pair(name, 5, 4)
    x = torch.randn(40, 5)
    torch.testing.assert_close(ours(x, dropped), theirs(x, dropped.edge_index))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("widths", [(6, 4), (4, 6)])
def test_blocks_give_the_rows_of_the_full_layer(name, widths):
    graph = random_graph(30, 90, 1, undirected=True)
    conv, _ = pair(name, *widths)
    x = torch.randn(30, widths[0])
    rows = torch.tensor([7, 29, 0, 12])  # 29 is isolated
    field = receptive_field(graph.neighbours, rows, 1)
    torch.testing.assert_close(conv(x[field.nodes], field.blocks[0]), conv(x, graph)[rows])


@pytest.mark.parametrize("name", PAIRS)
def test_sparse_features_are_the_same_function(name):
    graph = random_graph(30, 90, 2, undirected=True)
    x = torch.randn(30, 12) * (torch.rand(30, 12) < 0.2)
    conv, _ = pair(name, 12, 5)
    dense, sparse = conv(x, graph), conv(sparse_features(x), graph)
    torch.testing.assert_close(sparse, dense)
    weights = torch.randn_like(dense)
    for parameter in conv.parameters():
        expected = torch.autograd.grad((conv(x, graph) * weights).sum(), parameter)
        found = torch.autograd.grad((conv(sparse_features(x), graph) * weights).sum(), parameter)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["dense", "coo", "csr", "csc"])
def test_sparse_features_of_any_layout_are_the_same_matrix(layout, recwarn):
    x = torch.randn(7, 5, dtype=torch.double) * (torch.rand(7, 5) < 0.4)
    x[2] = 0.0
    layouts = {
        "dense": lambda: x,
        "coo": x.to_sparse_coo,
        "csr": x.to_sparse_csr,
        "csc": x.to_sparse_csc,
    }
    given = layouts[layout]()
    recwarn.clear()
    found = sparse_features(given)
    assert found.value.numel() == int((x != 0).sum())
    torch.testing.assert_close(found @ torch.eye(5), x.float())
    assert not recwarn.list


@pytest.mark.parametrize("name", PAIRS)
def test_a_remembered_aggregation_changes_nothing(name):
    graph = random_graph(30, 90, 3, undirected=True)
    conv, _ = pair(name, 6, 4)
    x = torch.randn(30, 6)
    torch.testing.assert_close(conv(x, graph, conv.aggregate(x, graph)), conv(x, graph))


@pytest.mark.parametrize("budget", [1, 12, 100])
@pytest.mark.parametrize("name", ["gat", "gat-mean"])
def test_attention_scores_in_parts_are_those_of_the_whole(name, budget, monkeypatch):
    """One node at a time, three, or some; on a graph, and on a block with fewer receivers."""
    graph = random_graph(20, 60, 2, undirected=True)
    block = receptive_field(graph.neighbours, torch.tensor([7, 1, 19]), 1).blocks[0]
    conv, _ = pair(name, 5, 4)
    conv.double()
    for each in (graph, block):
        x = torch.randn(each.num_cols, 5, dtype=torch.float64)
        weights = torch.randn_like(conv(x, each))
        found = []
        for limit in (convs._SCORED_AT_A_TIME, budget):
            monkeypatch.setattr(convs, "_SCORED_AT_A_TIME", limit)
            conv.zero_grad()
            found.append(outputs_and_gradients(conv, x, each, weights))
        torch.testing.assert_close(found[1], found[0])


def test_max_gives_the_first_of_tied_neighbours_the_gradient():
    """Node 0 hears 1, 2 and 3, of which 2 and 3 tie: PyG would split the gradient, we do not."""
    graph = adjacency_from(torch.tensor([[1, 2, 3], [0, 0, 0]]), 4, undirected=False)
    x = torch.tensor([[0.0], [1.0], [5.0], [5.0]], requires_grad=True)
    graph.max(x).sum().backward()
    assert x.grad.view(-1).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="'mean', 'sum' or 'max'"):
        SAGEConv(3, 3, "median")
    with pytest.raises(InputError, match="negative_slope"):
        GATConv(3, 3, negative_slope=0.0)
