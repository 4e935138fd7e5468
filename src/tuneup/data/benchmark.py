"""Real graphs in the npz layout of the gnn-benchmark collection (Shchur et al. 2018).

A file holds two matrices in compressed sparse rows, ``adj_*`` (edges) and ``attr_*`` (features),
each as ``data, indices, indptr, shape``, and ``labels``.  Graphs come out as PyG's ``Amazon``,
``Coauthor`` and ``CitationFull`` give them: undirected, without self-loops or repeated edges, and
with *binary* features, since PyG sets every positive feature to 1 (CS holds counts up to 105, dblp
weights between 0.12 and 1); nothing is normalised by row.  Pickles are never loaded: the original
files hold some beside these arrays, the names of nodes and features, which are left unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuneup.errors import InputError
from tuneup.graph import Features, adjacency_from, sparse_features

from .arrays import csr_entries, integers, read_npz
from .graph import Graph

DENSE_FROM = 0.10
"""Share of non-zero features from which they are kept dense."""

_KEYS = (
    *(f"adj_{part}" for part in ("indices", "indptr", "shape")),  # any stored entry is an edge
    *(f"attr_{part}" for part in ("data", "indices", "indptr", "shape")),
    "labels",
)


def read_benchmark(paths: Sequence[Path], name: str) -> Graph:
    """The graph of a dataset that is one file of this layout."""
    (path,) = paths
    return read_npz_graph(path, name=name)


def read_npz_graph(path: Path | str, *, name: str | None = None, binary: bool = True) -> Graph:
    """A :class:`Graph` from one file of the gnn-benchmark layout.

    Args:
        path: the ``.npz`` file.
        name: what to call the graph; by default the file's name.
        binary: set positive features to 1, as PyG does; ``False`` keeps the values of the file.

    Features that are less than 10 % non-zero stay sparse, others become dense; float32 both.
    """
    path = Path(path)
    arrays = read_npz(path, _KEYS, "gnn-benchmark")
    sender, receiver, shape = csr_entries(path, arrays, "adj_")
    if shape[0] != shape[1]:
        raise InputError(f"{path}: adj must be square, nodes by nodes; adj_shape is {shape}.")
    edge_index = torch.stack([sender, receiver])
    adjacency = adjacency_from(edge_index, shape[0], undirected=True)
    x = _features(path, arrays, binary)
    y = integers(path, "labels", arrays["labels"])
    if y.numel() and int(y.min()) < -1:
        raise InputError(
            f"{path}: labels must be 0 or more, or -1 for unknown; got {int(y.min())}."
        )
    return Graph(adjacency, x, y, name=name if name is not None else path.stem)


def _features(path: Path, arrays: Mapping[str, NDArray[Any]], binary: bool) -> Features:
    """``attr`` as sparse rows or, from 10 % non-zeros on, as a dense matrix."""
    row, column, shape = csr_entries(path, arrays, "attr_")
    data = arrays["attr_data"]
    if data.shape != (column.numel(),) or data.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: attr_data must be {column.numel():,} numbers, one per attr_indices; got "
            f"{data.dtype} of shape {list(data.shape)}."
        )
    value = torch.from_numpy(data.astype(np.float32))
    if not bool(torch.isfinite(value).all()):
        at = int((~torch.isfinite(value)).nonzero()[0])
        raise InputError(f"{path}: attr_data of node {int(row[at])} is not a finite number.")
    entries = torch.stack([row, column])
    x = torch.sparse_coo_tensor(entries, value, shape, check_invariants=False).coalesce()
    if binary:
        value = torch.where(x.values() > 0, 1.0, x.values())
        x = torch.sparse_coo_tensor(
            x.indices(), value, shape, is_coalesced=True, check_invariants=False
        )
    dense = x.values().numel() >= DENSE_FROM * shape[0] * shape[1]
    return x.to_dense() if dense else sparse_features(x)
