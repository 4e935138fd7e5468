"""Small index arithmetic on compressed sparse rows that every other graph module builds on."""

from __future__ import annotations

import torch
from torch import Tensor

_SLICE = 1 << 20
"""Keys that are compared at once."""


def rowptr_of(rows: Tensor, num_rows: int) -> Tensor:
    """Row pointer ``[num_rows + 1]`` of an index ``rows`` that is sorted or about to be."""
    pointer = torch.zeros(num_rows + 1, dtype=torch.long, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=num_rows), 0, out=pointer[1:])
    return pointer


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
    count = rowptr[rows + 1] - start
    pointer = torch.zeros(rows.numel() + 1, dtype=torch.long, device=rowptr.device)
    torch.cumsum(count, 0, out=pointer[1:])
    total = int(pointer[-1])
    shift = (start - pointer[:-1]).repeat_interleave(count, output_size=total)
    return pointer, torch.arange(total, device=rowptr.device) + shift


def compact(rowptr: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Row pointer after deleting entries, and for each entry how many are kept before it.

    The second answer ``[E + 1]`` turns an old position of a kept entry into its new one.
    """
    before = torch.zeros(keep.numel() + 1, dtype=torch.long, device=keep.device)
    torch.cumsum(keep, 0, out=before[1:])
    return before[rowptr], before
