"""Every way a graph arrives, against a set of Python tuples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from graph_oracles import edge_lists, edges_of, quick
from hypothesis import given
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from tuneup.errors import InputError
from tuneup.graph import adjacency_from

PAIRS = [(0, 1), (1, 0), (1, 2), (2, 1), (4, 0), (0, 4), (1, 2), (3, 3), (0, 1), (1, 2)]
EDGE_INDEX = torch.tensor(PAIRS).t().contiguous()
EDGES = {(0, 1), (1, 0), (1, 2), (2, 1), (4, 0), (0, 4)}


@quick
@given(edge_lists())
@pytest.mark.parametrize("undirected", [True, False, None])
def test_edges_and_counts_equal_those_of_a_set(undirected, num_nodes_and_pairs):
    num_nodes, pairs = num_nodes_and_pairs
    edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    graph = adjacency_from(edge_index, num_nodes, undirected=undirected)

    proper = [(u, v) for u, v in pairs if u != v]
    edges = set(proper)
    mirrored = {(v, u) for u, v in edges}
    assert graph.undirected == (edges == mirrored if undirected is None else undirected)
    assert edges_of(graph) == (edges | mirrored if undirected else edges)
    assert graph.num_self_loops == len(pairs) - len(proper)
    assert graph.num_duplicates == len(proper) - len(edges)
    assert graph.num_nodes == graph.num_rows == num_nodes
    assert graph.ids is None


def test_an_undirected_edge_may_be_given_once_or_twice():
    once = torch.tensor([[0, 1, 3], [1, 2, 0]])
    twice = torch.cat([once, once.flip(0)], 1)
    for edge_index in (once, twice):
        graph = adjacency_from(edge_index, undirected=True)
        assert graph.num_edges == 3
        assert graph.num_duplicates == 0
    assert adjacency_from(once).undirected is False
    assert adjacency_from(twice).undirected is True


def test_a_graph_without_edges():
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert adjacency_from(nothing).num_nodes == 0
    assert adjacency_from(nothing, 5).degree.tolist() == [0] * 5
    assert adjacency_from(torch.tensor([[2], [2]])).num_nodes == 3  # a self-loop names a node


SCIPY = scipy.sparse.coo_matrix((np.ones(len(PAIRS)), tuple(zip(*PAIRS, strict=True))), (6, 6))


@pytest.mark.parametrize(
    ("source", "num_duplicates"),
    [
        (Data(edge_index=EDGE_INDEX, num_nodes=6), 3),
        (Data(edge_index=EDGE_INDEX, x=torch.zeros(6, 2)), 3),
        (Data(edge_index=EdgeIndex(EDGE_INDEX), num_nodes=6), 3),
        (EdgeIndex(EDGE_INDEX, sparse_size=(6, 6)), 3),
        (EdgeIndex(EDGE_INDEX.int(), sparse_size=(None, 6)), 3),
        (SCIPY, 3),
        (scipy.sparse.coo_array(SCIPY), 3),
        (SCIPY.tocsr(), 0),  # scipy adds repeated entries up
        (scipy.sparse.csr_array(SCIPY), 0),
        (SCIPY.tocsc(), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sources_that_know_their_number_of_nodes(source, num_duplicates):
    graph = adjacency_from(source)
    assert type(graph.col) is torch.Tensor  # and not PyG's subclass of it
    assert edges_of(graph) == EDGES
    assert graph.num_nodes == 6
    assert graph.undirected
    assert graph.num_self_loops == 1
    assert graph.num_duplicates == num_duplicates
    assert adjacency_from(source, 9).num_nodes == 9
    assert not adjacency_from(source, undirected=False).undirected


@pytest.mark.parametrize(
    "source",
    [EDGE_INDEX, EdgeIndex(EDGE_INDEX), *(EDGE_INDEX.to(t) for t in (torch.int32, torch.uint8))],
    ids=["int64", "EdgeIndex", "int32", "uint8"],
)
def test_sources_that_do_not(source):
    assert adjacency_from(source).num_nodes == 5
    graph = adjacency_from(source, 300)  # more than a uint8 can count
    assert graph.num_nodes == 300
    assert graph.col.dtype == graph.rowptr.dtype == torch.int64
    assert edges_of(graph) == EDGES


def test_pyg_is_not_asked_to_guess_the_number_of_nodes_it_was_told():
    """``Data.num_nodes`` warns when it has to guess, and warnings are errors here."""
    assert adjacency_from(Data(edge_index=EDGE_INDEX), 6).num_nodes == 6


def test_scipy_entries_are_edges_from_row_to_column_whatever_their_value():
    row, col = np.array([0, 2]), np.array([1, 1])
    matrix = scipy.sparse.coo_matrix((np.array([0.0, -3.0]), (row, col)), (3, 3))
    for array in (matrix.row, matrix.col):
        array.setflags(write=False)  # as a memory-mapped matrix has them
    graph = adjacency_from(matrix)
    assert edges_of(graph) == {(0, 1), (2, 1)}
    assert not graph.undirected


def test_the_source_is_left_alone():
    edge_index = EDGE_INDEX.clone()
    adjacency_from(edge_index, undirected=True)
    assert torch.equal(edge_index, EDGE_INDEX)


def test_an_adjacency_is_itself_and_cannot_be_asked_to_be_another():
    graph = adjacency_from(EDGE_INDEX)
    assert adjacency_from(graph) is graph
    assert adjacency_from(graph, 5, undirected=True) is graph
    with pytest.raises(InputError, match=r"5 nodes, 3 undirected edges.* is already built"):
        adjacency_from(graph, undirected=False)
    with pytest.raises(InputError, match="already built"):
        adjacency_from(graph, 6)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.zeros(3, 4, dtype=torch.long), r"shape \[2, E\]; got \[3, 4\]"),
        (torch.zeros(4, dtype=torch.long), r"shape \[2, E\]; got \[4\]"),
        (torch.zeros(2, 4), "must hold integers; got torch.float32"),
        (torch.zeros(2, 4, dtype=torch.bool), "must hold integers; got torch.bool"),
        (torch.zeros(2, 4, dtype=torch.complex128), "must hold integers; got torch.complex128"),
        (torch.tensor([[0, 1, 2], [1, -2, 0]]), r"column 1 is \(1, -2\).*0\.\.2 \(3 nodes\)"),
        (scipy.sparse.csr_matrix((2, 3)), r"must be square; got shape \(2, 3\).*user-item"),
        ([[0, 1], [1, 0]], "Cannot read a graph from list: give an edge_index"),
        (Data(x=torch.zeros(2, 2)), "Cannot read a graph from Data"),
        (None, "Cannot read a graph from NoneType"),
    ],
    ids=str,
)
def test_what_is_not_a_graph_is_refused_by_name(source, message):
    with pytest.raises(InputError, match=message):
        adjacency_from(source)


@pytest.mark.parametrize(
    "source",
    [torch.tensor([[0, 1, 7], [1, 5, 0]]), torch.tensor([[0, 1, 7], [1, 5, 0]], dtype=torch.uint8)],
    ids=["int64", "uint8"],
)
def test_an_id_that_is_too_large_is_refused_with_its_column(source):
    message = r"column 1 is \(1, 5\), but node ids must lie in 0\.\.4 \(5 nodes\)"
    with pytest.raises(InputError, match=message):
        adjacency_from(source, 5)
    with pytest.raises(InputError, match=message):
        adjacency_from(Data(edge_index=source, num_nodes=5))
