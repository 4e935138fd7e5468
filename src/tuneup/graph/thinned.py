"""A graph without some of its edges, of which only what is read is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from . import csr
from .adjacency import Adjacency

_CHUNK = 1 << 16
"""Entries that are asked about at a time: the temporaries then stay in the processor's cache."""

Rule = Callable[[Tensor, Tensor], Tensor]
"""Which edges survive ``[n]``, given the global ids of their receivers and senders ``[n]``."""


class Thinned(Adjacency):
    """The edges of a graph that survive a rule.

    The graph is compacted when it is first read as a graph.  A small receptive field asks the rule
    about its own entries instead: then nothing is computed for every edge of the graph.
    """

    def __init__(self, parent: Adjacency, rule: Rule) -> None:
        same = {"num_cols": parent.num_cols, "undirected": parent.undirected, "ids": parent.ids}
        vars(self).update(same, _parent=parent, rule=rule)  # the rest is computed from these

    rule: Rule

    @property
    def parent(self) -> Adjacency:
        """The graph with all of its edges."""
        parent: Adjacency = vars(self)["_parent"]
        return parent

    @cached_property
    def whole(self) -> Adjacency:
        """The compacted graph."""
        with torch.inference_mode(False):  # else an evaluation would spoil it for training
            return self.parent.thin(self._keep())

    def _keep(self) -> Tensor:
        """Which entries of the parent survive ``[E]``, a few rows at a time."""
        parent, ids = self.parent, self.parent.global_ids
        keep = torch.empty(parent.num_entries, dtype=torch.bool, device=parent.device)
        for start, stop in csr.row_ranges(parent.rowptr, _CHUNK):
            pointer = parent.rowptr[start : stop + 1]
            part = slice(int(pointer[0]), int(pointer[-1]))
            receiver = ids[start:stop][csr.rows_of(pointer, part.stop - part.start)]
            keep[part] = self.rule(receiver, ids[parent.col[part]])
        return keep

    def degrees_of(self, nodes: Tensor) -> Tensor:
        """Number of senders of some nodes ``[n]``, without the rest of the graph."""
        parent, ids = self.parent, self.parent.global_ids
        pointer, entries = csr.take_rows(parent.rowptr, nodes)
        receiver = ids[nodes][csr.rows_of(pointer, entries.numel())]
        keep = self.rule(receiver, ids[parent.col[entries]])
        return csr.compact(pointer, keep)[0].diff()

    # What a graph consists of

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
    def device(self) -> torch.device:
        """Where the index lives."""
        return self.parent.device

    def to(self, device: torch.device | str) -> Adjacency:
        """The same graph on another device."""
        return self.whole.to(device)
