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
class Level:
    """Some receivers and who sends to them: by entries of the graph, and by those that arrived."""

    keys: Ints
    """of the receivers ``[R]``"""
    number: Ints
    """theirs, whatever the world ``[R]``"""
    old_count: Ints
    old_rowptr: Ints
    old: Ints
    """numbers of senders by the graph's entries ``[E]``"""
    new_count: Ints
    new_rowptr: Ints
    new: Ints
    """numbers of senders by entries that arrived ``[F]``"""

    @property
    def degree(self) -> Ints:
        """In-degree of each receiver in its own world ``[R]``."""
        return self.old_count + self.new_count

    @property
    def old_keys(self) -> Ints:
        """Keys of the senders by the graph's entries ``[E]``: each in its receiver's world."""
        if self.number is self.keys:
            return self.old
        return (self.keys - self.number).repeat(self.old_count) + self.old

    @property
    def new_keys(self) -> Ints:
        """Keys of the senders by entries that arrived ``[F]``."""
        if self.number is self.keys:
            return self.new
        return (self.keys - self.number).repeat(self.new_count) + self.new


@dataclass(frozen=True, eq=False)
class ArrivalField:
    """What layers need to know to compute some new nodes.

    Args:
        graph: the old graph.
        arrivals: what is laid over it.
        first: receivers of layer 1, the wanted new nodes before all others, and their senders.
        blocks: of layers 2 .. L.
        wanted: how many new nodes there are.
    """

    graph: OldGraph
    arrivals: Arrivals
    first: Level
    blocks: tuple[Adjacency, ...]
    wanted: int

    @property
    def old_receivers(self) -> Ints:
        """Numbers of layer 1's receivers after the new nodes, which all are old ``[R - m]``."""
        return self.first.number[self.wanted :]

    def gathered(self, weighted: bool) -> tuple[Ints, Adjacency]:
        """Layer 1 as a block, and the numbers of its senders: the new nodes, then old ones.

        ``weighted`` says whether the layer reads senders' degrees.
        """
        keys, col = _senders_of(self.first)
        known = degrees(self.graph, self.arrivals, keys) if weighted else None
        return self.arrivals.number(keys), _block(self.graph, self.first, col, keys.size, known)


def arrival_field(
    graph: OldGraph, arrivals: Arrivals, keys: Ints, depth: int, limit: int | None = None
) -> ArrivalField | None:
    """The field of new nodes through ``depth`` layers.

    Args:
        graph: the old graph.
        arrivals: what is laid over it.
        keys: all new nodes of the worlds that they belong to, by ascending number.
        depth: L.
        limit: entries of a layer above which the search ends and the answer is ``None``.
    """
    blocks: list[Adjacency] = []
    level = _level(graph, arrivals, keys, limit)
    for _ in range(depth - 1):
        if level is None:
            return None
        everyone, col = _senders_of(level)
        below = _level(graph, arrivals, everyone, limit)
        if below is not None:
            blocks.append(_block(graph, level, col, everyone.size, below.degree))
        level = below
    if level is None:
        return None
    return ArrivalField(graph, arrivals, level, tuple(reversed(blocks)), keys.size)


def _level(graph: OldGraph, arrivals: Arrivals, keys: Ints, limit: int | None) -> Level | None:
    number = arrivals.number(keys)
    start, count = _old_rows(graph, arrivals, number)
    if limit is not None and count.sum() > limit:
        return None
    new_start, new_count = arrivals.gains(keys)
    old_rowptr, old = ranges(start, count)
    new_rowptr, new = ranges(new_start, new_count)
    sender = arrivals.sender[new]
    return Level(keys, number, count, old_rowptr, graph.col[old], new_count, new_rowptr, sender)


def _old_rows(graph: OldGraph, arrivals: Arrivals, number: Ints) -> tuple[Ints, Ints]:
    """Where the graph lists the senders of some nodes, and how many; none of a new node."""
    row = np.minimum(number, arrivals.num_old)
    start = graph.rowptr[row]
    return start, graph.rowptr[row + 1] - start


def degrees(graph: OldGraph, arrivals: Arrivals, keys: Ints) -> Ints:
    """In-degree of each key in its own world."""
    return _old_rows(graph, arrivals, arrivals.number(keys))[1] + arrivals.gains(keys)[1]


def _senders_of(level: Level) -> tuple[Ints, Ints]:
    """Keys of all that a level reads, receivers first, and the place of each entry's sender."""
    behind = level.old_rowptr[1:].repeat(level.new_count)  # a row's old senders, then its new
    sent = np.insert(level.old_keys, behind, level.new_keys)
    distinct, inverse = np.unique(sent, return_inverse=True)
    place = np.full(distinct.size, -1)
    if distinct.size:
        found = np.minimum(distinct.searchsorted(level.keys), distinct.size - 1)
        hit = (distinct[found] == level.keys).nonzero()[0]
        place[found[hit]] = hit
    fresh = (place < 0).nonzero()[0]
    everyone = np.concatenate([level.keys, distinct[fresh]])
    place[fresh] = np.arange(level.keys.size, everyone.size)
    return everyone, place[inverse]


def _block(
    graph: OldGraph, level: Level, col: Ints, num_senders: int, degree: Ints | None
) -> Adjacency:
    rowptr = torch.from_numpy(level.old_rowptr + level.new_rowptr)
    known = None if degree is None else torch.from_numpy(degree)
    block = Adjacency(rowptr, torch.from_numpy(col), num_senders, False, degrees=known)
    return block.to(graph.adjacency.device)
