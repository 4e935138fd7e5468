"""Graph and graph_from against PyG, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph, to_undirected

from tuneup.data import Graph, graph_from
from tuneup.errors import InputError
from tuneup.graph import SparseMatrix, adjacency_from, sparse_features, take_features


def a_data(num_nodes: int = 6, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator)
    edges = to_undirected(edges[:, edges[0] != edges[1]], num_nodes=num_nodes)
    x = torch.randn(num_nodes, 4, generator=generator)
    y = torch.randint(3, (num_nodes,), generator=generator)
    y[-1] = 2  # so that the number of classes is 3 whatever was drawn
    return Data(x=x, edge_index=edges, y=y)


def dense(x: Tensor | SparseMatrix) -> Tensor:
    return x @ torch.eye(x.shape[1]) if isinstance(x, SparseMatrix) else x


def test_graph_from_data_keeps_everything() -> None:
    data = a_data()
    graph = graph_from(data, name="six")
    assert graph.adjacency.undirected
    assert {*map(tuple, graph.adjacency.edge_index.t().tolist())} == {
        *map(tuple, data.edge_index.t().tolist())
    }
    assert torch.equal(dense(graph.x), data.x)
    assert graph.y is not None
    assert torch.equal(graph.y, data.y)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (6, 4, 3)
    assert repr(graph).startswith("Graph(six: Adjacency(6 nodes, ")
    assert repr(graph).endswith("4 features, 3 classes)")


def test_a_graph_passes_through() -> None:
    graph = graph_from(a_data())
    assert graph_from(graph) is graph


def test_directed_on_request() -> None:
    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))
    assert not graph_from(data).adjacency.undirected
    graph = graph_from(data, undirected=True)
    assert graph.adjacency.num_edges == 2
    assert graph.y is None
    assert graph.num_classes == 0
    assert "classes" not in repr(graph)


def test_sparse_features_stay_sparse() -> None:
    for layout in ["coo", "csr"]:
        data = a_data()
        full = data.x.clamp(min=0)
        data.x = full.to_sparse() if layout == "coo" else full.to_sparse_csr()
        graph = graph_from(data)
        assert isinstance(graph.x, SparseMatrix)
        assert graph.x.shape == (6, 4)
        assert torch.equal(dense(graph.x), full)


def test_column_labels_are_flattened() -> None:
    data = a_data()
    flat = data.y.clone()
    data.y = flat.view(-1, 1)  # OGB's shape
    y = graph_from(data).y
    assert y is not None
    assert torch.equal(y, flat)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 25), st.integers(0, 10**6), st.booleans())
def test_induce_equals_pyg(num_nodes: int, seed: int, sparse: bool) -> None:
    data = a_data(num_nodes, seed)
    graph = graph_from(data)
    if sparse:
        graph = Graph(graph.adjacency, sparse_features(data.x), graph.y, 3)
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(num_nodes, generator=generator)[: (num_nodes + 1) // 2].sort().values
    part = graph.induce(nodes)
    edges, _ = subgraph(nodes, data.edge_index, relabel_nodes=True, num_nodes=num_nodes)
    assert torch.equal(part.adjacency.adj_t.to_dense(), adjacency_dense(edges, nodes.numel()))
    assert torch.equal(dense(part.x), data.x[nodes])
    assert part.y is not None
    assert torch.equal(part.y, data.y[nodes])
    assert torch.equal(part.adjacency.global_ids, nodes)
    assert part.num_classes == 3  # classes do not vanish with their nodes


def adjacency_dense(edges: Tensor, num_nodes: int) -> Tensor:
    out = torch.zeros(num_nodes, num_nodes)
    out[edges[1], edges[0]] = 1.0
    return out


def test_induce_keeps_the_order_asked_for() -> None:
    graph = graph_from(a_data())
    nodes = torch.tensor([5, 0, 3])
    part = graph.induce(nodes)
    full = graph.adjacency.adj_t.to_dense()
    assert torch.equal(part.adjacency.adj_t.to_dense(), full[nodes][:, nodes])
    assert torch.equal(dense(part.x), dense(graph.x)[nodes])


def test_induce_twice_remembers_global_ids() -> None:
    twice = graph_from(a_data()).induce(torch.tensor([1, 3, 5])).induce(torch.tensor([2, 0]))
    assert twice.adjacency.global_ids.tolist() == [5, 1]


def test_with_adjacency_changes_only_the_edges() -> None:
    graph = graph_from(a_data(), name="six")
    empty = adjacency_from(torch.empty(2, 0, dtype=torch.long), 6)
    other = graph.with_adjacency(empty)
    assert other.adjacency is empty
    assert other.x is graph.x
    assert other.y is graph.y
    assert (other.num_classes, other.name) == (3, "six")
    with pytest.raises(InputError, match="7 nodes but 6 rows"):
        graph.with_adjacency(adjacency_from(torch.empty(2, 0, dtype=torch.long), 7))


def test_take_features_dense_and_sparse_agree() -> None:
    x = a_data().x.clamp(min=0)
    nodes = torch.tensor([4, 4, 0])
    assert torch.equal(dense(take_features(sparse_features(x), nodes)), x[nodes])
    assert torch.equal(dense(take_features(x, nodes)), x[nodes])


def test_refusals_say_what_is_wrong() -> None:
    data = a_data()
    adjacency, x = adjacency_from(data), data.x
    with pytest.raises(InputError, match="6 nodes but 5 rows of features"):
        Graph(adjacency, x[:5])
    with pytest.raises(InputError, match="features of node 2 are not all finite"):
        Graph(adjacency, x.clone().index_fill_(0, torch.tensor([2]), torch.nan))
    with pytest.raises(InputError, match=r"y must be int64 of shape \[6\]"):
        Graph(adjacency, x, data.y[:4])
    with pytest.raises(InputError, match=r"y must be int64.*got torch.float32"):
        Graph(adjacency, x, data.y.float())
    with pytest.raises(InputError, match="label 2 but only 2 classes"):
        Graph(adjacency, x, data.y, num_classes=2)
    with pytest.raises(InputError, match="no node features x"):
        graph_from(Data(edge_index=data.edge_index, num_nodes=6))
