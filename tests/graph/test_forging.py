"""Forged tails: how many links stay, which, and that the draw is a function of its moment."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.graph.dropping import forge_tails


def random_graph(nodes, count, seed):
    edges = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(seed))
    return adjacency_from(edges, nodes, undirected=True)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 300), st.integers(0, 1000))
def test_heads_keep_one_to_k_of_their_own_links_and_tails_all(k, count, seed):
    graph = random_graph(30, count, seed)
    forged = forge_tails(graph, k, seed, 0, 3)
    for v in range(30):
        before = graph.col[graph.rowptr[v] : graph.rowptr[v + 1]].tolist()
        after = forged.col[forged.rowptr[v] : forged.rowptr[v + 1]].tolist()
        assert after == sorted(after)
        assert set(after) <= set(before)
        if len(before) <= k:
            assert after == before
        else:
            assert 1 <= len(after) <= k
    assert not forged.undirected


def test_every_number_and_every_link_is_as_likely():
    """A star of 12 leaves, its centre forged 3,000 times with k = 4."""
    graph = adjacency_from(torch.stack([torch.zeros(12).long(), 1 + torch.arange(12)]), 13)
    graph = adjacency_from(graph.edge_index, 13, undirected=True)
    lengths, chosen = torch.zeros(5), torch.zeros(13)
    for step in range(3000):
        forged = forge_tails(graph, 4, 0, 0, step)
        kept = forged.col[: int(forged.rowptr[1])]
        lengths[len(kept)] += 1
        chosen[kept] += 1
    assert lengths[0] == 0
    # 3,000 draws: four deviations of a binomial share are 0.032 and 0.03.
    torch.testing.assert_close(lengths[1:] / 3000, torch.full((4,), 0.25), atol=0.032, rtol=0)
    torch.testing.assert_close(chosen[1:] / 3000, torch.full((12,), 2.5 / 12), atol=0.03, rtol=0)


def test_the_draw_is_a_function_of_its_moment():
    graph = random_graph(40, 400, 1)
    one = forge_tails(graph, 3, 0, 0, 5)
    assert one.col.equal(forge_tails(graph, 3, 0, 0, 5).col)
    for other in ((1, 0, 5), (0, 1, 5), (0, 0, 6)):
        assert not one.edge_index.equal(forge_tails(graph, 3, *other).edge_index)


def test_k_must_leave_a_link():
    with pytest.raises(InputError, match="k: got 0; expected 1 or more"):
        forge_tails(random_graph(4, 4, 0), 0, 0, 0, 0)
