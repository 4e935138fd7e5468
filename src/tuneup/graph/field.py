"""Receptive fields: the rows that each layer must compute when the loss reads only a few.

Layer L is wanted on ``rows``; layer l on the rows above it and their neighbours.  Receivers come
first among a block's senders, so a node's own state is a slice, never a gather.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency


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
        if self.graph is None or graph.source is None or graph.source[0].col is not self.graph.col:
            raise InputError(
                f"{graph!r} was not thinned, in one step, out of the graph that this field was "
                "made for. Make a field of its own with receptive_field."
            )
        keep, degree = graph.source[1], graph.degree
        nodes, blocks = self.nodes, []
        for block, entries in zip(self.blocks, self.entries, strict=True):
            thinned = block.thin(keep[entries])
            blocks.append(_with_degrees(thinned, degree[nodes[: block.num_cols]]))
        return ReceptiveField(nodes, tuple(blocks), ())


def _with_degrees(block: Adjacency, degrees: Tensor) -> Adjacency:
    return Adjacency(
        block.rowptr, block.col, block.num_cols, False, block.ids, degrees, source=block.source
    )


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
