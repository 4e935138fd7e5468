"""What holds for the edges dropped from any graph, by any share, at any step."""

from __future__ import annotations

import pytest
import torch
from graph_oracles import columns, edges_of, graphs, quick
from hypothesis import assume, given
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from

shares = st.floats(0.0, 1.0)
numbers = st.integers(-(2**70), 2**70)


@quick
@given(graphs(), shares, numbers, numbers, numbers, st.booleans(), st.booleans())
def test_the_same_arguments_give_the_same_graph(graph, alpha, seed, stage, step, paired, exact):
    first = DropEdge(alpha, seed, paired, exact)(graph, step, stage)
    DropEdge(0.5, seed=1)(graph, step=2)  # whatever else is drawn in between
    again = DropEdge(alpha, seed, paired, exact)(graph, step, stage)
    assert torch.equal(first.rowptr, again.rowptr)
    assert torch.equal(first.col, again.col)


@quick
@given(graphs(), shares, st.integers(0, 99), st.booleans())
def test_what_survives_was_there_before_and_every_node_stays(graph, alpha, step, paired):
    thinned = DropEdge(alpha, paired=paired)(graph, step)
    assert edges_of(thinned) <= edges_of(graph)
    assert thinned.num_entries == len(edges_of(thinned)), "compacted"
    assert thinned.num_nodes == thinned.num_rows == graph.num_nodes, "isolated nodes survive"
    assert thinned.degree.numel() == graph.num_nodes


@quick
@given(graphs(undirected=True), shares, st.integers(0, 99), st.booleans())
def test_both_directions_of_an_undirected_edge_agree(graph, alpha, step, exact):
    thinned = DropEdge(alpha, exact=exact)(graph, step)
    edges = edges_of(thinned)
    assert thinned.undirected
    assert edges == {(v, u) for u, v in edges}


@quick
@given(graphs(), st.integers(0, 99), st.booleans(), st.booleans())
def test_alpha_0_is_the_identity_and_alpha_1_leaves_no_edge(graph, step, paired, exact):
    assert DropEdge(0.0, paired=paired, exact=exact)(graph, step) is graph
    empty = DropEdge(1.0, paired=paired, exact=exact)(graph, step)
    assert empty.num_entries == 0
    assert empty.num_nodes == graph.num_nodes
    assert empty.degree.tolist() == [0] * graph.num_nodes
    edge_index = graph.edge_index
    assert torch.equal(DropEdge(0.0, paired=paired, exact=exact)(edge_index, step), edge_index)
    assert DropEdge(1.0, paired=paired, exact=exact)(edge_index, step).shape == (2, 0)


@quick
@given(graphs(), st.tuples(shares, shares).map(sorted), st.integers(0, 99), st.booleans())
def test_a_larger_alpha_drops_the_same_edges_and_more(graph, alphas, step, exact):
    mild, harsh = (DropEdge(alpha, exact=exact)(graph, step) for alpha in alphas)
    assert edges_of(harsh) <= edges_of(mild)


@quick
@given(graphs(), shares, st.integers(0, 99), st.booleans(), st.data())
def test_dropping_commutes_with_taking_a_subgraph(graph, alpha, step, paired, data):
    """Edges are drawn by *global* ids: a machine that holds a part draws what the whole would."""
    nodes = data.draw(st.permutations(range(graph.num_nodes)).map(lambda p: p[: len(p) * 3 // 4]))
    nodes = torch.tensor(nodes, dtype=torch.long)
    drop = DropEdge(alpha, seed=7, paired=paired)
    part_then_drop = drop(graph.induce(nodes), step)
    drop_then_part = drop(graph, step).induce(nodes)
    assert edges_of(part_then_drop) == edges_of(drop_then_part)
    assert torch.equal(part_then_drop.global_ids, drop_then_part.global_ids)
    assert torch.equal(part_then_drop.rowptr, drop_then_part.rowptr)
    assert torch.equal(part_then_drop.col, drop_then_part.col)


@quick
@given(graphs(), shares, st.integers(0, 99), st.booleans())
def test_exact_drops_exactly_that_many_edges(graph, alpha, step, paired):
    thinned = DropEdge(alpha, paired=paired, exact=True)(graph, step)
    single = paired or not graph.undirected
    total = graph.num_edges if single else graph.num_entries
    left = thinned.num_edges if single else thinned.num_entries
    assert total - left == round(alpha * total)


@quick
@given(graphs(), shares, st.integers(0, 99), st.booleans(), st.booleans())
def test_an_edge_index_and_its_adjacency_lose_the_same_edges(graph, alpha, step, paired, exact):
    assume(graph.undirected or not paired)  # a lone edge_index cannot say that it is directed
    drop = DropEdge(alpha, seed=3, paired=paired, exact=exact)
    assert columns(drop(graph.edge_index, step, stage=1)) == edges_of(drop(graph, step, stage=1))


def test_graded_dropping_keeps_every_count_alike():
    """Of d edges, each count from 0 to d survives with probability 1 / (d + 1)."""
    degree, hubs = 4, 3000
    center = torch.arange(hubs).repeat_interleave(degree)
    leaf = hubs + torch.arange(hubs * degree)
    edges = torch.stack([leaf, center])
    kept = edges[:, DropEdge("graded").mask(edges, step=3)]
    counts = torch.bincount(torch.bincount(kept[1], minlength=hubs), minlength=degree + 1)
    assert (counts / hubs - 1 / (degree + 1)).abs().max() < 0.03


def test_graded_dropping_is_the_same_for_a_graph_and_for_its_edges():
    edges = torch.randint(0, 50, (2, 400), generator=torch.Generator().manual_seed(0))
    edges = edges[:, edges[0] != edges[1]]
    graph = adjacency_from(edges, 50, undirected=True)
    drop = DropEdge("graded", seed=5)
    thinned, listed = drop.thin(graph, step=2, stage=1), graph.edge_index
    expected = listed[:, drop.mask(listed, step=2, stage=1)]
    assert thinned.edge_index.equal(expected)
    assert not thinned.undirected
    assert not drop.thin(graph, step=3, stage=1).edge_index.equal(expected)


def test_graded_dropping_is_by_global_ids():
    edges = torch.randint(0, 60, (2, 500), generator=torch.Generator().manual_seed(1))
    edges = edges[:, edges[0] != edges[1]]
    graph, nodes = adjacency_from(edges, 60, undirected=True), torch.arange(20, 60)
    drop = DropEdge("graded")
    part = drop.thin(graph.induce(nodes), step=0)
    whole = drop.thin(graph, step=0)
    inside = (whole.row >= 20) & (whole.col >= 20)
    assert part.num_entries == int(inside.sum())


def test_graded_dropping_has_no_exact_share():
    with pytest.raises(InputError, match="exact=True drops one share"):
        DropEdge("graded", exact=True)
