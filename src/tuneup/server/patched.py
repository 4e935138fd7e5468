"""A graph in which the rows of some nodes are replaced, and nodes are added, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.graph import Neighbours, Rows

Ints = NDArray[np.int64]
NONE: Ints = np.empty(0, dtype=np.int64)


class Patched:
    """The senders of each node: those of ``base``, but for nodes whose row was replaced.

    A :class:`~tuneup.graph.Neighbours` like any other, so patches can be laid over patches.

    Args:
        base: the graph below, which stays as it is.
        brief: whether only a few rows will be replaced: then nothing is kept for each node.
    """

    def __init__(self, base: Neighbours, *, brief: bool = False) -> None:
        self.base = base
        self._rows: dict[int, Ints] = {}
        self._count = None if brief else np.full(base.num_nodes, -1, dtype=np.int64)
        """Length of each row that was replaced, -1 elsewhere."""
        self._num_nodes = base.num_nodes

    @property
    def num_nodes(self) -> int:
        """Old nodes and added ones."""
        return self._num_nodes

    def add_nodes(self, count: int) -> range:
        """Add nodes without edges; the answer are their numbers."""
        first, self._num_nodes = self._num_nodes, self._num_nodes + count
        if self._count is not None and self._num_nodes > self._count.size:
            more = max(count, self._count.size // 4, 1024)
            self._count = np.append(self._count, np.full(more, -1, dtype=np.int64))
        for node in range(first, self._num_nodes):
            self.replace(node, NONE)
        return range(first, self._num_nodes)

    def row(self, node: int) -> Ints:
        """The senders of a node, ascending."""
        if node in self._rows:
            return self._rows[node]
        found: Ints = self.base.take(torch.tensor([node])).col.numpy()
        return found

    def replace(self, node: int, senders: Ints) -> None:
        """Give a node other senders, distinct and ascending."""
        self._rows[node] = senders
        if self._count is not None:
            self._count[node] = senders.size

    def join(self, sender: int, receiver: int) -> bool:
        """Add an entry; whether it was not there yet."""
        row = self.row(receiver)
        place = int(row.searchsorted(sender))
        if place < row.size and row[place] == sender:
            return False
        self.replace(receiver, np.insert(row, place, sender))
        return True

    def part(self, sender: int, receiver: int) -> bool:
        """Take an entry out; whether it was there."""
        row = self.row(receiver)
        place = int(row.searchsorted(sender))
        if place == row.size or row[place] != sender:
            return False
        self.replace(receiver, np.delete(row, place))
        return True

    def degree(self, nodes: Tensor) -> Tensor:
        """Number of senders of each of some nodes ``[n]``."""
        wanted = nodes.numpy()
        found: Ints = np.zeros(wanted.size, dtype=np.int64)
        changed = self._changed(wanted)
        found[~changed] = self.base.degree(torch.from_numpy(wanted[~changed])).numpy()
        if self._count is not None:
            found[changed] = self._count[wanted[changed]]
        else:
            found[changed] = [self._rows[node].size for node in wanted[changed].tolist()]
        return torch.from_numpy(found)

    def take(self, nodes: Tensor) -> Rows:
        """Senders of each of some nodes, in that order."""
        wanted = nodes.numpy()
        changed = self._changed(wanted)
        old = self.base.take(torch.from_numpy(wanted[~changed]))
        if not changed.any():
            return Rows(old.rowptr, old.col)
        rows = [self._rows[node] for node in wanted[changed].tolist()]
        count: Ints = np.empty(wanted.size, dtype=np.int64)
        count[~changed] = old.count.numpy()
        count[changed] = [row.size for row in rows]
        rowptr: Ints = np.zeros(wanted.size + 1, dtype=np.int64)
        count.cumsum(out=rowptr[1:])
        col: Ints = np.empty(int(rowptr[-1]), dtype=np.int64)
        replaced = changed.repeat(count)
        col[~replaced] = old.col.numpy()
        col[replaced] = _joined(rows)
        return Rows(torch.from_numpy(rowptr), torch.from_numpy(col))

    def receivers(self, sender: int, undirected: bool) -> Ints:
        """The nodes that receive from a node."""
        if undirected:
            return self.row(sender)
        found = [node for node, row in self._rows.items() if sender in row]
        below = self.base
        if isinstance(below, Rows):
            entries = np.flatnonzero(below.col.numpy() == sender)
            old = below.rowptr.numpy().searchsorted(entries, side="right") - 1
            found += [node for node in old.tolist() if node not in self._rows]
        return np.array(sorted(found), dtype=np.int64)

    def _changed(self, nodes: Ints) -> NDArray[np.bool_]:
        if self._count is not None:
            return self._count[nodes] >= 0
        return np.isin(nodes, np.fromiter(self._rows, dtype=np.int64, count=len(self._rows)))


def _joined(rows: Sequence[Ints]) -> Ints:
    return np.concatenate([*rows, NONE])
