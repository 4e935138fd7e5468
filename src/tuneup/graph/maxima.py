"""Maxima over the neighbours of features that are mostly zero, which are mostly zero too."""

from __future__ import annotations

import torch

from . import csr
from .adjacency import Adjacency
from .features import Features, dense
from .matrix import SparseMatrix, sparse_matrix

_WORTH = 0.1
"""Entries to look at, as a share of a dense result's, up to which a sparse one is faster."""


def max_features(graph: Adjacency, x: SparseMatrix) -> Features:
    """Largest neighbour value per column ``[R, d]``, 0 without neighbours; without a gradient.

    Where no value is negative, a column's largest is one that is stored, if any neighbour has one:
    the result is as sparse as the features of a whole neighbourhood.  It is dense where there is
    nothing to gain by that.
    """
    sent = x.rowptr.diff()[graph.col]
    rows, columns = graph.num_rows, x.shape[1]
    if int(sent.sum()) > _WORTH * rows * columns or bool((x.value < 0).any()):
        return graph.max(dense(x))
    _, entries = csr.take_rows(x.rowptr, graph.col)
    place = graph.row.repeat_interleave(sent, output_size=entries.numel()) * columns
    place += x.col[entries]
    found, inverse = torch.unique(place, return_inverse=True)
    value = x.value.new_zeros(found.numel())
    value.scatter_reduce_(0, inverse, x.value[entries], "amax", include_self=False)
    return sparse_matrix(csr.rowptr_of(found // columns, rows), found % columns, value, columns)
