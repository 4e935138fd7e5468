"""Graphs in GraphSAINT's layout (Zeng et al. 2020), which is four files.

``adj_full.npz`` is a scipy matrix in compressed sparse rows (``indices, indptr, shape``; any stored
entry is an edge), ``feats.npy`` the features ``[N, d]``, ``class_map.json`` the class of each node,
``{"0": 3, ...}``, as a number or as a list with a single 1, and ``role.json`` the nodes for
training, validation and test, ``{"tr": [...], "va": [...], "te": [...]}``.  The roles are checked
and not kept: the paper has splits of its own.  Features are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import adjacency_from

from .arrays import csr_entries, read_npy, read_npz
from .graph import Graph

_LAYOUT = "GraphSAINT"


def read_graphsaint(paths: Sequence[Path], name: str) -> Graph:
    """A graph from ``adj_full.npz``, ``feats.npy``, ``class_map.json`` and ``role.json``."""
    edges, features, classes, roles = paths
    arrays = read_npz(edges, ("indices", "indptr", "shape"), _LAYOUT)
    sender, receiver, shape = csr_entries(edges, arrays)
    if shape[0] != shape[1]:
        raise InputError(f"{edges}: the matrix must be nodes by nodes; its shape is {shape}.")
    adjacency = adjacency_from(torch.stack([sender, receiver]), shape[0], undirected=True)
    _check_roles(roles, shape[0])
    return Graph(adjacency, _features(features, shape[0]), _labels(classes, shape[0]), name=name)


def _features(path: Path, num_nodes: int) -> Tensor:
    array = read_npy(path, _LAYOUT)
    if array.ndim != 2 or len(array) != num_nodes or array.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: must be numbers, a row for each of the {num_nodes:,} nodes of adj_full.npz; "
            f"got {array.dtype} of shape {list(array.shape)}. Copy both files from one source."
        )
    return torch.from_numpy(array.astype(np.float32))


def _labels(path: Path, num_nodes: int) -> Tensor:
    """The class of each node ``[N]``; -1 where the file has none."""
    y = torch.full((num_nodes,), -1)
    for key, given in _json_object(path).items():
        node = int(key) if key.isascii() and key.isdigit() else -1
        if not 0 <= node < num_nodes:
            raise InputError(f"{path}: {key!r} is no node; they are 0..{num_nodes - 1}.")
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
    """Three lists of nodes, without a node in common."""
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
