"""Which edges are dropped, and how many: nothing can be predicted from the other draws."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tuneup.graph import Adjacency, DropEdge, adjacency_from, dropping
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import GOLDEN, _mix_, _signed, fold_key

# Everything here is a fixed function of fixed seeds: a statistic cannot fail by chance.
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
    return _top_bits(first * _signed(GOLDEN) + second * 0x5851F42D4C957F2D + _signed(key))


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
