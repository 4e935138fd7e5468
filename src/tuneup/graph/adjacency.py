"""The graph of this library: compressed sparse rows, and the operators that models read off it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .attention import CHUNK, attend
from .csr import Rows
from .kernels import csr_reduce, is_special, spmax
from .matrix import Scaling, SparseMatrix, check_rows, propagation, with_transpose

_INDUCED_AT_A_TIME = 1 << 22
"""Entries that an induced subgraph is made of at a time: ten times as many bytes each."""

T = TypeVar("T")


def _kept(build: Callable[[Adjacency], T]) -> cached_property[T]:
    """A cached property of ordinary tensors, even if inference mode is the first to ask for it.

    A tensor made in inference mode can never be saved for a backward pass: one evaluation before
    training would spoil the graph for good.
    """

    @wraps(build)
    def ordinary(self: Adjacency) -> T:
        with torch.inference_mode(False):
            return build(self)

    return cached_property(ordinary)


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Row ``i`` of a CSR matrix lists the nodes that ``i`` receives messages from.

    Square for a graph.  A *block* of a receptive field is rectangular ``[R, C]``: its R receivers
    are the first R of its C senders.  Made by :func:`tuneup.graph.adjacency_from` and friends; the
    constructor trusts its arguments.

    Example::

        from tuneup.graph import adjacency_from

        adjacency = adjacency_from(data.edge_index, data.num_nodes)  # or a scipy matrix, or a Data
        adjacency.degree                                             # int64 [N]
        mean = adjacency.matrix("mean") @ data.x                     # of each node's neighbours
    """

    rowptr: Tensor
    """[R + 1]"""
    col: Tensor
    """[E] senders, ascending within a row for a graph"""
    num_cols: int
    """C"""
    undirected: bool
    """whether every (i, j) has its (j, i): then the matrix is its own transpose"""
    ids: Tensor | None = None
    """[C] global node ids if they are not 0, 1, 2, ...: edges are drawn and dropped by these"""
    degrees: Tensor | None = None
    """[C] in-degree of each sender in the graph, if it is not this matrix's row lengths"""
    num_duplicates: int = 0
    num_self_loops: int = 0
    source: tuple[Adjacency, Tensor] | None = field(default=None, repr=False)
    """the graph this one was thinned out of, and which of its entries were kept"""
    weight: Tensor | None = field(default=None, repr=False)
    """[E] edge weights above 0, alike in both directions of an undirected graph; None: all are 1"""

    @property
    def num_rows(self) -> int:
        """R."""
        return self.rowptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes that can send: for a graph, all of them."""
        return self.num_cols

    @property
    def num_entries(self) -> int:
        """Stored (directed) entries: an undirected edge counts twice."""
        return self.col.numel()

    @property
    def num_edges(self) -> int:
        """Edges as the graph counts them: once if undirected."""
        return self.num_entries // 2 if self.undirected else self.num_entries

    @property
    def device(self) -> torch.device:
        """Where the index lives."""
        return self.col.device

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        shape = f"{self.num_nodes:,} nodes"
        if self.num_rows != self.num_cols:
            shape = f"{self.num_rows:,} of {shape} receive"
        return f"Adjacency({shape}, {self.num_edges:,} {kind} edges)"

    @property
    def parent(self) -> Adjacency | None:
        """The graph that this one was thinned out of."""
        return None if self.source is None else self.source[0]

    @_kept
    def degree(self) -> Tensor:
        """Number of senders of each node ``[C]``."""
        return self.rowptr.diff() if self.degrees is None else self.degrees

    is_sampled: ClassVar[bool] = False
    """whether rows may hold only some of a receiver's senders"""

    @property
    def received(self) -> Tensor:
        """Number of senders of each receiver ``[R]``."""
        return self.rowptr.diff()

    @cached_property
    def neighbours(self) -> Rows:
        """The senders of each node, as receptive fields read them."""
        return Rows(self.rowptr, self.col)

    @_kept
    def row(self) -> Tensor:
        """The receiver of each entry ``[E]``."""
        return csr.rows_of(self.rowptr, self.num_entries)

    @_kept
    def global_ids(self) -> Tensor:
        """Global id of each node ``[C]``."""
        return torch.arange(self.num_cols, device=self.device) if self.ids is None else self.ids

    @_kept
    def edge_index(self) -> Tensor:
        """PyG's view ``[2, E]``: sources above, targets below."""
        return torch.stack([self.col, self.row])

    @_kept
    def adj_t(self) -> Tensor:
        """PyG's transposed adjacency as a torch CSR tensor of weights ``[R, C]``."""
        value = torch.ones(self.num_entries, device=self.device)
        value = value if self.weight is None else self.weight
        size = (self.num_rows, self.num_cols)
        return torch.sparse_csr_tensor(self.rowptr, self.col, value, size, check_invariants=False)

    @_kept
    def reverse(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose: row pointer ``[C + 1]``, receivers ``[E]``, entry behind each ``[E]``.

        A thinned graph gets it by thinning its source's, so only one sort is ever paid for.
        """
        if self.source is None:
            t_rowptr, t_col, order = csr.transpose(self.rowptr, self.col, self.num_cols)
            return (self.rowptr, self.col, order) if self.undirected else (t_rowptr, t_col, order)
        parent, keep = self.source
        t_rowptr, t_col, order = parent.reverse
        _, position = csr.compact(parent.rowptr, keep)
        t_keep = keep[order]
        order = position[order[t_keep]]
        if self.undirected:
            return self.rowptr, self.col, order
        return csr.compact(t_rowptr, t_keep)[0], t_col[t_keep], order

    @property
    def transposed(self) -> tuple[Tensor, Tensor]:
        """The transpose without the entries behind it: an undirected graph needs no sort."""
        return (self.rowptr, self.col) if self.undirected else self.reverse[:2]

    @cached_property
    def directed(self) -> Adjacency:
        """The same entries, no longer promised to come in pairs."""
        if not self.undirected:
            return self
        index = self.rowptr, self.col, self.num_cols
        return Adjacency(*index, False, self.ids, self.degrees, weight=self.weight)

    @cached_property
    def _matrices(self) -> dict[Scaling, SparseMatrix]:
        return {}

    def matrix(self, scaling: Scaling = "sum") -> SparseMatrix:
        """The propagation matrix of a scaling, made once; its transpose if a gradient may come."""
        with torch.inference_mode(False):
            if scaling not in self._matrices:
                self._matrices[scaling] = propagation(self, scaling)
        found = self._matrices[scaling]
        if found.transposed is None and torch.is_grad_enabled():
            found = self._matrices[scaling] = with_transpose(found, self, scaling)
        return found

    def max(self, x: Tensor) -> Tensor:
        """Largest neighbour value per column ``[R, d]``, 0 without neighbours.

        The first of tied neighbours gets the gradient.
        """
        self.refuse_weights("a maximum over neighbours")
        check_rows("x", x, self.num_cols, 2)
        wanted = x.requires_grad and torch.is_grad_enabled()
        if not wanted and not is_special(x):  # nobody asks whose it is
            return csr_reduce(self.rowptr, self.col, x.new_ones(self.num_entries), x, "amax")
        out: Tensor = spmax(self.rowptr, self.col, x)[0]
        return out

    def attend(
        self,
        a: Tensor,
        b: Tensor,
        x: Tensor,
        *,
        slope: float = 0.2,
        self_loops: bool = True,
        average: bool = False,
    ) -> Tensor:
        """Attention-weighted sums ``[R, H, D]``, or their mean over heads ``[R, D]``.

        See :mod:`tuneup.graph.attention`.
        """
        self.refuse_weights("attention, which learns its own weights,")
        if slope < 0:
            raise InputError(f"slope of the LeakyReLU must be at least 0; got {slope}.")
        check_rows("a", a, self.num_cols, 2)
        check_rows("b", b, self.num_rows, 2)
        check_rows("x", x, self.num_cols, 3)
        out: Tensor = attend(
            self.rowptr, self.col, *self.transposed, a, b, x, slope, self_loops, average, CHUNK
        )[0]
        return out

    def thin(self, keep: Tensor) -> Adjacency:
        """The graph with only the entries where ``keep [E]`` is true, compacted.

        An undirected graph stays one only if ``keep`` treats both directions alike.
        """
        if keep.shape != self.col.shape or keep.dtype != torch.bool:
            raise InputError(
                f"keep must be a boolean tensor of {self.num_entries} entries, one per stored edge "
                f"direction; got {keep.dtype} of shape {tuple(keep.shape)}."
            )
        rowptr, _ = csr.compact(self.rowptr, keep)
        return Adjacency(
            rowptr,
            self.col[keep],
            self.num_cols,
            self.undirected,
            self.ids,
            source=(self, keep),
            weight=None if self.weight is None else self.weight[keep],
        )

    def induce(self, nodes: Tensor) -> Adjacency:
        """The subgraph on distinct ``nodes``, renumbered in that order, which keep global ids."""
        csr.check_nodes(nodes, self.num_cols)
        position = torch.full((self.num_cols,), -1, device=self.device)
        position[nodes] = torch.arange(nodes.numel(), device=self.device)
        rowptr = csr.pointer(self.neighbours.degree(nodes))
        lengths, cols, weights = [rowptr[:0]], [rowptr[:0]], []
        for start, stop in csr.row_ranges(rowptr, _INDUCED_AT_A_TIME):
            pointer, entries = csr.take_rows(self.rowptr, nodes[start:stop])
            col = position[self.col[entries]]
            inside = col >= 0
            pointer, _ = csr.compact(pointer, inside)
            row, col = csr.rows_of(pointer, int(pointer[-1])), col[inside]
            order = torch.argsort(row * nodes.numel() + col)
            lengths.append(pointer.diff())
            cols.append(col[order])
            if self.weight is not None:
                weights.append(self.weight[entries[inside][order]])
        rowptr = csr.pointer(torch.cat(lengths))
        ids = self.global_ids[nodes]
        weight = None if self.weight is None else torch.cat([self.weight[:0], *weights])
        col = torch.cat(cols)
        return Adjacency(rowptr, col, nodes.numel(), self.undirected, ids, weight=weight)

    def refuse_weights(self, reader: str) -> None:
        """Refuse edge weights, which the reader has no meaning for."""
        if self.weight is not None:
            raise InputError(
                f"edge_weight: {reader} has no meaning for edge weights; use the architecture gcn, "
                "sage or sage-sum, or remove the weights."
            )

    def to(self, device: torch.device | str) -> Adjacency:
        """The same graph on another device."""
        if torch.device(device) == self.device:
            return self
        ids, degrees, weight = (
            None if t is None else t.to(device) for t in (self.ids, self.degrees, self.weight)
        )
        index = self.rowptr.to(device), self.col.to(device), self.num_cols
        counts = self.num_duplicates, self.num_self_loops
        return Adjacency(*index, self.undirected, ids, degrees, *counts, weight=weight)
