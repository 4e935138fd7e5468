"""Where neighbourhoods are read from, and the receptive fields that are made of them.

A :class:`Neighbours` answers about the nodes it is asked for, and does no work for any other node:
:class:`~tuneup.graph.Rows` reads compressed rows, :class:`Filtered` leaves out dropped edges, and
:class:`Overlay` adds new nodes and edges to a graph that stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency
from .csr import Rows

Ints = NDArray[np.int64]


class Neighbours(Protocol):
    """The senders of each node, wherever they are listed."""

    @property
    def num_nodes(self) -> int:
        """All nodes are below it."""

    def degree(self, nodes: Tensor) -> Tensor:
        """Number of senders of each of some nodes ``[n]``."""

    def take(self, nodes: Tensor) -> Rows:
        """Senders of each of some nodes, in that order."""


Rule = Callable[[Tensor, Tensor], Tensor]
"""Which edges survive ``[n]``, given the global ids of their receivers and senders ``[n]``."""


@dataclass(frozen=True, eq=False)
class Filtered:
    """The entries of another source that survive a rule, as :class:`DropEdge` has one.

    Args:
        base: the source with all entries.
        rule: which of them survive.
        ids: global ids of the source's nodes if they are not 0, 1, 2, ...
    """

    base: Neighbours
    rule: Rule
    ids: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """That of the source."""
        return self.base.num_nodes

    def survives(self, receiver: Tensor, sender: Tensor) -> Tensor:
        """Whether the entries between these nodes of the source survive ``[n]``."""
        if self.ids is not None:
            receiver, sender = self.ids[receiver], self.ids[sender]
        return self.rule(receiver, sender)

    def degree(self, nodes: Tensor) -> Tensor:
        """Number of surviving senders."""
        return self.take(nodes).count

    def take(self, nodes: Tensor) -> Rows:
        """Surviving senders."""
        rows = self.base.take(nodes)
        receiver = nodes[csr.rows_of(rows.rowptr, rows.col.numel())]
        return rows.select(self.survives(receiver, rows.col))


@dataclass(frozen=True, eq=False)
class Overlay:
    """New nodes behind the old ones, and new entries, over rows that stay as they are.

    Several insertions can be asked about at once: each has a *world* of its own, in which node v is
    ``world * span + v``. An old node is another node in each world.

    One new node means arithmetic on a few hundred numbers, where numpy answers before torch has
    begun: all arrays are on the CPU.

    Args:
        base: the senders of the old nodes.
        span: number of nodes in a world, old and new.
        worlds: how many there are.
        receivers: nodes that gain senders, ascending ``[K]``.
        gained: their new senders, as numbers in their world.
    """

    base: Rows
    span: int
    worlds: int
    receivers: Tensor
    gained: Rows

    @property
    def num_nodes(self) -> int:
        """Of all worlds."""
        return self.worlds * self.span

    def number(self, nodes: Tensor) -> Tensor:
        """Which node of its world each one is."""
        return nodes if self.worlds == 1 else nodes % self.span

    def degree(self, nodes: Tensor) -> Tensor:
        """Number of senders, old and new."""
        (_, old), (_, new) = self._spans(nodes.numpy(), self.number(nodes).numpy())
        return torch.from_numpy(old + new)

    def take(self, nodes: Tensor) -> Rows:
        """Senders: of each node the old ones, then the new ones."""
        old, new = self.parts(nodes)
        behind = old.rowptr[1:].numpy().repeat(new.count.numpy())
        col = np.insert(old.col.numpy(), behind, new.col.numpy())
        return Rows(old.rowptr + new.rowptr, torch.from_numpy(col))

    def parts(self, nodes: Tensor) -> tuple[Rows, Rows]:
        """Senders by entries of ``base``, and by entries that were added."""
        key, number = nodes.numpy(), self.number(nodes).numpy()
        parts = []
        for rows, (start, count) in zip(
            (self.base, self.gained), self._spans(key, number), strict=True
        ):
            rowptr, entries = _ranges(start, count)
            col = rows.col.numpy().take(entries)
            if self.worlds > 1:
                col += (key - number).repeat(count)
            parts.append(Rows(*map(torch.from_numpy, (rowptr, col, entries))))
        return parts[0], parts[1]

    def _spans(self, key: Ints, number: Ints) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Where the old senders of some nodes begin and how many there are, and the new ones."""
        rowptr, last = self.base.rowptr.numpy(), self.base.num_nodes - 1
        row = np.minimum(number, last)
        start = rowptr.take(row)
        old = start, (rowptr.take(row + 1) - start) * (number <= last)
        receivers, rowptr = self.receivers.numpy(), self.gained.rowptr.numpy()
        if not receivers.size:
            return old, (np.zeros_like(start), np.zeros_like(start))
        place = np.minimum(receivers.searchsorted(key), receivers.size - 1)
        start = rowptr.take(place)
        return old, (start, (rowptr.take(place + 1) - start) * (receivers.take(place) == key))


def _ranges(start: Ints, count: Ints) -> tuple[Ints, Ints]:
    """``start[i], start[i] + 1, ...``, ``count[i]`` of them for each i: row pointer and numbers."""
    rowptr = np.zeros(start.size + 1, dtype=np.int64)
    count.cumsum(out=rowptr[1:])
    shift = (start - rowptr[:-1]).repeat(count)
    shift += np.arange(shift.size)
    return rowptr, shift


# Graphs with dropped edges

_CHUNK = 1 << 16
"""Entries that a rule is asked about at a time: temporaries then stay in the processor's cache."""


class Thinned(Adjacency):
    """The graph of the edges that survive a rule, compacted when it is first read as a graph.

    A small receptive field asks the rule about its own entries instead: then nothing is computed
    for every edge of the graph.
    """

    def __init__(self, parent: Adjacency, rule: Rule) -> None:
        same = {"num_cols": parent.num_cols, "undirected": parent.undirected, "ids": parent.ids}
        neighbours = Filtered(parent.neighbours, rule, parent.ids)
        vars(self).update(same, _parent=parent, neighbours=neighbours)  # all else follows from it

    neighbours: Filtered  # type: ignore[assignment]

    @property
    def parent(self) -> Adjacency:
        """The graph with all of its edges."""
        parent: Adjacency = vars(self)["_parent"]
        return parent

    @cached_property
    def whole(self) -> Adjacency:
        """The compacted graph."""
        with torch.inference_mode(False):  # else an evaluation would spoil it for training
            return self.parent.thin(self._survivors())

    def _survivors(self) -> Tensor:
        """Which entries of the parent survive ``[E]``, a few rows at a time."""
        parent = self.parent
        keep = torch.empty(parent.num_entries, dtype=torch.bool, device=parent.device)
        for start, stop in csr.row_ranges(parent.rowptr, _CHUNK):
            pointer = parent.rowptr[start : stop + 1]
            part = slice(int(pointer[0]), int(pointer[-1]))
            receiver = csr.rows_of(pointer, part.stop - part.start) + start
            keep[part] = self.neighbours.survives(receiver, parent.col[part])
        return keep

    @property
    def rowptr(self) -> Tensor:
        """Of the compacted graph ``[R + 1]``."""
        return self.whole.rowptr

    @property
    def col(self) -> Tensor:
        """Of the compacted graph ``[E]``."""
        return self.whole.col

    @property
    def source(self) -> tuple[Adjacency, Tensor] | None:
        """The parent, and which of its entries survive."""
        return self.whole.source

    @property
    def weight(self) -> Tensor | None:
        """Of the compacted graph ``[E]``."""
        return None if self.parent.weight is None else self.whole.weight

    @property
    def device(self) -> torch.device:
        """Where the index lives."""
        return self.parent.device

    def to(self, device: torch.device | str) -> Adjacency:
        """The same graph on another device."""
        return self.whole.to(device)


# Receptive fields


class Block(Adjacency):
    """One layer of a receptive field; the degrees of its senders are read when a layer wants them.

    ``ids`` are the nodes of the source that it was cut out of.
    """

    def __init__(self, block: Adjacency, degrees: Callable[[], Tensor]) -> None:
        vars(self).update(vars(block), _degrees=degrees)

    @property
    def degrees(self) -> Tensor:
        """In the graph ``[C]``."""
        counted: Tensor = vars(self)["_degrees"]()
        return counted[: self.num_cols]


_SMALL = 0.5
"""Share of a graph's entries up to which a field is thinned without the rest of the graph."""

_BYTES_PER_ENTRY = 32
"""Of a block: its column, its position in the graph, and both once more for the transpose."""

_WIDE = 16
"""Nodes of a source for each entry read, above which nodes are found by sorting, not by a table."""


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """The rows that each layer must compute when only a few are read: blocks, first layer first.

    Layer L is wanted on the seeds; layer l on the rows above it and their neighbours.  Receivers
    come first among a block's senders, so a node's own state is a slice, never a gather.

    Args:
        nodes: what the first block reads, the seeds first ``[C]``.
        blocks: of the last layers: as many as asked for, or as fit into the budget.
        entries: of each block, positions among the entries of ``source``, if that has positions.
        source: what the field was cut out of; ``None`` for a thinned field.
    """

    nodes: Tensor
    blocks: tuple[Adjacency, ...]
    entries: tuple[Tensor, ...]
    source: Neighbours | None = None

    def thin(self, graph: Adjacency) -> ReceptiveField:
        """The field on a graph thinned out of the one that it was made for.

        It may read nodes that the thinned graph no longer reaches; their messages are gone all
        the same, and no node has to be searched for.
        """
        parent = graph.parent
        col = self.source.col if isinstance(self.source, Rows) else None
        if parent is None and graph.col is col:
            return self
        if parent is None or parent.col is not col:
            raise InputError(
                f"{graph!r} was not thinned, in one step, out of the graph that this field was "
                "made for. Make a field of its own with receptive_field."
            )
        if not self.blocks:
            return ReceptiveField(self.nodes, (), ())
        first, entries = self.blocks[0], self.entries[0]
        if isinstance(graph, Thinned) and entries.numel() < _SMALL * parent.num_entries:
            keep = graph.neighbours.survives(self.nodes[first.row], self.nodes[first.col])
            degrees = cache(partial(graph.neighbours.degree, self.nodes))
        else:
            assert graph.source is not None
            keep = graph.source[1][entries]
            degrees = cache(lambda: graph.degree[self.nodes])
        # Layers go from few rows to more: each block's entries are the first ones of the largest.
        blocks = (Block(b.thin(keep[: b.num_entries]), degrees) for b in self.blocks)
        return ReceptiveField(self.nodes, tuple(blocks), ())


def receptive_field(
    source: Neighbours, seeds: Tensor, depth: int, budget: int | None = None
) -> ReceptiveField:
    """The field of ``seeds`` (distinct nodes) through the last ``depth`` layers.

    Args:
        source: where neighbours are read from: ``graph.neighbours`` for an :class:`Adjacency`.
        seeds: nodes whose outputs are wanted.
        depth: number of layers.
        budget: bytes; the field goes back through as many layers as fit into it.
    """
    csr.check_nodes(seeds, source.num_nodes)
    nodes = seeds
    blocks: list[Adjacency] = []
    entries: list[Tensor] = []
    degrees = cache(lambda: source.degree(nodes))  # of all nodes that there are in the end
    for _ in range(depth):
        if budget is not None:
            budget -= _BYTES_PER_ENTRY * int(source.degree(nodes).sum())
            if budget < 0:
                break
        rows = source.take(nodes)
        nodes, col = _number(nodes, rows.col, source.num_nodes)
        block = Adjacency(rows.rowptr, col, nodes.numel(), undirected=False, ids=nodes)
        blocks.append(Block(block, degrees))
        if rows.entries is not None:
            entries.append(rows.entries)
    return ReceptiveField(nodes, tuple(reversed(blocks)), tuple(reversed(entries)), source)


def _number(nodes: Tensor, senders: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The nodes, then all other senders in ascending order; and where each sender comes there."""
    count = nodes.numel()
    if num_nodes > _WIDE * (count + senders.numel()):
        both = torch.cat([nodes, senders]).cpu().numpy()
        distinct, place = np.unique(both, return_inverse=True)
        order = np.full(distinct.size, -1)
        order[place[:count]] = np.arange(count)
        others = (order < 0).nonzero()[0]
        order[others] = np.arange(count, distinct.size)
        found = np.concatenate([both[:count], distinct[others]]), order[place[count:]]
        everyone, col = (torch.from_numpy(each).to(nodes.device) for each in found)
        return everyone, col
    position = torch.full((num_nodes,), -1, device=nodes.device)
    position[nodes] = torch.arange(count, device=nodes.device)
    fresh = torch.unique(senders[position[senders] < 0])
    position[fresh] = torch.arange(fresh.numel(), device=nodes.device) + count
    return torch.cat([nodes, fresh]), position[senders]
