"""New nodes and their edges, laid over a graph that stays as it is.

Nodes that are given edges between them arrive together, in one *world*; all others arrive alone.  A
node of a world has a *key*, ``world * span + number``: fields of many worlds are then one field of
keys, in which an old node that two worlds see is two nodes, each with the degree it has there.

One new node means arithmetic on a few hundred numbers, where numpy answers before torch has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_LAST = np.iinfo(np.int64).max
"""A key behind all others: every search ends at one."""


def ranges(start: Ints, count: Ints) -> tuple[Ints, Ints]:
    """``start[i], start[i] + 1, ...``, ``count[i]`` of them for each i: row pointer and numbers."""
    pointer = np.zeros(start.size + 1, dtype=np.int64)
    count.cumsum(out=pointer[1:])
    shift = (start - pointer[:-1]).repeat(count)
    shift += np.arange(shift.size)
    return pointer, shift


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The entries that new nodes bring, in compressed rows of their receivers' keys.

    Args:
        num_old: N; new node i has number N + i.
        world: of each new node ``[m]``, counted from 0.
        keys: receivers that gain senders, ascending, and one more behind them ``[K + 1]``.
        rowptr: where each of these finds its new senders ``[K + 2]``.
        sender: their numbers, ascending for each receiver ``[F]``.
    """

    num_old: int
    world: Ints
    keys: Ints
    rowptr: Ints
    sender: Ints

    @property
    def span(self) -> int:
        """Numbers in a world."""
        return self.num_old + self.world.size

    @property
    def num_worlds(self) -> int:
        """How many there are."""
        return int(self.world.max()) + 1 if self.world.size else 0

    @property
    def new_keys(self) -> Ints:
        """Key of each new node ``[m]``."""
        return self.world * self.span + np.arange(self.num_old, self.span)

    @property
    def degree(self) -> Ints:
        """Senders of each new node ``[m]``."""
        return self.gains(self.new_keys)[1]

    def number(self, keys: Ints) -> Ints:
        """The numbers behind some keys, whatever their worlds; of one new node the keys."""
        return keys if self.world.size == 1 else keys % self.span

    def gains(self, keys: Ints) -> tuple[Ints, Ints]:
        """Where the new senders of some nodes begin, and how many there are, by key."""
        place = self.keys.searchsorted(keys)
        start = self.rowptr[place]
        return start, (self.rowptr[place + 1] - start) * (self.keys[place] == keys)


def arrivals(
    num_old: int,
    senders: Sequence[Ints],
    *,
    undirected: bool,
    targets: Sequence[Ints] | None = None,
    between: Ints | None = None,
) -> Arrivals:
    """New nodes from their lists of old neighbours; repeated edges count once.

    Args:
        num_old: N.
        senders: old nodes that each new node receives from; if undirected, also sends to.
        undirected: whether every edge goes both ways.
        targets: old nodes that each new node sends to, in a directed graph.
        between: edges between new nodes ``[2, F]``, counted from 0: sources above, targets below.
    """
    parts = [_entries(num_old, senders)]
    if targets is not None:
        parts.append(_entries(num_old, targets)[::-1])
    if between is not None:
        source, target = between[:, between[0] != between[1]] + num_old
        parts.append((target, source))
    if undirected:
        parts += [(sender, receiver) for receiver, sender in parts]
    receiver = np.concatenate([receiver for receiver, _ in parts])
    sender = np.concatenate([sender for _, sender in parts])
    world = _worlds(len(senders), between)
    # An old receiver is seen by the sender's world, a new one by its own, which is the same.
    key = world[np.maximum(receiver, sender) - num_old] * (num_old + world.size) + receiver
    return _sorted(num_old, world, key, sender)


def _entries(num_old: int, lists: Sequence[Ints]) -> tuple[Ints, Ints]:
    """New nodes, and the old nodes that they list."""
    count = [each.size for each in lists]
    listed = np.concatenate([*lists, np.empty(0, dtype=np.int64)])
    return np.repeat(np.arange(num_old, num_old + len(lists)), count), listed


def _sorted(num_old: int, world: Ints, key: Ints, sender: Ints) -> Arrivals:
    order = np.lexsort((sender, key))
    key, sender = key[order], sender[order]
    fresh = np.ones(key.size, dtype=np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (sender[1:] != sender[:-1])
    key, sender = key[fresh], sender[fresh]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    rowptr = np.concatenate([first, [sender.size, sender.size]])
    return Arrivals(num_old, world, np.concatenate([key[first], [_LAST]]), rowptr, sender)


def _worlds(count: int, between: Ints | None) -> Ints:
    """A number for each group of new nodes that edges connect, in the order of first members."""
    if between is None or not between.size:
        return np.arange(count)
    root = list(range(count))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for a, b in between.T.tolist():
        first, second = sorted((find(a), find(b)))
        root[second] = first
    return np.unique([find(node) for node in range(count)], return_inverse=True)[1]
