"""A receptive field computes the wanted rows, and their gradients, as the whole graph would."""

from __future__ import annotations

import pytest
import torch
from graph_oracles import CASES, PRODUCTS, edges_of, graphs, product, quick, randn, senders_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge, Overlay, Rows, adjacency_from, receptive_field

few = settings(quick, max_examples=20)
"""Six products run through each of the two longest tests."""


def layer(graph: Adjacency, name: str, x: torch.Tensor) -> torch.Tensor:
    """An aggregation with a skip connection: it also reads the receivers' own rows."""
    return product(graph, name, x).tanh() + 0.5 * x[: graph.num_rows]


def through_the_graph(graph, name, x, rows, depth):
    x = x.clone().requires_grad_()
    h = x
    for _ in range(depth):
        h = layer(graph, name, h)
    out = h[rows]
    (grad,) = torch.autograd.grad((out * randn(*out.shape, seed=5)).sum(), x)
    return out.detach(), grad


def through_the_field(field, name, x):
    x = x.clone().requires_grad_()
    h = x[field.nodes]
    for block in field.blocks:
        h = layer(block, name, h)
    (grad,) = torch.autograd.grad((h * randn(*h.shape, seed=5)).sum(), x)
    return h.detach(), grad


def assert_same(ours, theirs):
    for left, right in zip(ours, theirs, strict=True):
        assert_close(left, right, rtol=1e-9, atol=1e-9)


def draw_rows(data, graph):
    order = data.draw(st.permutations(range(graph.num_nodes)))
    return torch.tensor(order[: data.draw(st.integers(0, graph.num_nodes))], dtype=torch.long)


@few
@given(graphs(), st.integers(0, 4), st.data())
@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_and_gradients_are_those_of_the_whole_graph(name, graph, depth, data):
    rows = draw_rows(data, graph)
    x = randn(graph.num_nodes, 4)
    field = receptive_field(graph.neighbours, rows, depth)
    whole = through_the_graph(graph, name, x, rows, depth)
    assert_same(through_the_field(field, name, x), whole)


@few
@given(graphs(), st.integers(1, 3), st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.booleans(), st.data())
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_same_after_thinning(name, graph, depth, alpha, paired, data):
    rows = draw_rows(data, graph)
    x = randn(graph.num_nodes, 4)
    thinned = DropEdge(alpha, seed=1, paired=paired)(graph, step=2)
    field = receptive_field(graph.neighbours, rows, depth).thin(thinned)
    whole = through_the_graph(thinned, name, x, rows, depth)
    assert_same(through_the_field(field, name, x), whole)
    assert_same(through_the_field(receptive_field(thinned.neighbours, rows, depth), name, x), whole)


@pytest.mark.parametrize("count", [3, 900])
@pytest.mark.parametrize("kind", ["undirected", "directed", "unpaired", "of a part"])
def test_a_small_field_is_thinned_bit_for_bit_without_the_rest_of_the_graph(kind, count):
    """The drop asks about the field's own edges; in a field of most edges, about all of them."""
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(1_000, (2, 3_000), generator=generator)
    graph = adjacency_from(edges, 1_000, undirected=kind != "directed")
    if kind == "of a part":
        graph = graph.induce(torch.arange(999, -1, -1))
    drop = DropEdge(0.4, seed=1, paired=kind != "unpaired")
    field = receptive_field(graph.neighbours, torch.arange(count), 2)
    eager, lazy = drop.thin(graph, step=2), drop.view(graph, step=2)
    expected, found = field.thin(eager), field.thin(lazy)
    for ours, theirs in zip(found.blocks, expected.blocks, strict=True):
        for part in ("rowptr", "col", "degree", "global_ids"):
            assert torch.equal(getattr(ours, part), getattr(theirs, part))
        for mine, other in zip(ours.reverse, theirs.reverse, strict=True):
            assert torch.equal(mine, other)
    assert ("whole" in vars(lazy)) == (count == 900)
    assert edges_of(lazy) == edges_of(eager)  # read as a graph, it is one
    assert (lazy.undirected, lazy.num_edges) == (eager.undirected, eager.num_edges)


@pytest.mark.parametrize("name", PRODUCTS)
def test_one_field_serves_every_step_of_a_larger_graph(name):
    generator = torch.Generator().manual_seed(3)
    graph = adjacency_from(torch.randint(300, (2, 900), generator=generator), 310, undirected=True)
    rows = torch.tensor([305, 7, 120, 33])  # 305 is isolated
    x = randn(310, 4)
    field = receptive_field(graph.neighbours, rows, 2)
    assert field.nodes.numel() < 150
    for step in range(3):
        thinned = DropEdge(0.5)(graph, step)
        whole = through_the_graph(thinned, name, x, rows, 2)
        assert_same(through_the_field(field.thin(thinned), name, x), whole)
    assert_same(through_the_field(field, name, x), through_the_graph(graph, name, x, rows, 2))


@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_tied_maxima_have_the_same_first_neighbour_in_a_block(kind):
    """Blocks renumber the nodes: the first of tied neighbours must not change with that."""
    graph = CASES[kind].graph
    rows = torch.tensor([11, 3, 19, 0, 21])
    x = randn(23, 8).sign()
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    field = receptive_field(graph.neighbours, rows, 1)
    field.blocks[0].max(ours[field.nodes]).backward(randn(5, 8, seed=1))
    graph.max(theirs)[rows].backward(randn(5, 8, seed=1))
    assert_close(ours.grad, theirs.grad)


@quick
@given(graphs(), st.integers(0, 4), st.data())
def test_a_field_reads_only_what_it_must(graph, depth, data):
    """By breadth-first search: layer l needs the rows above it and their senders, nothing else."""
    rows = draw_rows(data, graph)
    field = receptive_field(graph.neighbours, rows, depth)
    senders = senders_of(edges_of(graph), graph.num_nodes)
    assert len(field.blocks) == len(field.entries) == depth
    needed = set(rows.tolist())
    for block, entries in zip(reversed(field.blocks), reversed(field.entries), strict=True):
        receivers = field.nodes[: block.num_rows].tolist()
        assert set(receivers) == needed
        assert not block.undirected
        assert block.global_ids.tolist() == field.nodes[: block.num_cols].tolist()
        assert block.degree.tolist() == [len(senders[i]) for i in block.global_ids.tolist()]
        assert torch.equal(block.global_ids[block.col], graph.col[entries])
        assert torch.equal(block.global_ids[block.row], graph.row[entries])
        needed |= {j for i in needed for j in senders[i]}
        assert set(block.global_ids.tolist()) == needed
    assert field.nodes[: rows.numel()].tolist() == rows.tolist()
    assert field.nodes.unique().numel() == field.nodes.numel()
    for lower, upper in zip(field.blocks, field.blocks[1:], strict=False):
        assert lower.num_rows == upper.num_cols


def test_the_field_of_all_nodes_is_the_graph():
    for kind in ("undirected", "directed", "no edges", "no nodes"):
        graph = CASES[kind].graph
        field = receptive_field(graph.neighbours, torch.arange(graph.num_nodes), 2)
        assert field.nodes.tolist() == list(range(graph.num_nodes))
        for block in field.blocks:
            assert torch.equal(block.rowptr, graph.rowptr)
            assert torch.equal(block.col, graph.col)


def test_a_field_of_isolated_nodes_has_no_messages():
    field = receptive_field(CASES["undirected"].graph.neighbours, torch.tensor([22, 20]), 3)
    assert field.nodes.tolist() == [22, 20]
    assert [block.num_entries for block in field.blocks] == [0, 0, 0]


def test_a_field_of_an_induced_graph_has_its_numbers():
    graph = CASES["undirected"].graph.induce(torch.arange(22, -1, -1))
    field = receptive_field(graph.neighbours, torch.tensor([4]), 1)
    assert graph.global_ids[field.nodes[0]] == 18
    assert_close(field.blocks[0].degree, graph.degree[field.nodes])


def test_thinning_by_the_graph_itself_is_the_identity():
    """This is what dropping with alpha 0 asks for."""
    graph = CASES["undirected"].graph
    field = receptive_field(graph.neighbours, torch.tensor([1, 2]), 2)
    assert field.thin(DropEdge(0.0)(graph, step=0)) is field


def test_thinning_a_field_sorts_nothing(monkeypatch):
    """The transposes of its blocks are made once; those of thinned blocks are read off them."""
    graph = CASES["undirected"].graph
    field = receptive_field(graph.neighbours, torch.tensor([1, 2, 14]), 2)
    for block in field.blocks:
        assert block.reverse
    monkeypatch.setattr("tuneup.graph.csr.transpose", lambda *_: pytest.fail("sorted again"))
    for step in range(3):
        for block in field.thin(DropEdge(0.5)(graph, step)).blocks:
            assert block.reverse


def test_thinning_by_any_other_graph_is_refused():
    graph = CASES["undirected"].graph
    field = receptive_field(graph.neighbours, torch.tensor([1, 2]), 2)
    drop = DropEdge(0.5)
    thinned = drop(graph, step=0)
    strangers = [
        graph.induce(torch.arange(23)),  # equal, but nobody can tell
        drop(graph.induce(torch.arange(23)), step=0),
        drop(thinned, step=1),  # thinned twice
    ]
    for stranger in strangers:
        with pytest.raises(InputError, match=r"not thinned, in one step.*Make a field of its own"):
            field.thin(stranger)
    with pytest.raises(InputError, match="not thinned, in one step"):
        field.thin(thinned).thin(thinned)


def test_an_overlay_has_the_neighbours_of_the_inserted_graph():
    """Two worlds: one adds node 23 with two edges, the other node 24 with one; 22 gains in both."""
    graph = CASES["directed"].graph
    span, added = 25, {23: [3, 7], 22: [23], 25 + 24: [5], 25 + 22: [24]}
    keys = sorted(added)
    rowptr = torch.tensor([0, *map(len, (added[key] for key in keys))]).cumsum(0)
    gained = Rows(rowptr, torch.tensor([sender for key in keys for sender in added[key]]))
    overlay = Overlay(graph.neighbours, span, 2, torch.tensor(keys), gained)
    senders = senders_of(edges_of(graph), 23)
    nodes = torch.arange(50).flip(0)
    expected = [
        [v // span * span + s for s in [*(senders[v % span : v % span + 1] or [[]])[0]]]
        + [v // span * span + s for s in added.get(v, [])]
        for v in nodes.tolist()
    ]
    rows = overlay.take(nodes)
    assert [part.tolist() for part in rows.col.split(rows.count.tolist())] == expected
    assert overlay.degree(nodes).tolist() == [len(each) for each in expected]
    field = receptive_field(overlay, torch.tensor([23, 25 + 24]), 2)
    assert set(field.nodes.tolist()) >= {23, 3, 7, 49, 30}
