"""The receptive field of nodes that have just arrived, exactly as if the graph contained them.

An arrival changes its neighbours' degrees and states, and theirs in turn: nothing that was computed
before can be used.  What is computed anew is what the new nodes can hear of: their senders in
layer L, the senders of these in layer L - 1, and so on.  The work and memory depend on the entries
of that field alone, never on the number of nodes: nodes are found by sorting, not by marking.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from tuneup.graph import Adjacency
from tuneup.graph.oneway import OneWay

from .arrivals import Arrivals, Ints, ranges

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class OldGraph:
    """The graph as fields are cut out of it: on the CPU, whatever the device of the layers."""

    adjacency: Adjacency

    @cached_property
    def rowptr(self) -> Ints:
        """Row pointer with one empty row more, which all new nodes read ``[N + 2]``."""
        rowptr: Ints = self.adjacency.rowptr.cpu().numpy()
        return np.append(rowptr, rowptr[-1])

    @cached_property
    def col(self) -> Ints:
        """Senders ``[E]``."""
        col: Ints = self.adjacency.col.cpu().numpy()
        return col

    @cached_property
    def _roots(self) -> dict[int, Floats]:
        return {}

    def root(self, loops: int) -> Floats:
        """``(degree + loops)^-1/2`` of each old node before anyone arrives ``[N]``, kept."""
        if loops not in self._roots:
            self._roots[loops] = inverse_root(np.diff(self.rowptr[:-1]), loops)
        return self._roots[loops]


def inverse_root(degree: Ints, loops: int) -> Floats:
    """``(degree + loops)^-1/2``, 1 for a degree of 0."""
    root = np.sqrt(np.maximum(degree + loops, 1).astype(np.float32))
    return np.reciprocal(root, out=root)


@dataclass(frozen=True, eq=False)
class Senders:
    """Who sends to some receivers: entries of the graph, and entries that arrived."""

    number: Ints
    """of each receiver, whatever its world ``[R]``"""
    old_rowptr: Ints
    """[R + 1]"""
    old: Ints
    """senders by the graph's entries"""
    new_rowptr: Ints
    """[R + 1]"""
    new: Ints
    """senders by the entries that arrived"""

    @property
    def degree(self) -> Ints:
        """In-degree of each receiver ``[R]``."""
        return np.diff(self.old_rowptr) + np.diff(self.new_rowptr)


@dataclass(frozen=True, eq=False)
class ArrivalField:
    """What layers need to know to compute some new nodes.

    Args:
        graph: the old graph.
        arrivals: what is laid over it.
        keys: receivers of layer 1, the wanted new nodes first ``[R]``.
        senders: theirs.
        blocks: of layers 2 .. L.
        wanted: how many new nodes there are.
    """

    graph: OldGraph
    arrivals: Arrivals
    keys: Ints
    senders: Senders
    blocks: tuple[OneWay, ...]
    wanted: int

    @property
    def old_receivers(self) -> Ints:
        """Numbers of layer 1's receivers after the new nodes, which all are old ``[R - m]``."""
        return self.senders.number[self.wanted :]

    def gathered(self, weighted: bool) -> tuple[Ints, OneWay]:
        """Layer 1 as a block, and the numbers of its senders: the new nodes, then old ones."""
        keys, block = _block(self.graph, self.arrivals, self.keys, self.senders, weighted)
        return keys % self.arrivals.span, block


def arrival_field(
    graph: OldGraph,
    arrivals: Arrivals,
    keys: Ints,
    depth: int,
    *,
    weighted: bool,
    limit: int | None = None,
) -> ArrivalField | None:
    """The field of new nodes ``keys`` through ``depth`` layers.

    Args:
        graph: the old graph.
        arrivals: what is laid over it.
        keys: all new nodes of the worlds that they belong to, by ascending number.
        depth: L.
        weighted: whether the layers read senders' degrees.
        limit: entries of layer 1 above which nothing is done and the answer is ``None``.
    """
    blocks: list[OneWay] = []
    wanted, senders = keys.size, _senders(graph, arrivals, keys)
    for _ in range(depth - 1):
        keys, block = _block(graph, arrivals, keys, senders, weighted)
        blocks.append(block)
        if limit is not None:
            _, count = old_rows(graph, arrivals, keys % arrivals.span)
            if count.sum() > limit:
                return None
        senders = _senders(graph, arrivals, keys)
    return ArrivalField(graph, arrivals, keys, senders, tuple(reversed(blocks)), wanted)


def old_rows(graph: OldGraph, arrivals: Arrivals, number: Ints) -> tuple[Ints, Ints]:
    """Where the graph lists the senders of some nodes, and how many; none of a new node."""
    row = np.minimum(number, arrivals.num_old)
    start = graph.rowptr[row]
    return start, graph.rowptr[row + 1] - start


def _senders(graph: OldGraph, arrivals: Arrivals, keys: Ints) -> Senders:
    number = keys % arrivals.span
    old_rowptr, old = ranges(*old_rows(graph, arrivals, number))
    new_rowptr, new = ranges(*arrivals.gains(keys))
    return Senders(number, old_rowptr, graph.col[old], new_rowptr, arrivals.sender[new])


def degrees(graph: OldGraph, arrivals: Arrivals, keys: Ints) -> Ints:
    """In-degree of each key in its own world."""
    return old_rows(graph, arrivals, keys % arrivals.span)[1] + arrivals.gains(keys)[1]


def sender_keys(keys: Ints, number: Ints, rowptr: Ints, sender: Ints) -> Ints:
    """Keys of entries' senders: each in its receiver's world."""
    return np.repeat(keys - number, np.diff(rowptr)) + sender


def _block(
    graph: OldGraph, arrivals: Arrivals, keys: Ints, senders: Senders, weighted: bool
) -> tuple[Ints, OneWay]:
    """A block with these receivers, and the keys of its senders: receivers first."""
    sent = _all_sender_keys(keys, senders)
    distinct, inverse = np.unique(sent, return_inverse=True)
    place = np.full(distinct.size, -1)
    if distinct.size:
        found = np.minimum(np.searchsorted(distinct, keys), distinct.size - 1)
        hit = np.flatnonzero(distinct[found] == keys)
        place[found[hit]] = hit
    fresh = np.flatnonzero(place < 0)
    everyone = np.concatenate([keys, distinct[fresh]])
    place[fresh] = np.arange(keys.size, everyone.size)
    rowptr = torch.from_numpy(senders.old_rowptr + senders.new_rowptr)
    col = torch.from_numpy(place[inverse])
    known = torch.from_numpy(degrees(graph, arrivals, everyone)) if weighted else None
    block = OneWay(rowptr, col, everyone.size, False, degrees=known)
    return everyone, block.to(graph.adjacency.device)  # type: ignore[return-value]


def _all_sender_keys(keys: Ints, senders: Senders) -> Ints:
    """The sender of each entry, row after row: those of the graph, then those that arrived."""
    old = sender_keys(keys, senders.number, senders.old_rowptr, senders.old)
    new = sender_keys(keys, senders.number, senders.new_rowptr, senders.new)
    behind = np.repeat(senders.old_rowptr[1:], np.diff(senders.new_rowptr))
    return np.insert(old, behind, new)
