"""Sparse matrices for products with gradients, and those that models read off a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .kernels import csr_reduce, is_special, propagate, spmm

if TYPE_CHECKING:
    from .adjacency import Adjacency

Scaling = Literal["sum", "mean", "gcn", "symmetric", "doubly-stochastic"]
"""How messages are weighted: ``A``; ``D^-1 A``; ``D^-1/2 (A + I) D^-1/2`` with D of A + I (GCN);
``D^-1/2 A D^-1/2`` (LightGCN); ``S (A + I) S`` with unit row and column sums (RAWLS-GCN).  A holds
the edge weights, and D its row sums."""

Transpose = tuple[Tensor, Tensor, Tensor]
"""Row pointer ``[C + 1]``, columns and values of a transposed matrix."""

_TOLERANCE = 1e-2
"""How far a row sum of a doubly stochastic matrix may be from 1."""

_MOST = 1000
"""Iterations before giving up; graphs with self-loops need some tens."""


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
    """A sparse matrix ``[R, C]``, optionally with a diagonal added.

    ``matrix @ x`` is ``A x + diag(diagonal) x[:R]``, differentiable in the dense ``x [C, d]``. Only
    gradients read the transpose: it is made for the first of them, and prediction sorts nothing.
    """

    rowptr: Tensor
    col: Tensor
    value: Tensor
    num_cols: int
    diagonal: Tensor | None = None
    transposed: Transpose | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rowptr.numel() - 1, self.num_cols

    @property
    def nbytes(self) -> int:
        """Bytes of the entries and of their transpose."""
        pointers = (sum(self.shape) + 2) * self.rowptr.itemsize
        return pointers + 2 * (self.col.nbytes + self.value.nbytes)

    def __matmul__(self, x: Tensor) -> Tensor:
        check_rows("x", x, self.num_cols, 2)
        wanted = x.requires_grad and torch.is_grad_enabled()
        if not wanted and not is_special(x):
            return propagate(self.rowptr, self.col, self.value, self.diagonal, x)
        back = self.transpose() if wanted else (self.col[:0], self.col[:0], self.value[:0])
        out: Tensor = spmm(self.rowptr, self.col, self.value, *back, self.diagonal, x)
        return out

    def transpose(self) -> Transpose:
        """The transposed matrix without the diagonal, made once."""
        if self.transposed is None:
            with torch.inference_mode(False):
                t_rowptr, t_col, order = csr.transpose(self.rowptr, self.col, self.num_cols)
                made = t_rowptr, t_col, self.value[order]
            object.__setattr__(self, "transposed", made)
            return made
        return self.transposed

    def to(self, device: torch.device | str) -> SparseMatrix:
        """The same matrix on another device."""
        rowptr, col, value = (t.to(device) for t in (self.rowptr, self.col, self.value))
        diagonal = None if self.diagonal is None else self.diagonal.to(device)
        return SparseMatrix(rowptr, col, value, self.num_cols, diagonal)

    def take_rows(self, rows: Tensor) -> SparseMatrix:
        """The chosen rows, in that order (without the diagonal, which needs square rows)."""
        rowptr, entries = csr.take_rows(self.rowptr, rows)
        return SparseMatrix(rowptr, self.col[entries], self.value[entries], self.num_cols)


def propagation(graph: Adjacency, scaling: Scaling) -> SparseMatrix:
    """The propagation matrix of a scaling, without its transpose."""
    value, diagonal = _weights(graph, scaling)
    return SparseMatrix(graph.rowptr, graph.col, value, graph.num_cols, diagonal)


def with_transpose(matrix: SparseMatrix, graph: Adjacency, scaling: Scaling) -> SparseMatrix:
    """The same matrix with a transpose that is read off the graph's, without a sort."""
    if not graph.undirected:
        t_rowptr, t_col, order = graph.reverse
        return replace(matrix, transposed=(t_rowptr, t_col, matrix.value[order]))
    t_value = matrix.value  # the index is its own transpose; so are all weights but "mean"
    if scaling == "mean" and graph.weight is not None:
        t_value = graph.weight / _strength(graph).index_select(0, graph.col)
    elif scaling == "mean":
        t_value = _reciprocal(graph.degree).index_select(0, graph.col)
    return replace(matrix, transposed=(graph.rowptr, graph.col, t_value))


def _reciprocal(count: Tensor) -> Tensor:
    return count.clamp(min=1).float().reciprocal()


def _spread(value: Tensor, graph: Adjacency) -> Tensor:
    """Each receiver's number, once for each of its entries ``[E]``."""
    return value.repeat_interleave(graph.rowptr.diff(), output_size=graph.num_entries)


def _weights(graph: Adjacency, scaling: Scaling) -> tuple[Tensor, Tensor | None]:
    """Entry weights ``[E]`` and the diagonal ``[R]``, if the scaling has one."""
    if scaling not in get_args(Scaling):
        raise InputError(f"scaling is one of {get_args(Scaling)}; got {scaling!r}.")
    if graph.weight is not None:
        return _of_weighted(graph, graph.weight, scaling)
    if scaling == "sum":
        ones = torch.ones(graph.num_entries, device=graph.device)
        return _for_all(ones, graph) if graph.is_sampled else ones, None
    if scaling == "mean":
        return _spread(_reciprocal(graph.rowptr.diff()), graph), None
    loops = scaling != "symmetric"
    if scaling == "doubly-stochastic":
        sent = balance(graph)
        received = sent[: graph.num_rows]
    else:  # senders may have kept more of their edges than the rows here tell
        sent, received = (
            (degree + int(loops)).clamp(min=1).float().rsqrt()
            for degree in (graph.degree, graph.received)
        )
    value = _spread(received, graph).mul_(sent.index_select(0, graph.col))
    if graph.is_sampled:
        value = _for_all(value, graph)
    return value, received.square() if loops else None


def _for_all(value: Tensor, graph: Adjacency) -> Tensor:
    """The entries of sampled rows, scaled so that their sum has the mean of all senders' sum."""
    count = graph.rowptr.diff()
    return value.mul_(_spread(graph.received / count.clamp(min=1), graph))


def _of_weighted(
    graph: Adjacency, weight: Tensor, scaling: Scaling
) -> tuple[Tensor, Tensor | None]:
    """The same where edges have weights: only of whole graphs, whose rows tell all degrees."""
    if scaling == "doubly-stochastic" or graph.num_rows != graph.num_cols:
        graph.refuse_weights(f"the {scaling} scaling of this graph")
    if scaling == "sum":
        return weight, None
    strength = _strength(graph)
    if scaling == "mean":
        return weight / strength.index_select(0, graph.row), None
    loops = scaling != "symmetric"
    scale = (strength + int(loops)).rsqrt().masked_fill_(strength + int(loops) == 0, 0.0)
    value = scale.index_select(0, graph.row) * weight * scale.index_select(0, graph.col)
    return value, scale.square() if loops else None


def _strength(graph: Adjacency) -> Tensor:
    """The sum of each node's incoming weights ``[N]``."""
    assert graph.weight is not None
    strength = torch.zeros(graph.num_rows, device=graph.device)
    return strength.index_add_(0, graph.row, graph.weight)


def balance(graph: Adjacency, tolerance: float = _TOLERANCE) -> Tensor:
    """``s [N]`` such that the rows and columns of ``diag(s) (A + I) diag(s)`` sum to 1.

    The symmetric form of Sinkhorn's iteration, ``s <- sqrt(s / ((A + I) s))``: a fixed point has
    ``s_i ((A + I) s)_i = 1`` for every i.  The self-loops make sure that there is one: an unequal
    bipartite graph cannot be balanced without them.
    """
    if not graph.undirected or graph.num_rows != graph.num_cols:
        raise InputError(
            "Only a whole undirected graph has a symmetric doubly stochastic scaling; this one is "
            + ("a block of a receptive field." if graph.undirected else "directed.")
        )
    ones = torch.ones(graph.num_entries, device=graph.device)
    scale = (graph.degree + 1).float().rsqrt()  # GCN's own, which is not far
    for _ in range(_MOST):
        received = csr_reduce(graph.rowptr, graph.col, ones, scale[:, None], "sum").squeeze(1)
        received += scale
        if not graph.num_nodes or float((scale * received - 1).abs().max()) <= tolerance:
            return scale
        scale = (scale / received).sqrt()
    raise InputError(
        f"The doubly stochastic scaling did not come within {tolerance:g} in {_MOST} iterations: "
        "ask for a larger tolerance."
    )
