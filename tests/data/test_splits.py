"""Splits: the paper's counts, disjoint parts, and nested cold-start graphs."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tuneup.data import NodeSplit, block_graph, cold_start, split_nodes
from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge, adjacency_from


def test_the_papers_table_1() -> None:
    for num_nodes, labelled, known, test in [
        (169_343, 0.10, 160_875, 143_941),
        (2_449_029, 0.02, 2_326_577, 2_277_597),
    ]:
        split = split_nodes(num_nodes, labelled=labelled)
        assert split.known.numel() == known
        assert split.test.numel() == test
        assert split.train.numel() == split.validation.numel()
        assert split.train.numel() * 2 == int(labelled * num_nodes)


def test_counts_are_of_the_decimals_written() -> None:
    for num_nodes, labelled, new, expected in [
        (100, 0.29, 0.05, (95, 5, 15, 14, 66)),  # 0.29 * 100 is 28.999999999999996 in floats
        (1000, 0.58, 0.3, (700, 300, 290, 290, 120)),
        (10, 0.2, 0.0, (10, 0, 1, 1, 8)),
        (10, 0.9, 0.1, (9, 1, 5, 4, 0)),
    ]:
        split = split_nodes(num_nodes, labelled=labelled, new=new)
        assert sizes(split) == expected


def sizes(split: NodeSplit) -> tuple[int, ...]:
    parts = (split.known, split.new, split.train, split.validation, split.test)
    return tuple(part.numel() for part in parts)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(30, 400), st.floats(0.1, 0.5), st.floats(0.0, 0.4), st.integers(0, 2**40), st.data()
)
def test_every_node_is_in_one_part(
    num_nodes: int, labelled: float, new: float, seed: int, data: st.DataObject
) -> None:
    unknown = data.draw(st.sets(st.integers(0, num_nodes - 1), max_size=num_nodes // 20))
    y = torch.zeros(num_nodes, dtype=torch.long)
    y[list(unknown)] = -1
    split = split_nodes(num_nodes, labelled=labelled, new=new, seed=seed, y=y)
    everyone = torch.cat([split.known, split.new]).sort().values
    assert torch.equal(everyone, torch.arange(num_nodes))
    scored = torch.cat([split.train, split.validation, split.test])
    assert torch.equal(scored.sort().values, split.known[y[split.known] >= 0])
    assert torch.equal(split.labelled, torch.cat([split.train, split.validation]).sort().values)
    for part in (split.known, split.new, split.train, split.validation, split.test):
        assert part.dtype == torch.long
        assert bool((part.diff() > 0).all())
    again = split_nodes(num_nodes, labelled=labelled, new=new, seed=seed, y=y)
    assert torch.equal(again.train, split.train)
    assert torch.equal(again.known, split.known)


def test_seeds_differ_and_known_labels_do_not_matter() -> None:
    first, second = (split_nodes(2_000, labelled=0.1, seed=seed) for seed in (0, 1))
    shared = torch.isin(first.labelled, second.labelled).double().mean()
    assert 0.02 < float(shared) < 0.2  # 0.1 expected, of 200
    y = torch.arange(2_000) % 7
    assert torch.equal(split_nodes(2_000, labelled=0.1, y=y).train, first.train)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    split_nodes(100, labelled=0.1)
    assert torch.equal(torch.get_rng_state(), before)


def test_new_and_labelled_nodes_are_drawn_uniformly() -> None:
    hits = torch.zeros(40, 2)
    for seed in range(600):
        split = split_nodes(40, labelled=0.2, new=0.25, seed=seed)
        hits[split.new, 0] += 1
        hits[split.train, 1] += 1
    for column, share in enumerate((10 / 40, 4 / 40)):
        bound = 4.5 * (600 * share * (1 - share)) ** 0.5
        assert float((hits[:, column] - 600 * share).abs().max()) < bound


def test_positions_lead_into_the_induced_graph() -> None:
    graph = block_graph(200, 500, 4, 3)
    split = split_nodes(200, labelled=0.1)
    known = graph.induce(split.known)
    assert graph.y is not None
    assert known.y is not None
    assert torch.equal(known.y[split.positions(split.train)], graph.y[split.train])
    assert torch.equal(known.adjacency.global_ids[split.positions(split.test)], split.test)
    with pytest.raises(InputError, match=f"Node {int(split.new[0])} is not one of"):
        split.positions(split.new)


def test_repr_counts() -> None:
    text = "NodeSplit(1,900 known: 100 train, 100 validation, 1,700 test; 100 new)"
    assert repr(split_nodes(2_000, labelled=0.1)) == text


def ids(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def test_a_bad_split_is_refused() -> None:
    for change, message in [
        ({"new": ids(3, 5)}, "known and new must not overlap; node 3 is in both"),
        ({"validation": ids(0)}, "train and validation must not overlap; node 0"),
        ({"test": ids(1, 2)}, "validation and test must not overlap; node 1"),
        ({"test": ids(5)}, "test must lie inside known; node 5"),
        ({"train": ids(0, 0)}, "train must be ascending, each node once"),
        ({"known": ids(3, 2, 1, 0)}, "known must be ascending"),
        ({"test": ids(-1)}, "test must be node ids, 0 or more; got -1"),
        ({"test": torch.tensor([2.0])}, "test must be int64 node ids"),
        ({"test": torch.tensor([True, False])}, "test must be int64 node ids"),
    ]:
        good = {"known": ids(0, 1, 2, 3), "new": ids(4), "train": ids(0), "validation": ids(1)}
        good["test"] = ids(2, 3)
        NodeSplit(**good)
        with pytest.raises(InputError, match=message):
            NodeSplit(**(good | change))


def test_impossible_shares_are_refused() -> None:
    with pytest.raises(InputError, match="new is the share of new nodes"):
        split_nodes(100, labelled=0.1, new=1.0)
    with pytest.raises(InputError, match="labelled is a share of all nodes"):
        split_nodes(100, labelled=0.0)
    with pytest.raises(InputError, match="asks for 1 labelled nodes; allowed are 2"):
        split_nodes(100, labelled=0.01)
    with pytest.raises(InputError, match="to 50, the known nodes"):
        split_nodes(100, labelled=0.6, new=0.5)
    with pytest.raises(InputError, match=r"one label per node, \[100\]; got \[99\]"):
        split_nodes(100, labelled=0.1, y=torch.zeros(99, dtype=torch.long))
    with pytest.raises(InputError, match="to 0, the known nodes that have a label"):
        split_nodes(100, labelled=0.1, y=torch.full((100,), -1))


def pairs(adjacency: Adjacency) -> set[tuple[int, int]]:
    """Directed entries by global id."""
    first, second = adjacency.global_ids[adjacency.edge_index].tolist()
    return set(zip(first, second, strict=True))


@settings(max_examples=25, deadline=None)
@given(st.integers(10, 80), st.integers(0, 10**6), st.integers(0, 10**6))
def test_cold_start_is_nested_symmetric_and_spares_v(size: int, seed: int, draw: int) -> None:
    generator = torch.Generator().manual_seed(draw)
    edges = torch.randint(size, (2, 4 * size), generator=generator)
    adjacency = adjacency_from(edges, size, undirected=True)
    new = torch.randperm(size, generator=generator)[: size // 4]
    inside = {(u, v) for u, v in pairs(adjacency) if not {u, v} & set(new.tolist())}
    graphs = [pairs(cold_start(adjacency, new, r, seed)) for r in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert graphs[0] == pairs(adjacency)
    assert graphs[-1] == inside
    for larger, smaller in pairwise(graphs):
        assert smaller <= larger
    for graph in graphs:
        assert inside <= graph
        assert graph == {(v, u) for u, v in graph}


@pytest.fixture(scope="module")
def warm() -> tuple[Adjacency, NodeSplit]:
    graph = block_graph(8_000, 40_000, 5, 1)
    return graph.adjacency, split_nodes(8_000, labelled=0.1)


def test_the_share_removed_is_binomial(warm: tuple[Adjacency, NodeSplit]) -> None:
    for seed in [0, 7]:
        for ratio in [0.3, 0.6, 0.9]:
            adjacency, split = warm
            arrived = torch.isin(torch.arange(8_000), split.new)
            touching = int((arrived[adjacency.row] | arrived[adjacency.col]).sum()) // 2
            cold = cold_start(adjacency, split.new, ratio, seed)
            removed = adjacency.num_edges - cold.num_edges
            assert abs(removed - ratio * touching) < 4 * (touching * ratio * (1 - ratio)) ** 0.5
            assert cold.num_nodes == 8_000
            assert torch.equal(cold.degree, cold.rowptr.diff())


def test_cold_start_draws_are_not_trainings(warm: tuple[Adjacency, NodeSplit]) -> None:
    """Of the edges that cold start removes at seed 0, training at seed 0 drops half, no more."""
    adjacency, split = warm
    cold = pairs(cold_start(adjacency, split.new, 0.5, seed=0))
    removed = pairs(adjacency) - cold
    for step in (0, 1):
        kept = len(removed & pairs(DropEdge(0.5, seed=0).thin(adjacency, step))) / len(removed)
        assert abs(kept - 0.5) < 4 * 0.5 / (len(removed) / 2) ** 0.5
    other = removed - pairs(cold_start(adjacency, split.new, 0.5, seed=1))
    assert abs(len(other) / len(removed) - 0.5) < 4 * 0.5 / (len(removed) / 2) ** 0.5


def test_edges_are_drawn_by_global_id(warm: tuple[Adjacency, NodeSplit]) -> None:
    """Cold start of a renumbered subgraph is the subgraph of the cold start."""
    adjacency, split = warm
    generator = torch.Generator().manual_seed(3)
    nodes = torch.randperm(8_000, generator=generator)[:3_000]
    new = split.new[torch.isin(split.new, nodes)]
    first = cold_start(adjacency.induce(nodes), new, 0.6, seed=0)
    second = cold_start(adjacency, split.new, 0.6, seed=0).induce(nodes)
    assert pairs(first) == pairs(second)
    assert first.num_edges < adjacency.induce(nodes).num_edges


def test_directed_edges_are_drawn_one_by_one() -> None:
    both = adjacency_from(torch.tensor([[0, 1], [1, 0]]), 2, undirected=False)
    counts = {cold_start(both, ids(1), 0.5, seed).num_entries for seed in range(40)}
    assert counts == {0, 1, 2}


def test_cold_start_refusals() -> None:
    adjacency = adjacency_from(torch.tensor([[0, 1], [1, 2]]), 4, undirected=True)
    with pytest.raises(InputError, match="ratio is the share of edges to remove, 0 to 1; got 30"):
        cold_start(adjacency, ids(1), 30, 0)
    with pytest.raises(InputError, match="new node 4 is not in the graph; give global ids"):
        cold_start(adjacency, ids(1, 4), 0.3, 0)
    with pytest.raises(InputError, match="new node 0 is not in the graph"):
        cold_start(adjacency.induce(ids(1, 2)), ids(0), 0.3, 0)
    with pytest.raises(InputError, match="new must be int64 node ids"):
        cold_start(adjacency, torch.tensor([True, False, False, False]), 0.3, 0)
