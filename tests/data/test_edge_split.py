"""The split of edges: each in exactly one part, in the paper's shares, new nodes kept apart."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.edge_toys import edge_set
from tuneup.data import block_graph, split_edges
from tuneup.errors import InputError
from tuneup.graph import adjacency_from

GRAPH = block_graph(200, 800, 3, 2, seed=2).adjacency
NAMES = ("train", "validation", "test", "new_input", "new_target")


def edges_of(graph):
    return {frozenset(edge) for edge in graph.edge_index.t().tolist()}


def parts_of(split):
    return {name: edge_set(getattr(split, name)) for name in NAMES}


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 25), st.integers(0, 60), st.sampled_from([0.0, 0.05, 0.3]), st.integers(0, 9))
def test_every_edge_is_in_exactly_one_part(num_nodes, count, new, seed):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, num_nodes, (2, count), generator=generator)
    graph = adjacency_from(index, num_nodes, undirected=True)
    split = split_edges(graph, new=new, seed=seed)
    parts = parts_of(split)
    assert sum(map(len, parts.values())) == graph.num_edges
    assert set().union(*parts.values()) == edges_of(graph)
    known, arrives = split.known.tolist(), split.new.tolist()
    assert known == sorted(known)
    assert arrives == sorted(arrives)
    assert sorted(known + arrives) == list(range(num_nodes))
    for name, edges in parts.items():
        if name.startswith("new"):
            assert all(edge & set(arrives) for edge in edges)
        else:
            assert all(edge <= set(known) for edge in edges)


def test_the_papers_shares():
    split = split_edges(GRAPH)
    assert split.known.numel() == 190
    assert split.new.numel() == 10
    parts = {name: len(edges) for name, edges in parts_of(split).items()}
    inside = parts["train"] + parts["validation"] + parts["test"]
    assert parts["train"] == inside // 2
    assert parts["validation"] == inside // 5
    outside = parts["new_input"] + parts["new_target"]
    assert outside > 10
    assert parts["new_input"] == outside // 2
    for name in NAMES:
        edges = getattr(split, name)
        assert edges.dtype == torch.long
        assert edges.is_contiguous()


def test_new_nodes_know_each_other_too():
    """Edges among new nodes are the new nodes' edges: none is lost."""
    split = split_edges(GRAPH, new=0.4)
    new = set(split.new.tolist())
    between = {edge for edge in edges_of(GRAPH) if edge <= new}
    parts = parts_of(split)
    assert between
    assert between <= parts["new_input"] | parts["new_target"]


def test_other_shares():
    split = split_edges(GRAPH, new=0.25, train=0.75, validation=0.125, new_input=0.25)
    parts = {name: len(edges) for name, edges in parts_of(split).items()}
    inside = parts["train"] + parts["validation"] + parts["test"]
    assert split.known.numel() == 150
    assert parts["train"] == int(0.75 * inside)
    assert parts["validation"] == int(0.125 * inside)
    assert parts["new_input"] == int(0.25 * (parts["new_input"] + parts["new_target"]))


def test_nobody_is_new():
    split = split_edges(GRAPH, new=0.0)
    assert split.new.numel() == 0
    assert split.new_input.shape == split.new_target.shape == (2, 0)


def test_the_seed_decides():
    first, again, other = (split_edges(GRAPH, seed=seed) for seed in (0, 0, 1))
    for name in (*NAMES, "known", "new"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert not torch.equal(first.new, other.new)
    assert parts_of(first)["train"] != parts_of(other)["train"]


def test_the_same_for_the_same_edges():
    """However they were listed: the graph alone decides."""
    order = torch.randperm(GRAPH.num_entries, generator=torch.Generator().manual_seed(0))
    again = adjacency_from(GRAPH.edge_index[:, order].flip(0), 200, undirected=True)
    first, second = split_edges(GRAPH), split_edges(again)
    assert all(torch.equal(getattr(first, name), getattr(second, name)) for name in NAMES)


def test_a_directed_graph_is_refused():
    graph = adjacency_from(torch.tensor([[0, 1], [1, 2]]), 3, undirected=False)
    with pytest.raises(InputError, match="the graph must be undirected"):
        split_edges(graph)


def test_bad_shares_are_refused():
    for shares in [
        {"train": 0.0},
        {"validation": 0.0},
        {"train": 0.5, "validation": 0.5},
        {"new_input": 0.0},
        {"new_input": 1.0},
    ]:
        with pytest.raises(InputError, match="shares above 0 that leave some over; got"):
            split_edges(GRAPH, **shares)


def test_a_bad_share_of_new_nodes_is_refused():
    with pytest.raises(InputError, match="new is the share of new nodes"):
        split_edges(GRAPH, new=1.0)
