"""Receptive fields: the rows that each layer must compute when the loss reads only a few.

Layer L is wanted on ``rows``; layer l on the rows above it and their neighbours.  Receivers come
first among a block's senders, so a node's own state is a slice, never a gather.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency
from .thinned import Thinned


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """Blocks of the last ``len(blocks)`` layers, first layer first; none if they are too large.

    ``nodes [C]`` are the nodes that the first block reads, in its order; the last block's receivers
    are the wanted rows, in the order they were asked for.  ``entries[l]`` are block l's positions
    among the entries of ``graph``, which a thinned field no longer has.
    """

    nodes: Tensor
    blocks: tuple[Adjacency, ...]
    entries: tuple[Tensor, ...]
    graph: Adjacency | None = None

    def thin(self, graph: Adjacency) -> ReceptiveField:
        """The field on a graph thinned out of the one that it was made for.

        It may read nodes that the thinned graph no longer reaches; their messages are gone all
        the same, and nothing has to be searched for anew.
        """
        if graph is self.graph:
            return self
        parent = graph.parent
        if self.graph is None or parent is None or parent.col is not self.graph.col:
            raise InputError(
                f"{graph!r} was not thinned, in one step, out of the graph that this field was "
                "made for. Make a field of its own with receptive_field."
            )
        if not self.blocks:
            return ReceptiveField(self.nodes, (), ())
        first, entries = self.blocks[0], self.entries[0]
        if isinstance(graph, Thinned) and entries.numel() < _SMALL * parent.num_entries:
            ids = first.global_ids
            keep = graph.rule(ids[first.row], ids[first.col])
            degrees = cache(partial(graph.degrees_of, self.nodes))
        else:
            assert graph.source is not None
            keep = graph.source[1][entries]
            degrees = cache(lambda: graph.degree[self.nodes])
        # Layers go from few rows to more: each block's entries are the first ones of the largest.
        blocks = (_ThinnedBlock(b.thin(keep[: b.num_entries]), degrees) for b in self.blocks)
        return ReceptiveField(self.nodes, tuple(blocks), ())


class _ThinnedBlock(Adjacency):
    """A block of a thinned graph, whose senders' degrees are counted when a layer reads them."""

    def __init__(self, block: Adjacency, degrees: Callable[[], Tensor]) -> None:
        vars(self).update(vars(block), _degrees=degrees)

    @property
    def degrees(self) -> Tensor:
        """In the thinned graph ``[C]``."""
        counted: Tensor = vars(self)["_degrees"]()
        return counted[: self.num_cols]


_SMALL = 0.5
"""Share of a graph's entries up to which a field is thinned without the rest of the graph."""


_BYTES_PER_ENTRY = 32
"""Of a block: its column, its position in the graph, and both once more for the transpose."""


def receptive_field(
    graph: Adjacency, rows: Tensor, depth: int, budget: int | None = None
) -> ReceptiveField:
    """The field of ``rows`` (distinct nodes) through the last ``depth`` layers of ``graph``.

    With a ``budget`` of bytes, it goes back through as many layers as fit into it.
    """
    position, nodes = graph.positions(rows), rows
    blocks: list[Adjacency] = []
    kept: list[Tensor] = []
    for _ in range(depth):
        if budget is not None:
            budget -= _BYTES_PER_ENTRY * int(graph.rowptr.diff()[nodes].sum())
            if budget < 0:
                break
        rowptr, entries = csr.take_rows(graph.rowptr, nodes)
        sender = graph.col[entries]
        fresh = torch.unique(sender[position[sender] < 0])
        position[fresh] = torch.arange(fresh.numel(), device=graph.device) + nodes.numel()
        nodes = torch.cat([nodes, fresh])
        blocks.append(
            Adjacency(
                rowptr,
                position[sender],
                nodes.numel(),
                undirected=False,
                ids=graph.global_ids[nodes],
                degrees=graph.degree[nodes],
            )
        )
        kept.append(entries)
    return ReceptiveField(nodes, tuple(reversed(blocks)), tuple(reversed(kept)), graph)
