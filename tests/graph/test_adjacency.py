"""The graph itself: what it stores, what it derives from that, and what it refuses."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from graph_oracles import (
    CASES,
    PRODUCTS,
    edges_of,
    graphs,
    product,
    quick,
    randn,
    senders_of,
    value_and_grad,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge, adjacency_from, receptive_field

TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def symmetric_keep(graph: Adjacency, seed: int, share: float = 0.6) -> torch.Tensor:
    """A mask of entries; on an undirected graph both directions agree."""
    generator = torch.Generator().manual_seed(seed)
    lottery = torch.rand(graph.num_cols, graph.num_cols, generator=generator)
    lottery = torch.triu(lottery) + torch.triu(lottery, 1).t() if graph.undirected else lottery
    return lottery[graph.row, graph.col] < share


# -------------------------------------------------------------------------------- derived views


@quick
@given(graphs())
def test_every_view_tells_of_the_same_edges(graph):
    edges = edges_of(graph)
    assert {tuple(e) for e in graph.edge_index.t().tolist()} == edges
    assert graph.edge_index.shape == (2, len(edges))
    dense = torch.zeros(graph.num_nodes, graph.num_nodes)
    for sender, receiver in edges:
        dense[receiver, sender] = 1
    assert torch.equal(graph.adj_t.to_dense(), dense)
    assert graph.degree.tolist() == [len(s) for s in senders_of(edges, graph.num_nodes)]
    assert graph.num_entries == len(edges)
    assert graph.num_edges == len({frozenset(e) for e in edges} if graph.undirected else edges)
    assert graph.global_ids.tolist() == list(range(graph.num_nodes))


@quick
@given(graphs())
def test_senders_are_ascending_within_a_row(graph):
    """Ties of a maximum, and the free transpose of an undirected graph, stand on this."""
    listed = [(r, c) for c, r in graph.edge_index.t().tolist()]
    assert listed == sorted(listed)


def test_edge_index_is_what_pyg_means_by_it():
    graph = adjacency_from(torch.tensor([[0, 0], [1, 2]]), undirected=False)
    assert graph.edge_index.tolist() == [[0, 0], [1, 2]]  # node 0 sends, 1 and 2 receive
    assert graph.degree.tolist() == [0, 1, 1]
    assert graph.max(torch.tensor([[7.0], [8.0], [9.0]])).flatten().tolist() == [0.0, 7.0, 7.0]


def _assert_is_the_transpose(graph: Adjacency) -> None:
    """By the definition of :attr:`Adjacency.reverse`, entry after entry."""
    t_rowptr, t_col, order = graph.reverse
    assert sorted(order.tolist()) == list(range(graph.num_entries))
    assert t_rowptr.numel() == graph.num_cols + 1
    assert (int(t_rowptr[0]), int(t_rowptr[-1])) == (0, graph.num_entries)
    for sender in range(graph.num_cols):
        for k in range(int(t_rowptr[sender]), int(t_rowptr[sender + 1])):
            assert int(graph.col[order[k]]) == sender
            assert int(graph.row[order[k]]) == int(t_col[k])


@quick
@given(graphs(), st.integers(0, 1000))
def test_reverse_is_the_transpose_also_of_graphs_thinned_again_and_again(graph, seed):
    _assert_is_the_transpose(graph)
    for k in range(3):
        graph = graph.thin(symmetric_keep(graph, seed + k))
        _assert_is_the_transpose(graph)


@pytest.mark.parametrize("kind", ["block of undirected", "block of directed"])
def test_reverse_of_blocks_and_of_thinned_blocks(kind):
    block = CASES[kind].graph
    _assert_is_the_transpose(block)
    keep = torch.arange(block.num_entries) % 3 != 0
    _assert_is_the_transpose(block.thin(keep))


def test_an_undirected_graph_is_its_own_transpose_at_no_cost():
    graph = CASES["undirected"].graph
    assert graph.reverse[0] is graph.rowptr
    assert graph.reverse[1] is graph.col
    matrix = graph.matrix("gcn")
    assert matrix.transposed[0] is graph.rowptr
    assert matrix.transposed[2] is matrix.value


def test_a_thinned_graph_sorts_nothing(monkeypatch):
    """The transpose of the whole graph is made once; its thinned graphs read theirs off it."""
    graphs_and_pairing = [
        (CASES["undirected"].graph, True),
        (CASES["undirected"].graph, False),
        (CASES["directed"].graph, True),
    ]
    for graph, _ in graphs_and_pairing:
        assert graph.reverse
        assert graph.directed.reverse
    monkeypatch.setattr("tuneup.graph.csr.transpose", lambda *_: pytest.fail("sorted again"))
    for graph, paired in graphs_and_pairing:
        for step in range(3):
            _assert_is_the_transpose(DropEdge(0.5, paired=paired)(graph, step))


def test_the_directed_twin_has_the_same_entries_and_is_made_once():
    graph = CASES["undirected"].graph
    assert graph.directed is graph.directed
    assert not graph.directed.undirected
    assert graph.directed.col is graph.col
    assert graph.directed.directed is graph.directed
    for name in PRODUCTS:
        for ours, theirs in zip(
            value_and_grad(graph.directed, name, randn(23, 4)),
            value_and_grad(graph, name, randn(23, 4)),
            strict=True,
        ):
            assert_close(ours, theirs)


def test_matrices_are_made_once_and_unknown_scalings_refused():
    graph = CASES["directed"].graph
    assert graph.matrix("mean") is graph.matrix("mean")
    assert graph.matrix() is graph.matrix("sum")
    with pytest.raises(InputError, match=r"one of .*'gcn', 'symmetric'.*; got 'median'"):
        graph.matrix("median")


# --------------------------------------------------------------------------------------- thinning


@quick
@given(graphs(), st.integers(0, 1000))
def test_thin_keeps_exactly_the_chosen_entries_and_every_node(graph, seed):
    keep = symmetric_keep(graph, seed)
    thinned = graph.thin(keep)
    listed = zip(graph.edge_index.t().tolist(), keep.tolist(), strict=True)
    chosen = {tuple(edge) for edge, kept in listed if kept}
    assert edges_of(thinned) == chosen
    assert thinned.num_entries == len(chosen)
    assert (thinned.num_rows, thinned.num_cols) == (graph.num_rows, graph.num_cols)
    assert thinned.undirected == graph.undirected
    assert thinned.degree.tolist() == [len(s) for s in senders_of(chosen, graph.num_nodes)]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (
            torch.ones(5, dtype=torch.bool),
            r"boolean tensor of 6 entries.*torch.bool of shape \(5,\)",
        ),
        (torch.ones(6), r"boolean tensor of 6 entries.*torch.float32 of shape \(6,\)"),
    ],
)
def test_thin_refuses_what_is_not_a_mask_of_entries(keep, message):
    with pytest.raises(InputError, match=message):
        adjacency_from(TRIANGLE).thin(keep)


# ------------------------------------------------------------------------------------------ induce


@quick
@given(graphs(), st.data())
def test_induce_keeps_the_edges_between_the_chosen_nodes(graph, data):
    nodes = data.draw(st.permutations(range(graph.num_nodes)).map(lambda p: p[: len(p) * 2 // 3]))
    part = graph.induce(torch.tensor(nodes, dtype=torch.long))
    assert part.num_nodes == part.num_rows == len(nodes)
    assert part.global_ids.tolist() == nodes
    chosen = set(nodes)
    assert edges_of(part) == {(u, v) for u, v in edges_of(graph) if {u, v} <= chosen}
    listed = [(r, c) for c, r in part.edge_index.t().tolist()]
    assert listed == sorted(listed), "local numbers must be ascending in every row"
    assert part.undirected == graph.undirected
    _assert_is_the_transpose(part)


def test_induce_remembers_the_first_graphs_ids():
    graph = CASES["undirected"].graph
    once = graph.induce(torch.tensor([5, 9, 1, 14, 22, 3]))
    twice = once.induce(torch.tensor([3, 0, 4]))
    assert twice.global_ids.tolist() == [14, 5, 22]
    assert edges_of(twice) == edges_of(graph.induce(torch.tensor([14, 5, 22])))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_an_induced_graph_are_those_of_a_graph_built_from_its_edges(name):
    for graph in (CASES["undirected"].graph, CASES["directed"].graph):
        part = graph.induce(torch.tensor([19, 4, 2, 20, 11, 0, 7, 8, 13, 5]))
        fresh = adjacency_from(part.edge_index, 10, undirected=graph.undirected)
        x = randn(10, 4)
        for ours, theirs in zip(
            value_and_grad(part, name, x), value_and_grad(fresh, name, x), strict=True
        ):
            assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (torch.tensor([0, 2, 0]), "nodes must be distinct; node 0 comes twice"),
        (torch.tensor([0, 3]), "node 3 is not one of the 3 nodes"),
        (torch.tensor([-1]), "node -1 is not one of the 3 nodes"),
        (torch.tensor([True, False, True]), "list of int64 ids; got torch.bool"),
        (torch.tensor([[0]]), r"list of int64 ids; got torch.int64 of shape \[1, 1\]"),
    ],
)
def test_induce_and_receptive_fields_refuse_what_is_not_a_list_of_distinct_nodes(nodes, message):
    graph = adjacency_from(TRIANGLE)
    with pytest.raises(InputError, match=message):
        graph.induce(nodes)
    with pytest.raises(InputError, match=message):
        receptive_field(graph.neighbours, nodes, 1)


# -------------------------------------------------------------------------------------- the rest


def test_repr_names_the_kind_and_the_counts():
    ring = torch.stack([torch.arange(1200), (torch.arange(1200) + 1) % 1200])
    assert repr(adjacency_from(ring, undirected=True)) == (
        "Adjacency(1,200 nodes, 1,200 undirected edges)"
    )
    one_way = adjacency_from(ring, 2000, undirected=False)
    assert repr(one_way) == "Adjacency(2,000 nodes, 1,200 directed edges)"
    block = receptive_field(one_way.neighbours, torch.tensor([5, 9]), 1).blocks[0]
    assert repr(block) == "Adjacency(2 of 4 nodes receive, 2 directed edges)"
    assert "source" not in repr(DropEdge(0.5)(one_way, 0))


def test_to_the_same_device_is_the_graph_itself():
    graph = CASES["undirected"].graph
    assert graph.to("cpu") is graph
    assert graph.to(torch.device("cpu")) is graph


def test_to_another_device_takes_everything_along():
    graph = DropEdge(0.5)(CASES["undirected"].graph.induce(torch.arange(20)), step=0)
    moved = graph.to("meta")  # the one other device that every machine has
    assert {moved.rowptr.device.type, moved.col.device.type, moved.ids.device.type} == {"meta"}
    assert moved.device.type == "meta"
    assert moved.source is None
    assert (moved.num_rows, moved.num_cols) == (graph.num_rows, graph.num_cols)
    assert (moved.num_entries, moved.undirected) == (graph.num_entries, graph.undirected)
    block = CASES["block of undirected"].graph.to("meta")
    assert block.degree.device.type == "meta"


def test_a_graph_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CASES["undirected"].graph.num_cols = 3


def test_results_do_not_depend_on_the_number_of_threads():
    generator = torch.Generator().manual_seed(0)
    graph = adjacency_from(torch.randint(500, (2, 5000), generator=generator), undirected=True)
    thinned = DropEdge(0.3)(graph, step=1)
    x = torch.randn(graph.num_nodes, 4, generator=generator)
    for name in PRODUCTS:
        torch.set_num_threads(1)
        alone = product(thinned, name, x)
        torch.set_num_threads(2)
        assert torch.equal(product(DropEdge(0.3)(graph, step=1), name, x), alone)
