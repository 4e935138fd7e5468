"""A sample is a part of the graph with dropped edges, drawn by nothing but its key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from graph_oracles import PRODUCTS, edges_of, graphs, quick, randn, senders_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_field import assert_same, draw_rows, through_the_field, through_the_graph

from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.graph import DropEdge, Rows, adjacency_from, sampling
from tuneup.graph.csr import transpose
from tuneup.graph.sampling import is_alone, sample

few = settings(quick, max_examples=15)
ALPHAS = [0.0, 0.3, 1.0, "graded"]


def hubs(num_nodes, num_edges, seed):
    return block_graph(num_nodes, num_edges, 2, 1, seed=seed).adjacency


def thinned(graph, alpha, paired=True, step=2):
    """The view that a sampler asks, and the graph that a full pass would see."""
    drop = DropEdge(alpha, seed=1, paired=paired)
    return drop.view(graph, step), drop(graph, step=step)


@few
@given(graphs(), st.integers(1, 3), st.sampled_from(ALPHAS), st.booleans(), st.data())
@pytest.mark.parametrize("name", PRODUCTS)
def test_all_neighbours_give_the_rows_and_gradients_of_the_whole_graph(
    name, graph, depth, alpha, paired, data
):
    rows, x = draw_rows(data, graph), randn(graph.num_nodes, 4)
    view, whole = thinned(graph, alpha, paired)
    field = sample(view.neighbours, rows, [-1] * depth, key=3)
    assert_same(through_the_field(field, name, x), through_the_graph(whole, name, x, rows, depth))


@few
@given(graphs(max_nodes=40), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
@pytest.mark.parametrize("alpha", ALPHAS)
def test_rows_hold_as_many_distinct_survivors_as_asked_for(alpha, graph, fanouts, data):
    rows = draw_rows(data, graph)
    view, whole = thinned(graph, alpha)
    field = sample(view.neighbours, rows, fanouts, key=data.draw(st.integers(0, 1 << 60)))
    senders = senders_of(edges_of(whole), graph.num_nodes)
    nodes = field.nodes.tolist()
    assert len(set(nodes)) == len(nodes)
    assert nodes[: rows.numel()] == rows.tolist(), "receivers come first, isolated ones too"
    last = 0
    for block, entries, fanout in zip(
        reversed(field.blocks), reversed(field.entries), fanouts, strict=True
    ):
        assert block.num_cols == max([block.num_rows, *(block.col + 1).tolist()])
        for row in range(last, block.num_rows):
            start, stop = block.rowptr[row : row + 2].tolist()
            found = [nodes[k] for k in block.col[start:stop].tolist()]
            assert len(set(found)) == len(found) == min(fanout, len(senders[nodes[row]]))
            assert set(found) <= set(senders[nodes[row]])
            assert graph.col[entries[start:stop]].tolist() == found
            assert graph.row[entries[start:stop]].tolist() == [nodes[row]] * len(found)
        last = block.num_rows
    degree = [len(senders[node]) for node in nodes]
    assert field.blocks[0].degree.tolist() == degree
    assert is_alone(view.neighbours, field.nodes).tolist() == [d == 0 for d in degree]


def star(count: int):
    """A hub that ``count`` leaves send to."""
    leaves = torch.arange(1, count + 1)
    return adjacency_from(torch.stack([leaves, torch.zeros_like(leaves)]), count + 1)


@pytest.mark.parametrize(("count", "fanout"), [(30, 5), (70, 40), (3000, 8), (3000, 200)])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.97])
def test_every_survivor_is_chosen_alike(count, fanout, alpha):
    """Inclusion is Bernoulli with the same probability for each: a chi-square over the leaves."""
    view, whole = thinned(star(count), alpha)
    survivors = whole.col[: whole.rowptr[1]]
    size, rounds = survivors.numel(), 400
    hits = torch.zeros(count + 1)
    for key in range(rounds):
        hits[sample(view.neighbours, torch.tensor([0]), [fanout], key).nodes[1:]] += 1
    share = min(1.0, fanout / max(1, size))
    assert hits.sum() == rounds * min(fanout, size)
    outside = torch.ones(count + 1, dtype=torch.bool)
    outside[survivors] = False
    assert not hits[outside].any()
    if share < 1:
        chi = ((hits[survivors] - rounds * share) ** 2 / (rounds * share * (1 - share))).sum()
        assert abs(float(chi) * (size - 1) / size - (size - 1)) < 5 * (2 * size) ** 0.5


def test_sampled_sums_have_the_mean_of_full_ones():
    graph = hubs(200, 3000, seed=0)
    x, seeds = randn(200, 3), torch.arange(50)
    for scaling in ("sum", "gcn", "mean"):
        full = (graph.matrix(scaling) @ x)[seeds]
        drawn = []
        for key in range(600):
            field = sample(graph.neighbours, seeds, [6], key)
            drawn.append(field.blocks[0].matrix(scaling) @ x[field.nodes])
        error = torch.stack(drawn) - full
        spread = error.std(0) / 600**0.5
        assert (error.mean(0).abs() <= 5 * spread + 1e-9).all()
        assert spread.max() > 0


@pytest.mark.parametrize("alpha", [0.0, 0.5, "graded"])
@pytest.mark.parametrize("places", [0, 1 << 24])
def test_threads_tables_and_widths_of_ids_change_nothing(alpha, places, monkeypatch):
    graph = hubs(500, 8000, seed=1)
    source = thinned(graph, alpha)[0].neighbours
    seeds = [torch.randperm(500)[:40] for _ in range(24)]

    def draw(k, neighbours=source):
        field = sample(neighbours, seeds[k], [8, 4, 2], key=k)
        return [field.nodes, *(t for b in field.blocks for t in (b.rowptr, b.col)), *field.entries]

    expected = [draw(k) for k in range(24)]
    monkeypatch.setattr(sampling, "PLACES", places)
    with ThreadPoolExecutor(3) as pool:
        again = list(pool.map(draw, range(24)))
    narrow = adjacency_from(graph.edge_index, 500)
    object.__setattr__(narrow, "col", narrow.col.int())
    again += [draw(k, thinned(narrow, alpha)[0].neighbours) for k in range(3)]
    for ours, theirs in zip(expected + expected[:3], again, strict=True):
        assert all(map(torch.equal, ours, theirs))
    assert not torch.equal(expected[0][0], sample(source, seeds[0], [8, 4, 2], key=1).nodes)


class Far:
    """Another source: nodes whose ids need more than 31 bits, two of which share the low ones."""

    num_nodes = 1 << 40
    ids = (1 << 35, (1 << 35) + (1 << 31), 7, (1 << 32) + 7)

    def degree(self, nodes):
        return torch.full_like(nodes, 3)

    def take(self, nodes):
        others = [[i for i in self.ids if i != node] for node in nodes.tolist()]
        return Rows(torch.arange(0, 3 * len(others) + 1, 3), torch.tensor(others).flatten())


def test_any_source_can_be_sampled_and_ids_may_be_long():
    source = Far()
    field = sample(source, torch.tensor([7]), [-1, 2], key=0)
    assert field.nodes[0] == 7
    assert set(field.nodes.tolist()) == set(source.ids)
    assert field.blocks[0].rowptr.tolist() == [0, 3, 5, 7, 9]
    assert field.blocks[0].degree.tolist() == [3, 3, 3, 3]
    block = field.blocks[0]
    for row in range(4):
        found = field.nodes[block.col[block.rowptr[row] : block.rowptr[row + 1]]].tolist()
        assert int(field.nodes[row]) not in found


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("fanout", [-1, 3, 100])
def test_banned_neighbours_are_left_out_of_the_first_rows(alpha, fanout):
    graph = adjacency_from(star(300).edge_index, 301, undirected=True)
    view, whole = thinned(graph, alpha)
    banned = Rows(torch.tensor([0, 200, 201]), torch.cat([torch.arange(1, 201), torch.tensor([0])]))
    seeds = torch.tensor([0, 5])
    field = sample(view.neighbours, seeds, [fanout], 0, banned)
    allowed = [v for v in whole.col[: whole.rowptr[1]].tolist() if v > 200]
    found = field.nodes[field.blocks[0].col[: field.blocks[0].rowptr[1]]].tolist()
    assert set(found) <= set(allowed)
    assert len(found) == (len(allowed) if fanout < 0 else min(fanout, len(allowed)))
    assert field.blocks[0].rowptr[2] == field.blocks[0].rowptr[1], "node 5 lost its only neighbour"


def test_large_degrees_are_counted_in_part_where_fan_outs_are_limited():
    graph = star(20_000)
    view, whole = thinned(graph, 0.5)
    exact = int(whole.degree[0])
    for fanouts, allowed in (([-1], 0.0), ([10], 0.02 * exact)):
        degree = sample(view.neighbours, torch.tensor([0]), fanouts, 0).blocks[0].degree
        assert abs(int(degree[0]) - exact) <= allowed


def test_the_transpose_is_that_of_a_sort():
    graph = hubs(300, 4000, seed=2)
    block = sample(graph.neighbours, torch.arange(30), [5, 5], 0).blocks[0]
    assert all(map(torch.equal, block.reverse, transpose(block.rowptr, block.col, block.num_cols)))


@pytest.mark.parametrize("fanouts", [[], [0], [5, -2], [1.5], 3, "5"])
def test_fan_outs_are_checked(fanouts):
    with pytest.raises(InputError, match="num_neighbors: got"):
        sample(star(3).neighbours, torch.tensor([0]), fanouts, 0)


def test_seeds_are_checked():
    for seeds in (torch.tensor([0, 0]), torch.tensor([9]), np.array([0.5])):
        with pytest.raises((InputError, AttributeError)):
            sample(star(3).neighbours, torch.as_tensor(seeds), [1], 0)
