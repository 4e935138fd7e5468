"""Graphs in npz files: the layouts of the gnn-benchmark collection and of GraphSAINT.

**gnn-benchmark** (Shchur et al. 2018): one file holds two matrices in compressed sparse rows,
``adj_*`` (edges) and ``attr_*`` (features), each as ``data, indices, indptr, shape``, and
``labels``.  Graphs come out as PyG's ``Amazon``, ``Coauthor`` and ``CitationFull`` give them:
undirected, without self-loops or repeated edges, and with *binary* features, since PyG sets every
positive feature to 1; nothing is normalised by row.

**GraphSAINT** (Zeng et al. 2020): ``adj_full.npz`` is a scipy matrix in compressed sparse rows,
``feats.npy`` the features ``[N, d]``, ``class_map.json`` the class of each node, ``{"0": 3, ...}``,
as a number or as a list with a single 1, and ``role.json`` the nodes for training, validation and
test, ``{"tr": [...], "va": [...], "te": [...]}``.  The roles are checked and not used: the paper
has splits of its own.

Pickles are never loaded: the original files hold some beside these arrays, which are left unread.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Features, adjacency_from, sparse_features

from .graph import Graph

DENSE_FROM = 0.10
"""Share of non-zero features from which they are stored dense."""

_CSR = ("indices", "indptr", "shape")
_KEYS = (
    *(f"adj_{part}" for part in _CSR),  # any stored entry is an edge
    *(f"attr_{part}" for part in ("data", *_CSR)),
    "labels",
)


def read_benchmark(paths: Sequence[Path], name: str) -> Graph:
    """The graph of a dataset that is one file of the gnn-benchmark layout."""
    (path,) = paths
    return read_npz_graph(path, name=name)


def read_npz_graph(path: Path | str, *, name: str | None = None, binary: bool = True) -> Graph:
    """A :class:`Graph` from one file of the gnn-benchmark layout.

    Args:
        path: the ``.npz`` file.
        name: what to call the graph; by default the file's name.
        binary: set positive features to 1, as PyG does; ``False`` leaves the values of the file.

    Features that are less than 10 % non-zero stay sparse, others become dense; float32 both.
    """
    path = Path(path)
    arrays = _read_npz(path, _KEYS, "gnn-benchmark")
    edge_index, num_nodes = _edges(path, arrays, "adj_")
    adjacency = adjacency_from(edge_index, num_nodes, undirected=True)
    x = _sparse_or_dense(path, arrays, binary)
    y = _integers(path, "labels", arrays["labels"])
    if y.numel() and int(y.min()) < -1:
        raise InputError(
            f"{path}: labels must be 0 or more, or -1 for unknown; got {int(y.min())}."
        )
    return Graph(adjacency, x, y, name=name if name is not None else path.stem)


def read_graphsaint(paths: Sequence[Path], name: str) -> Graph:
    """A graph from ``adj_full.npz``, ``feats.npy``, ``class_map.json`` and ``role.json``."""
    edges, features, classes, roles = paths
    arrays = _read_npz(edges, _CSR, "GraphSAINT")
    edge_index, num_nodes = _edges(edges, arrays, "")
    adjacency = adjacency_from(edge_index, num_nodes, undirected=True)
    _check_roles(roles, num_nodes)
    x = _read_features(features, num_nodes)
    return Graph(adjacency, x, _read_classes(classes, num_nodes), name=name)


def _read_npz(path: Path, keys: Sequence[str], layout: str) -> dict[str, NDArray[Any]]:
    """Some arrays of an npz file; others, which may be pickles, are left unread."""
    with _input_errors(path, layout), path.open("rb") as stream:  # np.load leaves a bad file open
        file = np.load(stream, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        absent = [key for key in keys if key not in file.files]
        if absent:
            raise ValueError(f"it has no {', '.join(absent)}; there must be {', '.join(keys)}")
        return {key: file[key] for key in keys}


def _read_features(path: Path, num_nodes: int) -> Tensor:
    with _input_errors(path, "GraphSAINT"), path.open("rb") as stream:
        array = np.load(stream, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive of arrays")
    if array.ndim != 2 or len(array) != num_nodes or array.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: must be numbers, a row for each of the {num_nodes:,} nodes of adj_full.npz; "
            f"got {array.dtype} of shape {list(array.shape)}. Copy both files from one source."
        )
    return torch.from_numpy(array.astype(np.float32))


@contextmanager
def _input_errors(path: Path, layout: str) -> Iterator[None]:
    """Turn what numpy raises about a file into an :class:`InputError` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        remedy = "It may be cut short: copy it again."
        if "pickle" in str(error):  # numpy goes on to advise unpickling it
            reason = "it contains something other than arrays of numbers"
            if not isinstance(error, EOFError | zipfile.BadZipFile):
                remedy = "Pickled arrays are refused: save it with numpy.savez."
        raise InputError(
            f"{path}: not a readable file of the {layout} layout ({reason}). {remedy}"
        ) from error


def _edges(path: Path, arrays: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Tensor, int]:
    """The ``edge_index`` of a square CSR matrix, and its number of nodes."""
    edge_index, shape = _csr_entries(path, arrays, prefix)
    if shape[0] != shape[1]:
        raise InputError(
            f"{path}: the matrix must be square, nodes by nodes; {prefix}shape is {shape}."
        )
    return edge_index, shape[0]


def _csr_entries(
    path: Path, arrays: Mapping[str, NDArray[Any]], prefix: str
) -> tuple[Tensor, tuple[int, int]]:
    """Row and column of each stored entry ``[2, nnz]`` of a CSR matrix, and its shape."""
    column, pointer, shape = (
        _integers(path, f"{prefix}{part}", arrays[f"{prefix}{part}"]) for part in _CSR
    )
    if shape.numel() != 2 or int(shape.min()) < 0:
        raise InputError(f"{path}: {prefix}shape must be two sizes; got {shape.tolist()}.")
    rows, columns = shape.tolist()
    count = pointer.diff()
    fits = pointer.numel() == rows + 1 and int(pointer[0]) == 0
    if not fits or bool((count < 0).any()) or int(pointer[-1]) != column.numel():
        raise InputError(
            f"{path}: {prefix}indptr must rise from 0 to {column.numel():,}, the number of "
            f"{prefix}indices, in {rows + 1:,} entries, one per row and one more."
        )
    if column.numel() and not 0 <= int(column.min()) <= int(column.max()) < columns:
        raise InputError(f"{path}: {prefix}indices must lie in 0..{columns - 1}, its columns.")
    row = torch.arange(rows).repeat_interleave(count)
    return torch.stack([row, column]), (rows, columns)


def _integers(path: Path, key: str, array: NDArray[Any]) -> Tensor:
    """A list of integers as int64."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{path}: {key} must be a list of integers; got {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    return torch.from_numpy(array.astype(np.int64))


def _sparse_or_dense(path: Path, arrays: Mapping[str, NDArray[Any]], binary: bool) -> Features:
    """``attr`` as sparse rows or, from 10 % non-zeros on, as a dense matrix."""
    entries, shape = _csr_entries(path, arrays, "attr_")
    data, count = arrays["attr_data"], entries.shape[1]
    if data.shape != (count,) or data.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: attr_data must be {count:,} numbers, one per attr_indices; got "
            f"{data.dtype} of shape {list(data.shape)}."
        )
    value = torch.from_numpy(data.astype(np.float32))
    if not bool(torch.isfinite(value).all()):
        at = int((~torch.isfinite(value)).nonzero()[0])
        raise InputError(f"{path}: attr_data of node {int(entries[0, at])} is not a finite number.")
    x = torch.sparse_coo_tensor(entries, value, shape, check_invariants=False).coalesce()
    if binary:
        value = torch.where(x.values() > 0, 1.0, x.values())
        x = torch.sparse_coo_tensor(
            x.indices(), value, shape, is_coalesced=True, check_invariants=False
        )
    dense = x.values().numel() >= DENSE_FROM * shape[0] * shape[1]
    return x.to_dense() if dense else sparse_features(x)


def _read_classes(path: Path, num_nodes: int) -> Tensor:
    """The class of each node ``[N]``; -1 where the file has none."""
    y = torch.full((num_nodes,), -1)
    for key, given in _json_object(path).items():
        node = int(key) if key.isascii() and key.isdigit() else -1
        if not 0 <= node < num_nodes:
            raise InputError(f"{path}: {key!r} is not a node; they are 0..{num_nodes - 1}.")
        y[node] = _class_of(path, key, given)
    return y


def _class_of(path: Path, node: str, given: Any) -> int:
    if isinstance(given, list) and given.count(1) == 1 and given.count(0) == len(given) - 1:
        return given.index(1)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise InputError(
        f"{path}: the class of node {node} must be a whole number from 0, or a list with a single "
        f"1 among zeros; got {str(given)[:60]}. Several classes per node are not supported."
    )


def _check_roles(path: Path, num_nodes: int) -> None:
    """Refuse anything but three lists of nodes, without a node in common."""
    roles = _json_object(path)
    lists = [roles.get(part) for part in ("tr", "va", "te")]
    if not all(isinstance(nodes, list) and all(type(n) is int for n in nodes) for nodes in lists):
        raise InputError(f"{path}: must have lists of node numbers under tr, va and te.")
    nodes = torch.tensor([node for part in lists if part for node in part], dtype=torch.long)
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise InputError(
            f"{path}: nodes are 0..{num_nodes - 1} in adj_full.npz; got {int(nodes.max())}. "
            "Copy both files from one source."
        )
    if nodes.unique().numel() < nodes.numel():
        raise InputError(f"{path}: a node has more than one role.")


def _json_object(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not readable as JSON ({error}). It may be cut short: copy it again."
        ) from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: must be a JSON object; got a {type(found).__name__}.")
    return found
