"""Nodes without an edge, merged by kind: who goes where, and that layers say the same of them."""

import pytest
import torch
from graph_oracles import randn

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.graph.merging import merge_isolated
from tuneup.nn import Encoder

# Nodes 1, 4, 6 and 7 have no edge.
EDGES = torch.tensor([[0, 2, 2, 5], [3, 3, 5, 8]])
KIND = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])


def some_graph():
    return adjacency_from(EDGES, 9, undirected=True)


def test_linked_nodes_keep_their_order_and_edges():
    graph = some_graph()
    merged = merge_isolated(graph, KIND, 2)
    assert merged.nodes.tolist() == [0, 2, 3, 5, 8]
    assert merged.place.tolist() == [0, 5, 1, 2, 5, 3, 6, 6, 4]
    assert merged.graph.num_nodes == 7
    assert merged.graph.degree.tolist() == [1, 2, 2, 2, 1, 0, 0]
    pairs = set(zip(*merged.graph.edge_index.tolist(), strict=True))
    assert pairs == {
        (int(merged.place[a]), int(merged.place[b])) for a, b in graph.edge_index.t().tolist()
    }


@pytest.mark.parametrize("edges", [EDGES[:, :0], torch.tensor([[0, 1], [1, 2]])])
def test_none_or_all_may_be_without_an_edge(edges):
    graph = adjacency_from(edges, 3, undirected=True)
    merged = merge_isolated(graph, torch.zeros(3, dtype=torch.long), 1)
    linked = 3 if edges.numel() else 0
    assert merged.graph.num_nodes == linked + 1
    assert merged.place.tolist() == ([0, 1, 2] if linked else [0, 0, 0])


@pytest.mark.parametrize("architecture", ["sage", "sage-max", "sage-sum", "gcn", "gat"])
def test_layers_say_the_same(architecture):
    torch.manual_seed(0)
    encoder = Encoder(3, 4, architecture=architecture, width=8, norm="layer").double()
    graph, common = some_graph(), randn(2, 3).double()
    merged = merge_isolated(graph, KIND, 2)
    x = randn(9, 3).double()
    x[graph.degree == 0] = common[KIND[graph.degree == 0]]
    smaller = encoder(torch.cat([x[merged.nodes], common]), merged.graph)
    torch.testing.assert_close(smaller[merged.place], encoder(x, graph))


def test_a_directed_graph_is_refused():
    graph = adjacency_from(EDGES, 9, undirected=False)
    with pytest.raises(InputError, match="may send"):
        merge_isolated(graph, KIND, 2)
