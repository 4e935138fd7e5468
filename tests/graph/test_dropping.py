"""Dropped edges: which, how many, and that nothing about them can be predicted from the others.

Everything here is a fixed function of fixed seeds: a statistic cannot fail by chance.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from graph_oracles import (
    CASES,
    PRODUCTS,
    edges_of,
    graphs,
    quick,
    randn,
    random_edges,
    tensor_of,
    value_and_grad,
)
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from tuneup.errors import InputError
from tuneup.graph import Adjacency, DropEdge, adjacency_from, dropping, receptive_field
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import _GOLDEN, _mix_, _signed, fold_key

shares = st.floats(0.0, 1.0)
numbers = st.integers(-(2**70), 2**70)


def columns(edge_index: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(pair) for pair in edge_index.t().tolist()}


# ------------------------------------------------------------------------------------ properties


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


# -------------------------------------------------------------------------- edge_index, by example

RANDOM = tensor_of(random_edges(200, 1500, seed=5, undirected=True))


def test_columns_of_an_edge_index_keep_their_order_and_their_copies():
    edge_index = torch.cat([RANDOM, RANDOM.flip(0), RANDOM[:, :50]], 1)
    kept = DropEdge(0.5)(edge_index, step=4)
    survivors = columns(kept)
    expected = [pair for pair in edge_index.t().tolist() if tuple(pair) in survivors]
    assert kept.t().tolist() == expected
    assert survivors == {(v, u) for u, v in survivors}


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
    with pytest.raises(InputError, match=r"Adjacency or an edge_index \[2, E\]; got Data"):
        drop(Data(edge_index=RANDOM), step=0)
    with pytest.raises(InputError, match=r"edge_index \[2, E\]; got \[3000, 2\]"):
        drop(torch.zeros(3000, 2, dtype=torch.long), step=0)


def test_a_block_is_refused_because_it_would_draw_other_edges_than_its_graph():
    block = receptive_field(CASES["undirected"].graph, torch.arange(23), 1).blocks[0]
    assert block.num_rows == block.num_cols, "not even a square one gets through"
    with pytest.raises(InputError, match=r"then call ReceptiveField\.thin"):
        DropEdge(0.5)(block, step=0)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), float("inf")])
def test_alpha_is_a_share(alpha):
    with pytest.raises(
        InputError, match=f"alpha is the share of edges to drop, 0 to 1; got {alpha}"
    ):
        DropEdge(alpha)


def test_chunks_do_not_show(monkeypatch):
    graph = adjacency_from(RANDOM)
    whole = DropEdge(0.5)(graph, step=0)
    for chunk in (1, 7, graph.num_entries, graph.num_entries - 1):
        monkeypatch.setattr(dropping, "_CHUNK", chunk)
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


# --------------------------------------------------------------------------------------- statistics
#
# Draws are turned into independent numbers of mean 0 and variance 1, if the hash is good: B[t, ...]
# for edge ... at step t.  Then every sum of n of them, or of products of different ones, divided by
# sqrt(n), is a standard normal z; and a sum of n squares of such z is a chi-square.

LIMIT = 5.0
SIDE, STEPS = 24, 192


def bipartite() -> Adjacency:
    """Every node of 0..23 with every node of 24..47: edges share nodes, ids are consecutive."""
    left, right = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return adjacency_from(torch.stack([left.flatten(), right.flatten() + SIDE]), undirected=True)


def survivals(graph: Adjacency, calls: list[tuple[DropEdge, int, int]]) -> torch.Tensor:
    """``B [T, 24, 24]`` of the bipartite graph for a list of (drop, step, stage)."""
    up = graph.row > graph.col  # one direction, sorted by the receiver on the right
    alpha = calls[0][0].alpha
    rows = [drop(graph, step, stage).source[1][up] for drop, step, stage in calls]
    kept = torch.stack(rows).double().reshape(len(calls), SIDE, SIDE)
    return (kept - (1 - alpha)) / math.sqrt(alpha * (1 - alpha))


def z_of(products: torch.Tensor) -> float:
    return float(products.sum()) / math.sqrt(products.numel())


def z_of_squares(z: torch.Tensor) -> float:
    return float((z.square() - 1).sum()) / math.sqrt(2 * z.numel())


def evidence(b: torch.Tensor) -> dict[str, float]:
    """Everything that could be wrong with draws ``[T, 24, 24]``, as z-scores."""
    side, steps = SIDE, b.shape[0]
    found = {
        "dropped share": z_of(b),
        "spread of the share over steps": z_of_squares(b.sum((1, 2)) / side),
        "spread of left degrees": z_of_squares(b.sum(1) / math.sqrt(side)),
        "spread of right degrees": z_of_squares(b.sum(2) / math.sqrt(side)),
        "spread of an edge's survivals over steps": z_of_squares(b.sum(0) / math.sqrt(steps)),
        "spread of a node's survivals over steps": z_of_squares(
            b.sum((0, 1)) / (steps * side) ** 0.5
        ),
        "four edges of a cycle": z_of(
            b[:, 1:, 1:] * b[:, :-1, 1:] * b[:, 1:, :-1] * b[:, :-1, :-1]
        ),
        "an edge and its neighbour at two steps": z_of(
            b[1:, :, 1:] * b[:-1, :, 1:] * b[1:, :, :-1] * b[:-1, :, :-1]
        ),
    }
    for lag in (1, 2, 3, 4, 8, 16, 64, 128):
        found[f"steps {lag} apart"] = z_of(b[lag:] * b[:-lag])
    for down in range(4):
        for right in range(-3, 4):
            if down or right > 0:
                there = b[:, down:, max(0, right) : side + min(0, right)]
                here = b[:, : side - down, max(0, -right) : side - max(0, right)]
                found[f"edges {down}, {right} apart"] = z_of(there * here)
                found[f"edges {down}, {right} apart, a step later"] = z_of(there[1:] * here[:-1])
    return found


def with_ids(scale: int) -> Adjacency:
    graph = bipartite()
    return replace(graph, ids=torch.arange(graph.num_nodes) * scale)


def calls_along(what: str, alpha: float, paired: bool = True) -> list[tuple[DropEdge, int, int]]:
    """Draws along consecutive steps, seeds or stages."""
    at = range(STEPS)
    if what == "steps":
        return [(DropEdge(alpha, 0, paired), k, 0) for k in at]
    if what == "seeds":
        return [(DropEdge(alpha, k, paired), 1, 0) for k in at]
    if what == "stages":
        return [(DropEdge(alpha, 3, paired), 2, k) for k in at]
    return [(DropEdge(alpha, k, paired), STEPS - k, k % 2) for k in at]  # all at once


@pytest.mark.parametrize("what", ["steps", "seeds", "stages", "all at once"])
@pytest.mark.parametrize("alpha", [0.5, 0.15, 0.9])
def test_draws_are_unrelated(what, alpha):
    b = survivals(bipartite(), calls_along(what, alpha))
    surprising = {name: z for name, z in evidence(b).items() if abs(z) > LIMIT}
    assert not surprising


@pytest.mark.parametrize("scale", [2, 1000, 1 << 20, 1 << 32, (1 << 32) + 1, 1 << 56])
def test_draws_of_ids_far_apart_are_unrelated(scale):
    b = survivals(with_ids(scale), calls_along("steps", 0.5))
    surprising = {name: z for name, z in evidence(b).items() if abs(z) > LIMIT}
    assert not surprising


def test_directions_are_unrelated_if_not_paired():
    graph = bipartite()
    calls = calls_along("steps", 0.5, paired=False)
    b = survivals(graph, calls)
    assert max(abs(z) for z in evidence(b).values()) < LIMIT
    down = graph.row < graph.col
    rows = [drop(graph, step, stage).source[1][down] for drop, step, stage in calls]
    back = torch.stack(rows).double().reshape(len(calls), SIDE, SIDE).transpose(1, 2) * 2 - 1
    assert abs(z_of(b * back)) < LIMIT


def linear_congruence(first, second, key):
    return _top_bits(first * _signed(_GOLDEN) + second * 0x5851F42D4C957F2D + _signed(key))


def mixed_sum_of_ids(first, second, key):
    return _top_bits(_mix_(first + second + _signed(key)))


def xor_of_two_mixed_ids(first, second, key):
    return _top_bits(_mix_(first + _signed(key)) ^ _mix_(second + 1))


def good_hash_shifted_by_the_step(first, second, key):
    return _top_bits(_mix_(_mix_(first + 1) + second) + (key & 0xFFFF))


def good_hash_of_the_key_alone(first, second, key):
    return _top_bits(_mix_(torch.full_like(first, _signed(key))))


def _top_bits(z):
    return (z >> 11) & ((1 << 53) - 1)


WEAK_HASHES = [
    linear_congruence,
    mixed_sum_of_ids,
    xor_of_two_mixed_ids,
    good_hash_shifted_by_the_step,
    good_hash_of_the_key_alone,
]


@pytest.mark.parametrize("weak", WEAK_HASHES)
def test_the_statistics_see_through_weak_hashes(weak, monkeypatch):
    """The control: the same tests condemn hashes that get the share of dropped edges right."""
    monkeypatch.setattr(dropping, "hash_pairs", weak)
    found = evidence(survivals(bipartite(), calls_along("steps", 0.5)))
    assert max(abs(z) for z in found.values()) > 3 * LIMIT


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
def test_the_hub_of_a_star_keeps_a_binomial_number_of_leaves(alpha):
    leaves, steps = 1000, 200
    spokes = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    star = adjacency_from(spokes, undirected=True)
    drop = DropEdge(alpha, seed=11)
    degrees = torch.tensor([int(drop(star, step).degree[0]) for step in range(steps)]).double()
    z = (degrees - leaves * (1 - alpha)) / math.sqrt(leaves * alpha * (1 - alpha))
    assert abs(float(z.sum())) / math.sqrt(steps) < LIMIT
    assert abs(z_of_squares(z)) < LIMIT
    assert float(z.abs().max()) < LIMIT


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8])
def test_surviving_degrees_of_a_regular_graph_vary_like_binomials(alpha):
    nodes, half = 1500, 10
    node = torch.arange(nodes)
    ring = torch.cat([torch.stack([node, (node + k) % nodes]) for k in range(1, half + 1)], 1)
    graph = adjacency_from(ring, undirected=True)
    assert graph.degree.unique().tolist() == [2 * half]
    mean, variance = 2 * half * (1 - alpha), 2 * half * alpha * (1 - alpha)
    for step in range(10):
        z = (DropEdge(alpha, seed=4)(graph, step).degree - mean) / math.sqrt(variance)
        # A degree is a sum of 20 draws, two neighbours share one of them: 1.2 covers both.
        assert abs(z_of_squares(z)) < 1.2 * LIMIT
        neighbours = (z * z.roll(1)).mean()
        assert abs(float(neighbours) - 1 / (2 * half)) < 1.2 * LIMIT / math.sqrt(nodes)


def test_exact_drops_each_edge_equally_often():
    graph = bipartite()
    up = graph.row > graph.col
    drop = DropEdge(0.25, exact=True)
    times = sum(drop(graph, step).source[1][up].double() for step in range(STEPS))
    z = (times - 0.75 * STEPS) / math.sqrt(STEPS * 0.25 * 0.75)
    assert abs(z_of_squares(z)) < LIMIT
    assert float(z.abs().max()) < LIMIT


def test_draws_use_every_bit():
    draws = edge_draws(torch.arange(4096), torch.arange(4096) + 5, fold_key(0), symmetric=True)
    for bit in range(53):
        assert abs(float(((draws >> bit) & 1).double().mean()) - 0.5) * 2 * 64 < LIMIT


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
