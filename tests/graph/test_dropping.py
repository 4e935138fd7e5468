"""Dropped edges by example: forms of an edge_index, pinned graphs, and thinned graphs as graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from graph_oracles import (
    CASES,
    PRODUCTS,
    columns,
    edges_of,
    randn,
    random_edges,
    tensor_of,
    value_and_grad,
)
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import Compose, ToUndirected

from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge, adjacency_from, dropping, receptive_field
from tuneup.graph import neighbours as thinning
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import fold_key

RANDOM = tensor_of(random_edges(200, 1500, seed=5, undirected=True))


def test_columns_of_an_edge_index_keep_their_order_and_their_copies():
    edge_index = torch.cat([RANDOM, RANDOM.flip(0), RANDOM[:, :50]], 1)
    kept = DropEdge(0.5)(edge_index, step=4)
    survivors = columns(kept)
    expected = [pair for pair in edge_index.t().tolist() if tuple(pair) in survivors]
    assert kept.t().tolist() == expected
    assert survivors == {(v, u) for u, v in survivors}


@pytest.mark.parametrize("alpha", [0.5, "graded"])
def test_a_data_loses_edges_and_their_attributes_by_the_mask(alpha):
    count = RANDOM.shape[1]
    data = Data(
        x=torch.rand(200, 2),
        edge_index=RANDOM,
        edge_attr=torch.rand(count, 3),
        edge_weight=torch.rand(count),
        edge_label_index=torch.randint(200, (2, count)),  # to be predicted: no messages
        time=torch.arange(count),
        y=torch.arange(200),
    )
    drop = DropEdge(alpha, seed=3)
    thinned, keep = drop(data, step=2), drop.mask(RANDOM, step=2)
    assert 0 < int(keep.sum()) < count
    assert torch.equal(thinned.edge_index, RANDOM[:, keep])
    for name in ("edge_attr", "edge_weight", "time"):
        assert torch.equal(thinned[name], data[name][keep])
    for name in ("x", "y", "edge_label_index"):
        assert thinned[name] is data[name]
    assert data.num_edges == count, "the data itself is left alone"
    assert thinned.num_edges == int(keep.sum())
    assert Compose([drop])(data).num_edges == int(drop.mask(RANDOM, step=0).sum())


def test_both_directions_of_a_hetero_edge_agree_and_relations_do_not():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.unique(torch.randint(40, (2, 600), generator=generator), dim=1)
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 40
    for name in ("rates", "views"):
        data["user", name, "item"].edge_index = pairs
        data["user", name, "item"].edge_attr = torch.arange(pairs.shape[1])
    data = DropEdge(0.5)(ToUndirected()(data), step=1)
    rated = data["user", "rates", "item"]
    assert torch.equal(pairs[:, rated.edge_attr], rated.edge_index)
    assert (rated.edge_index[0] == rated.edge_index[1]).sum() < 20, "user 3 and item 3 may part"
    assert columns(rated.edge_index) == columns(
        data["item", "rev_rates", "user"].edge_index.flip(0)
    )
    viewed = columns(data["user", "views", "item"].edge_index)
    shared = len(columns(rated.edge_index) & viewed) / pairs.shape[1]
    assert abs(shared - 0.25) < 4 * (0.25 * 0.75 / pairs.shape[1]) ** 0.5


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_narrow_integers_are_dropped_like_wide_ones(exact, dtype):
    drop = DropEdge(0.5, exact=exact)
    narrow = drop(RANDOM.to(dtype), step=0)
    assert narrow.dtype == dtype
    assert torch.equal(narrow.long(), drop(RANDOM, step=0))


def test_a_pyg_edge_index_stays_one():
    plain = DropEdge(0.5)(RANDOM, step=0)
    kept = DropEdge(0.5)(EdgeIndex(RANDOM.contiguous(), sparse_size=(200, 200)), step=0)
    assert isinstance(kept, EdgeIndex)
    assert torch.equal(kept.as_tensor(), plain)
    assert 0 < plain.shape[1] < RANDOM.shape[1]


@pytest.mark.parametrize("direction", ["up", "down", "both", "both, with copies"])
def test_exact_counts_undirected_edges_however_they_are_listed(direction):
    up = RANDOM[:, RANDOM[0] < RANDOM[1]]
    both = torch.cat([up, up.flip(0)], 1)
    edge_index = {
        "up": up,
        "down": up.flip(0),
        "both": both,
        "both, with copies": torch.cat([both, both[:, :31]], 1),
    }[direction]
    kept = DropEdge(0.3, exact=True)(edge_index, step=0)
    left = {frozenset(pair) for pair in columns(kept)}
    assert up.shape[1] - len(left) == round(0.3 * up.shape[1])


def test_what_cannot_be_dropped_from_is_refused():
    drop = DropEdge(0.5)
    with pytest.raises(InputError, match=r"Data has none.*convert adj_t"):
        drop(Data(x=torch.rand(3, 1)), step=0)
    with pytest.raises(InputError, match=r"a Data or a HeteroData; got \[3000, 2\]"):
        drop(torch.zeros(3000, 2, dtype=torch.long), step=0)


def test_a_block_is_refused_because_it_would_draw_other_edges_than_its_graph():
    block = receptive_field(CASES["undirected"].graph.neighbours, torch.arange(23), 1).blocks[0]
    assert block.num_rows == block.num_cols, "not even a square one gets through"
    with pytest.raises(InputError, match=r"then call ReceptiveField\.thin"):
        DropEdge(0.5)(block, step=0)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), float("inf")])
def test_alpha_is_a_share(alpha):
    with pytest.raises(
        InputError, match=f"alpha is the share of edges to drop, 0 to 1; got {alpha}"
    ):
        DropEdge(alpha)


@pytest.mark.parametrize("alpha", [True, "auto"])
def test_alpha_is_a_number(alpha):
    with pytest.raises(InputError, match=f"alpha is a number, .*; got {alpha!r}"):
        DropEdge(alpha)


def test_chunks_do_not_show(monkeypatch):
    graph = adjacency_from(RANDOM)
    whole = DropEdge(0.5)(graph, step=0)
    for chunk in (1, 7, graph.num_entries, graph.num_entries - 1):
        monkeypatch.setattr(dropping, "_CHUNK", chunk)
        monkeypatch.setattr(thinning, "_CHUNK", chunk)
        assert edges_of(DropEdge(0.5)(graph, step=0)) == edges_of(whole)


def test_golden_graph():
    """Pinned for the same reason as the hash: a resumed run must find the graphs it left."""
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    graph = adjacency_from(ring, undirected=True)
    survivors = edges_of(DropEdge(0.5, seed=1)(graph, step=2, stage=1))
    kept = {(u, v) for u, v in survivors if u < v}
    assert kept == {(0, 1), (2, 3), (3, 4), (4, 5), (5, 6), (8, 9)}


def test_an_edge_survives_iff_its_draw_reaches_the_threshold():
    graph = adjacency_from(torch.tensor([[3], [8]]), undirected=True)
    draw = int(edge_draws(torch.tensor([3]), torch.tensor([8]), fold_key(0, 0, 0), symmetric=True))
    assert DropEdge(draw / 2**53)(graph, step=0).num_edges == 1
    assert DropEdge((draw + 1) / 2**53)(graph, step=0).num_edges == 0


def test_mutual_edges_of_a_directed_graph_are_two_edges():
    """Only an undirected graph pairs its directions: elsewhere (u, v) and (v, u) are strangers."""
    graph = adjacency_from(RANDOM, undirected=False)
    thinned = DropEdge(0.5, paired=True)(graph, step=0)
    edges = edges_of(thinned)
    assert not thinned.undirected
    assert 0.4 < sum((v, u) not in edges for u, v in edges) / len(edges) < 0.6
    assert edges == edges_of(DropEdge(0.5, paired=False)(adjacency_from(RANDOM), step=0))


def test_the_mask_lets_edge_weights_follow_and_keeps_self_loops():
    edge_index = torch.randint(0, 50, (2, 400), generator=torch.Generator().manual_seed(0))
    weight = torch.arange(400.0)
    drop = DropEdge(0.5, seed=3)
    mask = drop.mask(edge_index, step=2)
    assert torch.equal(edge_index[:, mask], drop(edge_index, step=2))
    assert weight[mask].numel() == int(mask.sum()) < 400
    loops = edge_index[0] == edge_index[1]
    assert loops.any()
    assert mask[loops].all()


@pytest.mark.parametrize("paired", [True, False])
def test_exact_dropping_does_not_count_self_loops(paired):
    """A loop is no edge to a neighbour: it stays, and it is not one of the |E| edges."""
    path = torch.stack([torch.arange(20), torch.arange(20) + 1])
    loops = torch.arange(21).expand(2, -1)
    edge_index = torch.cat([loops[:, :9], path, loops[:, 9:]], 1)
    for seed in range(10):
        mask = DropEdge(0.5, seed, paired, exact=True).mask(edge_index, step=0)
        loop = edge_index[0] == edge_index[1]
        assert mask[loop].all()
        assert int(mask[~loop].sum()) == 10
        alone = DropEdge(0.5, seed, paired, exact=True).mask(path, step=0)
        assert torch.equal(mask[~loop], alone)


# ------------------------------------------------------------------- thinned graphs are real graphs


def survivors_from_scratch(thinned: Adjacency) -> Adjacency:
    """A graph built anew from nothing but the surviving edges."""
    edge_index = tensor_of(edges_of(replace(thinned, ids=None)))
    return adjacency_from(edge_index, thinned.num_nodes, undirected=thinned.undirected)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("kind", ["undirected", "directed", "unpaired", "twice", "of a part"])
def test_products_of_a_thinned_graph_are_those_of_the_surviving_edges(name, kind):
    """Degrees, transposes and weights are those of the thinned graph, forward and backward."""
    graph = CASES["directed" if kind == "directed" else "undirected"].graph
    if kind == "of a part":
        graph = graph.induce(torch.arange(22, -1, -2))
    thinned = DropEdge(0.4, seed=2, paired=kind != "unpaired")(graph, step=3)
    if kind == "twice":
        thinned = DropEdge(0.3, seed=5)(thinned, step=0)
    assert 0 < thinned.num_entries < graph.num_entries
    assert thinned.undirected == (kind in ("undirected", "twice", "of a part"))
    assert (thinned.degree != graph.degree).any()
    fresh = survivors_from_scratch(thinned)
    x = randn(thinned.num_nodes, 4)
    for ours, theirs in zip(
        value_and_grad(thinned, name, x), value_and_grad(fresh, name, x), strict=True
    ):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_thinned_graph_is_compacted():
    graph = adjacency_from(RANDOM)
    thinned = DropEdge(0.75)(graph, step=0)
    assert thinned.num_entries < 0.35 * graph.num_entries
    assert thinned.matrix("gcn").value.numel() == thinned.num_entries
    assert thinned.col.untyped_storage().nbytes() == 8 * thinned.num_entries


def test_unpaired_dropping_leaves_a_directed_graph_with_edges_of_one_direction():
    graph = adjacency_from(RANDOM)
    thinned = DropEdge(0.5, paired=False)(graph, step=0)
    edges = edges_of(thinned)
    one_way = {(u, v) for u, v in edges if (v, u) not in edges}
    assert not thinned.undirected
    assert 0.4 < len(one_way) / len(edges) < 0.6
