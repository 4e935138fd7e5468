"""Nodes that are held out as new, from a seeded split or from that of a column."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tuneup.data import EdgeSplit, block_graph, exact_share, split_edges
from tuneup.tables import Shares
from tuneup.tables.splits import (
    held_out,
    hold_out_edges,
    hold_out_nodes,
    node_split_of,
    seeded_node_split,
)


@given(st.integers(1, 200), st.floats(0, 0.5), st.integers(0, 5))
def test_everybody_is_known_or_new(count, share, seed):
    known, new = held_out(count, share, seed)
    assert torch.cat([known, new]).sort().values.equal(torch.arange(count))
    assert known.numel()
    assert bool(new.numel()) == (exact_share(share) * count >= 1)


def test_a_seeded_split_without_new_nodes_is_the_one_it_always_was():
    y = torch.arange(100) % 3
    plain, other = (seeded_node_split(y, Shares(0.6, 0.2, new), 3, "g") for new in (0.0, 0.1))
    assert plain.new.numel() == 0
    assert [part.numel() for part in (plain.train, plain.validation, plain.test)] == [60, 20, 20]
    assert other.new.numel() == 10
    assert [part.numel() for part in (other.train, other.validation, other.test)] == [54, 18, 18]


def test_nodes_of_a_column_are_held_out_of_its_test():
    split = node_split_of(torch.arange(90) % 3)
    found = hold_out_nodes(split, 0.1, 5)
    assert found.train.equal(split.train)
    assert found.validation.equal(split.validation)
    assert torch.cat([found.test, found.new]).sort().values.equal(split.test)
    assert torch.cat([found.known, found.new]).sort().values.equal(split.known)
    assert (found.new.numel(), found.seed) == (9, 5)


def edges_of(*parts: Tensor) -> set[tuple[int, int]]:
    return {tuple(edge) for part in parts for edge in part.T.tolist()}


def test_edges_of_a_column_keep_their_parts():
    whole: EdgeSplit = split_edges(block_graph(60, 300, 3, 2).adjacency, new=0.0)
    found = hold_out_edges(whole, 0.1, 2)
    assert found.new.numel() == 6
    known = edges_of(found.train), edges_of(found.validation), edges_of(found.test)
    for part, before in zip(known, (whole.train, whole.validation, whole.test), strict=True):
        assert part < edges_of(before)
        assert not {end for edge in part for end in edge} & set(found.new.tolist())
    shown, asked = edges_of(found.new_input), edges_of(found.new_target)
    assert known[2] | asked == edges_of(whole.test)
    assert known[0] | known[1] | shown == edges_of(whole.train, whole.validation)
    assert all(set(edge) & set(found.new.tolist()) for edge in shown | asked)
