"""Matrices and blocks that are only read forwards: prediction needs no transpose.

A transpose sorts all entries and is as long as the graph has nodes.  Without one, a block costs no
more than its own entries, and its columns may be nodes of a graph of any size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency
from .kernels import csr_reduce
from .matrix import SparseMatrix
from .scaling import Scaling, weights


@dataclass(frozen=True, eq=False)
class ForwardMatrix(SparseMatrix):
    """``matrix @ x`` without a gradient; made by :func:`forward_matrix`."""

    num_cols: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rowptr.numel() - 1, self.num_cols

    def __matmul__(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[0] != self.num_cols:
            raise InputError(f"x must have shape [{self.num_cols}, d]; got {list(x.shape)}.")
        out = csr_reduce(self.rowptr, self.col, self.value.to(x.dtype), x, "sum")
        if self.diagonal is not None:
            out.addcmul_(x[: out.shape[0]], self.diagonal[:, None].to(x.dtype))
        return out

    def take_rows(self, rows: Tensor) -> ForwardMatrix:
        """The chosen rows, in that order (without the diagonal, which needs square rows)."""
        rowptr, entries = csr.take_rows(self.rowptr, rows)
        return forward_matrix(rowptr, self.col[entries], self.value[entries], self.num_cols)

    def above(self, other: ForwardMatrix) -> ForwardMatrix:
        """These rows, then those of another matrix of the same width."""
        rowptr = torch.cat([self.rowptr, other.rowptr[1:] + self.col.numel()])
        col, value = (torch.cat([getattr(m, n) for m in (self, other)]) for n in ("col", "value"))
        return forward_matrix(rowptr, col, value, self.num_cols)

    def to(self, device: torch.device | str) -> ForwardMatrix:
        """The same matrix on another device."""
        rowptr, col, value = (t.to(device) for t in (self.rowptr, self.col, self.value))
        diagonal = None if self.diagonal is None else self.diagonal.to(device)
        return forward_matrix(rowptr, col, value, self.num_cols, diagonal)


def forward_matrix(
    rowptr: Tensor, col: Tensor, value: Tensor, num_cols: int, diagonal: Tensor | None = None
) -> ForwardMatrix:
    """A matrix from its rows alone."""
    none = rowptr.new_empty(0)
    return ForwardMatrix(rowptr, col, value, none, none, value[:0], diagonal, num_cols)


class OneWay(Adjacency):
    """A block that messages only ever flow forwards through, as every layer takes it."""

    @property
    def reverse(self) -> tuple[Tensor, Tensor, Tensor]:
        """Nothing: only gradients would read it."""
        none = self.col[:0]
        return none, none, none

    def matrix(self, scaling: Scaling = "sum") -> SparseMatrix:
        """The propagation matrix of a scaling, made once, in as few steps as a small block needs.

        The numbers are those of any :class:`Adjacency`.
        """
        if scaling not in self._matrices:
            value, diagonal = self._weights(scaling)
            self._matrices[scaling] = forward_matrix(
                self.rowptr, self.col, value, self.num_cols, diagonal
            )
        return self._matrices[scaling]

    def _weights(self, scaling: Scaling) -> tuple[Tensor, Tensor | None]:
        if scaling not in ("mean", "gcn", "symmetric"):
            return weights(self, scaling)
        count = self.rowptr.diff()
        if scaling == "mean":
            share = count.clamp(min=1).float().reciprocal()
            return share.repeat_interleave(count, output_size=self.num_entries), None
        known = count if self.degrees is None else self.degrees
        loops = int(scaling == "gcn")
        root = (known + loops).clamp(min=1).float().rsqrt()
        own = root[: self.num_rows]
        value = own.repeat_interleave(count, output_size=self.num_entries)
        return value.mul_(root.index_select(0, self.col)), own.square() if loops else None

    def max(self, x: Tensor) -> Tensor:
        """Largest neighbour value per column ``[R, d]``, 0 without neighbours."""
        return forward_max(self.rowptr, self.col, x)


def forward_max(rowptr: Tensor, col: Tensor, x: Tensor) -> Tensor:
    """Largest value among each row's senders ``[R, d]``, 0 for an empty row."""
    if not col.numel():
        return x.new_zeros(rowptr.numel() - 1, x.shape[1])
    return csr_reduce(rowptr, col, x.new_ones(col.numel()), x, "amax")
