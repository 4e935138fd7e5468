"""Negatives: uniform over what is allowed, never a training neighbour, a pure function."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.tasks import Moment
from tuneup.tasks.ranking import NegativeSampler


def sampler(edges: list[tuple[int, int]], num_nodes: int, first: int = 0, count: int | None = None):
    index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    graph = adjacency_from(index, num_nodes, undirected=True)
    return NegativeSampler(graph, first, num_nodes - first if count is None else count)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 25), st.integers(0, 40), st.integers(0, 100), st.integers(0, 5))
def test_never_the_source_nor_a_neighbour(num_nodes, num_edges, seed, step):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes, (num_edges, 2), generator=generator).tolist()
    try:
        draws = sampler([tuple(e) for e in edges], num_nodes)
    except InputError:
        return  # a node that knows everyone
    sources = torch.randint(0, num_nodes, (200,), generator=generator)
    drawn = draws.draw(sources, Moment(seed, 0, step))
    neighbours = {(a, b) for a, b in edges} | {(b, a) for a, b in edges}
    for s, n in zip(sources.tolist(), drawn.tolist(), strict=True):
        assert s != n
        assert (s, n) not in neighbours
        assert 0 <= n < num_nodes


def test_uniform_over_the_allowed():
    """Source 0 knows 1 and 2 of ten: each of the other seven gets its share."""
    draws = sampler([(0, 1), (0, 2)], 10)
    drawn = draws.draw(torch.zeros(70_000, dtype=torch.long), Moment(0, 0, 0))
    count = torch.bincount(drawn, minlength=10)
    assert count[:3].tolist() == [0, 0, 0]
    assert ((count[3:] - 10_000).abs() < 5 * (10_000 * 6 / 7) ** 0.5).all()


def test_moments_decide():
    draws = sampler([(0, 1)], 1000)
    sources = torch.arange(500)
    first = draws.draw(sources, Moment(1, 0, 7))
    assert torch.equal(first, draws.draw(sources, Moment(1, 0, 7)))
    for other in (Moment(2, 0, 7), Moment(1, 1, 7), Moment(1, 0, 8)):
        agree = (first == draws.draw(sources, other)).float().mean()
        assert agree < 0.02


def test_only_candidates_are_drawn():
    """Users 0-4, items 5-11: users get items."""
    draws = sampler([(0, 5), (1, 6)], 12, first=5)
    drawn = draws.draw(torch.arange(5).repeat(200), Moment(0, 0, 0))
    assert int(drawn.min()) >= 5
    assert set(drawn.tolist()) == set(range(5, 12))


def test_the_last_one_left_is_found():
    """Node 0 knows all but one of 3,000: rejection alone would take thousands of rounds."""
    draws = sampler([(0, n) for n in range(1, 2999)], 3000)
    drawn = draws.draw(torch.zeros(20, dtype=torch.long), Moment(0, 0, 0))
    assert drawn.tolist() == [2999] * 20


def test_a_node_that_knows_everyone_is_named():
    with pytest.raises(InputError, match="Node 0 is connected to all 4 candidates"):
        sampler([(0, 1), (0, 2), (0, 3)], 4)
