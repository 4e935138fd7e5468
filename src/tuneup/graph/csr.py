"""Small index arithmetic on compressed sparse rows that every other graph module builds on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

_SLICE = 1 << 20
"""Keys that are compared at once."""


def rowptr_of(rows: Tensor, num_rows: int) -> Tensor:
    """Row pointer ``[num_rows + 1]`` of an index ``rows`` that is sorted or about to be."""
    return pointer(torch.bincount(rows, minlength=num_rows))


def pointer(count: Tensor) -> Tensor:
    """Row pointer ``[n + 1]`` of rows with so many entries each."""
    rowptr = torch.zeros(count.numel() + 1, dtype=torch.long, device=count.device)
    torch.cumsum(count, 0, out=rowptr[1:])
    return rowptr


def check_nodes(nodes: Tensor, num_nodes: int) -> None:
    """Refuse what is not a list of distinct nodes of a graph of so many."""
    if nodes.dtype != torch.long or nodes.dim() != 1:
        raise InputError(
            f"nodes must be a list of int64 ids; got {nodes.dtype} of shape {list(nodes.shape)}."
        )
    if not nodes.numel():
        return
    low, high = map(int, nodes.aminmax())
    if low < 0 or high >= num_nodes:
        wrong = int(nodes[(nodes < 0) | (nodes >= num_nodes)][0])
        raise InputError(f"node {wrong} is not one of the {num_nodes} nodes of this graph.")
    if low != high and distinct(nodes).numel() == nodes.numel():
        return
    if nodes.numel() > 1:
        raise InputError(f"nodes must be distinct; node {int(nodes.mode().values)} comes twice.")


def distinct(keys: Tensor) -> Tensor:
    """The distinct values of an index, ascending: ``torch.unique``, several times as fast."""
    return distinct_(keys.clone())


def distinct_(keys: Tensor) -> Tensor:
    """:func:`distinct` of an index that may be overwritten."""
    if keys.device.type != "cpu":
        found: Tensor = torch.unique(keys)
        return found
    # numpy sorts integers with vector instructions; torch's sort also carries an order along.
    values = keys.numpy()
    values.sort()
    kept = min(1, len(values))
    for start in range(1, len(values), _SLICE):  # what is kept moves to the front
        part = values[start : start + _SLICE]
        fresh = part[part != values[start - 1 : start - 1 + len(part)]]
        values[kept : kept + len(fresh)] = fresh
        kept += len(fresh)
    once = keys[:kept]
    return once if kept > 0.9 * len(values) else once.clone()  # a short one lets the rest go


def rows_of(rowptr: Tensor, num_edges: int) -> Tensor:
    """The row of each stored entry ``[E]``: the inverse of :func:`rowptr_of`."""
    return torch.repeat_interleave(rowptr.diff(), output_size=num_edges)


def row_ranges(rowptr: Tensor, budget: int) -> list[tuple[int, int]]:
    """Consecutive rows ``[start, stop)`` of at most ``budget`` entries, or a single longer row."""
    ranges, start, last = [], 0, rowptr.numel() - 1
    while start < last:
        fits = int(torch.searchsorted(rowptr, rowptr[start] + budget, right=True)) - 1
        stop = max(start + 1, min(fits, start + budget))
        ranges.append((start, stop))
        start = stop
    return ranges


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compressed columns: ``(t_rowptr, t_col, order)`` with ``order[k]`` the entry behind ``k``.

    The sort is stable, so entries of a column come in the order of their rows.
    """
    order = torch.argsort(col, stable=True)
    return rowptr_of(col, num_cols), rows_of(rowptr, col.numel())[order], order


def take_rows(rowptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Entries of the chosen ``rows``, row after row: their row pointer and their positions."""
    start = rowptr[rows]
    return spans(start, rowptr[rows + 1] - start)


def spans(start: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """``start[i], start[i] + 1, ...``, ``count[i]`` of them for each i: row pointer and numbers."""
    rowptr = pointer(count)
    total = int(rowptr[-1])
    shift = (start - rowptr[:-1]).repeat_interleave(count, output_size=total)
    return rowptr, torch.arange(total, device=rowptr.device) + shift


def compact(rowptr: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Row pointer after deleting entries, and for each entry how many are kept before it.

    The second answer ``[E + 1]`` turns an old position of a kept entry into its new one.
    """
    before = pointer(keep)
    return before[rowptr], before


@dataclass(frozen=True, eq=False)
class Rows:
    """A list of nodes for each of n nodes: row pointer ``[n + 1]`` and ids ``[E]``.

    Where nodes list their senders, it is a graph in memory, or memory-mapped: the plainest
    :class:`~tuneup.graph.Neighbours`.
    """

    rowptr: Tensor
    col: Tensor
    entries: Tensor | None = None
    """[E] positions in the rows that these were taken from"""

    @property
    def count(self) -> Tensor:
        """Length of each list ``[n]``."""
        return self.rowptr.diff()

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.rowptr.numel() - 1

    def degree(self, nodes: Tensor) -> Tensor:
        """Length of the lists of some nodes."""
        return self.rowptr[nodes + 1] - self.rowptr[nodes]

    def take(self, nodes: Tensor) -> Rows:
        """The lists of some nodes, in that order."""
        rowptr, entries = take_rows(self.rowptr, nodes)
        return Rows(rowptr, self.col[entries], entries)

    def append(self, nodes: Tensor) -> Rows:
        """The same lists, each with one node more ``[n]``."""
        rowptr = self.rowptr + torch.arange(nodes.numel() + 1, device=nodes.device)
        added = torch.zeros(int(rowptr[-1]), dtype=torch.bool, device=nodes.device)
        added[rowptr[1:] - 1] = True
        col = torch.empty_like(added, dtype=torch.long)
        col[added], col[~added] = nodes, self.col
        return Rows(rowptr, col)

    def select(self, keep: Tensor, col: Tensor | None = None) -> Rows:
        """The same lists with only the entries where ``keep [E]`` is true."""
        entries = None if self.entries is None else self.entries[keep]
        col = self.col if col is None else col
        return Rows(compact(self.rowptr, keep)[0], col[keep], entries)
