"""Real graphs in the npz layout of the gnn-benchmark collection (Shchur et al. 2018).

A file holds two matrices in compressed sparse rows, ``adj_*`` (edges) and ``attr_*`` (features),
each as ``data, indices, indptr, shape``, and ``labels``.  Graphs come out as PyG's ``Amazon``,
``Coauthor`` and ``CitationFull`` give them: undirected, without self-loops or repeated edges, and
with *binary* features, since PyG sets every positive feature to 1 (CS holds counts up to 105, dblp
weights between 0.12 and 1); nothing is normalised by row.  Pickles are never loaded.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Features, adjacency_from, sparse_features

from .graph import Graph

BENCHMARKS: Mapping[str, str] = {
    "Computers": "Computers/raw/amazon_electronics_computers.npz",
    "CS": "CS/raw/ms_academic_cs.npz",
    "dblp": "dblp/raw/dblp.npz",
}
"""Each dataset's file below the data folder: where PyG's loaders put it too."""

DENSE_FROM = 0.10
"""Share of non-zero features from which they are kept dense."""

_KEYS = (
    *(f"adj_{part}" for part in ("indices", "indptr", "shape")),  # any stored entry is an edge
    *(f"attr_{part}" for part in ("data", "indices", "indptr", "shape")),
    "labels",
)


def load_benchmark(name: str, root: Path | str | None = None) -> Graph:
    """One of the real graphs ``Computers``, ``CS`` and ``dblp``, in any case of letters.

    Args:
        name: which graph.
        root: folder with the files of :data:`BENCHMARKS`; by default the one named by the
            environment variable ``TUNEUP_DATA``.
    """
    names = {known.lower(): known for known in BENCHMARKS}
    if name.lower() not in names:
        raise InputError(f"No benchmark graph {name!r}; there are {', '.join(BENCHMARKS)}.")
    name = names[name.lower()]
    return read_npz_graph(find_file(name, BENCHMARKS[name], root), name=name)


def find_file(name: str, file: str, root: Path | str | None = None) -> Path:
    """Where a dataset's file is, or an error that says where it was looked for."""
    root = root if root is not None else os.environ.get("TUNEUP_DATA")
    if not root:
        raise InputError(
            f"{name}: no folder to look for {file} in; pass root or set TUNEUP_DATA, "
            "for example export TUNEUP_DATA=/path/to/data."
        )
    path = Path(root) / file
    if not path.is_file():
        raise InputError(
            f"{name}: file {path.name} is missing; looked for {path}. Put it there, or set "
            f"TUNEUP_DATA (or pass root) to the folder that holds {file}."
        )
    return path


def read_npz_graph(path: Path | str, *, name: str | None = None, binary: bool = True) -> Graph:
    """A :class:`Graph` from one file of the gnn-benchmark layout.

    Args:
        path: the ``.npz`` file.
        name: what to call the graph; by default the file's name.
        binary: set positive features to 1, as PyG does; ``False`` keeps the values of the file.

    Features that are less than 10 % non-zero stay sparse, others become dense; float32 both.
    """
    path = Path(path)
    arrays = _read_arrays(path)
    sender, receiver, shape = _entries(path, arrays, "adj")
    if shape[0] != shape[1]:
        raise InputError(f"{path}: adj must be square, nodes by nodes; adj_shape is {shape}.")
    edge_index = torch.stack([sender, receiver])
    adjacency = adjacency_from(edge_index, shape[0], undirected=True)
    x = _features(path, arrays, binary)
    y = _integers(path, "labels", arrays["labels"])
    if y.numel() and int(y.min()) < -1:
        raise InputError(
            f"{path}: labels must be 0 or more, or -1 for unknown; got {int(y.min())}."
        )
    return Graph(adjacency, x, y, name=name if name is not None else path.stem)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the layout; members that it does not have are left unread."""
    try:
        with path.open("rb") as stream:  # np.load leaves a damaged file open
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            missing = [key for key in _KEYS if key not in file.files]
            if missing:
                raise InputError(
                    f"{path}: a file of the gnn-benchmark layout has {', '.join(_KEYS)}; this one "
                    f"has no {', '.join(missing)}."
                )
            return {key: file[key] for key in _KEYS}
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path}: not a readable file of the gnn-benchmark layout ({_reason(error)}). "
            + _remedy(error)
        ) from error


def _remedy(error: Exception) -> str:
    if "pickle" in str(error) and not isinstance(error, EOFError | zipfile.BadZipFile):
        return (
            "Pickled arrays are refused, and other files are no arrays: save it with numpy.savez."
        )
    return "It may be cut short: copy it again."


def _reason(error: Exception) -> str:
    if "pickle" in str(error):  # numpy goes on to advise unpickling it
        return "it holds something else than arrays of numbers"
    lines = str(error).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _entries(
    path: Path, arrays: Mapping[str, NDArray[Any]], matrix: str
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each stored entry ``[nnz]``, and the shape, after checking them."""
    column, pointer, shape = (
        _integers(path, f"{matrix}_{part}", arrays[f"{matrix}_{part}"])
        for part in ("indices", "indptr", "shape")
    )
    if shape.numel() != 2 or int(shape.min()) < 0:
        raise InputError(f"{path}: {matrix}_shape must be two sizes; got {shape.tolist()}.")
    rows, columns = shape.tolist()
    count = pointer.diff()
    fits = pointer.numel() == rows + 1 and int(pointer[0]) == 0
    if not fits or bool((count < 0).any()) or int(pointer[-1]) != column.numel():
        raise InputError(
            f"{path}: {matrix}_indptr must rise from 0 to {column.numel():,}, the number of "
            f"{matrix}_indices, in {rows + 1:,} entries, one per row and one more."
        )
    if column.numel() and not 0 <= int(column.min()) <= int(column.max()) < columns:
        raise InputError(f"{path}: {matrix}_indices must lie in 0..{columns - 1}, its columns.")
    row = torch.arange(rows).repeat_interleave(count)
    return row, column, (rows, columns)


def _features(path: Path, arrays: Mapping[str, NDArray[Any]], binary: bool) -> Features:
    """``attr`` as sparse rows or, from 10 % non-zeros on, as a dense matrix."""
    row, column, shape = _entries(path, arrays, "attr")
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


def _integers(path: Path, key: str, array: NDArray[Any]) -> Tensor:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{path}: {key} must be a list of integers; got {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    return torch.from_numpy(array.astype(np.int64))
