"""A sparse matrix and its transpose, for products with gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .kernels import spmm


def check_rows(name: str, x: Tensor, rows: int, dim: int) -> None:
    """Refuse an ``x`` of another shape."""
    # The CSR kernels trust their index: a short x would be read past its end.
    if x.dim() != dim or x.shape[0] != rows:
        raise InputError(
            f"{name} must have {dim} dimensions, the first of size {rows}; "
            f"got shape {list(x.shape)}."
        )


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A sparse matrix ``[R, C]`` that keeps its transpose, and optionally adds a diagonal.

    ``matrix @ x`` is ``A x + diag(diagonal) x[:R]``, differentiable in the dense ``x [C, d]``.
    """

    rowptr: Tensor
    col: Tensor
    value: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    t_value: Tensor
    diagonal: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rowptr.numel() - 1, self.t_rowptr.numel() - 1

    def __matmul__(self, x: Tensor) -> Tensor:
        check_rows("x", x, self.shape[1], 2)
        out: Tensor = spmm(
            self.rowptr,
            self.col,
            self.value,
            self.t_rowptr,
            self.t_col,
            self.t_value,
            self.diagonal,
            x,
        )
        return out

    def to(self, device: torch.device | str) -> SparseMatrix:
        """The same matrix on another device."""
        parts = {name: value.to(device) for name, value in vars(self).items() if value is not None}
        return SparseMatrix(**parts)

    def take_rows(self, rows: Tensor) -> SparseMatrix:
        """The chosen rows, in that order (without the diagonal, which needs square rows)."""
        rowptr, entries = csr.take_rows(self.rowptr, rows)
        return sparse_matrix(rowptr, self.col[entries], self.value[entries], self.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept."""
        parts = (self.rowptr, self.col, self.value, self.t_rowptr, self.t_col, self.t_value)
        kept = {id(t): t for t in (*parts, self.diagonal) if t is not None}  # undirected: shared
        return sum(t.nbytes for t in kept.values())


def sparse_matrix(rowptr: Tensor, col: Tensor, value: Tensor, num_cols: int) -> SparseMatrix:
    """A sparse matrix from its rows; the transpose is made here, once."""
    t_rowptr, t_col, order = csr.transpose(rowptr, col, num_cols)
    return SparseMatrix(rowptr, col, value, t_rowptr, t_col, value[order])
