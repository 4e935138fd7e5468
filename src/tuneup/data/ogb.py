"""Graphs in the raw layout of the Open Graph Benchmark (Hu et al. 2020): gzipped csv, no headers.

``edge.csv.gz`` has a line ``from,to`` per edge, ``node-feat.csv.gz`` a line of features per node,
``node-label.csv.gz`` a class per node, ``num-node-list.csv.gz`` and ``num-edge-list.csv.gz`` one
count each.  The graph comes out undirected, without self-loops or repeated edges.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import adjacency_from

from .graph import Graph

FILES = (
    "edge.csv.gz",
    "node-feat.csv.gz",
    "node-label.csv.gz",
    "num-node-list.csv.gz",
    "num-edge-list.csv.gz",
)
"""Of a graph, in the order that :func:`read_ogb` takes."""


def read_ogb(paths: Sequence[Path], name: str) -> Graph:
    """A graph from the :data:`FILES` of one dataset."""
    edges, features, labels, nodes_list, edges_list = paths
    num_nodes, num_edges = _count(nodes_list), _count(edges_list)
    frame = _rows(edges, pl.Int64, num_edges, f"edge of {edges_list.name}", 2)
    edge_index = torch.from_numpy(frame.to_numpy(writable=True)).T
    if num_edges and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        line = int(((edge_index < 0) | (edge_index >= num_nodes)).any(0).nonzero()[0]) + 1
        raise InputError(
            f"{edges}, line {line}: {tuple(edge_index[:, line - 1].tolist())} is no pair of nodes; "
            f"they are 0..{num_nodes - 1}. Copy all files from one source."
        )
    adjacency = adjacency_from(edge_index, num_nodes, undirected=True)
    del frame, edge_index  # two gigabytes of ogbn-products
    return Graph(adjacency, _features(features, num_nodes), _labels(labels, num_nodes), name=name)


def _features(path: Path, num_nodes: int) -> Tensor:
    frame = _rows(path, pl.Float32, num_nodes, "node")
    return torch.from_numpy(frame.to_numpy(order="c", writable=True))


def _labels(path: Path, num_nodes: int) -> Tensor:
    frame = _rows(path, pl.Int64, num_nodes, "node", 1)
    y = torch.from_numpy(frame.to_series().to_numpy(writable=True))
    if y.numel() and int(y.min()) < 0:
        raise InputError(f"{path}: classes are counted from 0; got {int(y.min())}.")
    return y


def _count(path: Path) -> int:
    """The number that is all there is in a list of one graph."""
    frame = _read(path, pl.Int64)
    if frame.shape != (1, 1) or int(frame.item()) < 0:
        raise InputError(
            f"{path}: must hold one count, for one graph; got {frame.height} lines of "
            f"{frame.width}."
        )
    return int(frame.item())


def _rows(
    path: Path, kind: type[pl.DataType], height: int, what: str, width: int | None = None
) -> pl.DataFrame:
    """A table of numbers with a known number of lines and, perhaps, of columns."""
    frame = _read(path, kind)
    if frame.height != height:
        raise InputError(
            f"{path}: {frame.height:,} lines, but one per {what} would be {height:,}. It may be "
            "cut short: copy it again."
        )
    if width is not None and frame.width != width:
        raise InputError(f"{path}: {frame.width} columns per line where there must be {width}.")
    for column in frame.iter_columns():
        if column.has_nulls():
            line = column.is_null().arg_max()
            raise InputError(f"{path}, line {(line or 0) + 1}: a number is missing.")
    return frame


def _read(path: Path, kind: type[pl.DataType]) -> pl.DataFrame:
    try:
        with gzip.open(path, "rb") as lines:
            width = lines.readline().count(b",") + 1
        schema = {f"column_{k + 1}": kind for k in range(width)}
        return pl.read_csv(path, has_header=False, schema=schema)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        raise InputError(
            f"{path}: not readable as gzipped lines of {kind.__name__} numbers ({reason}). It may "
            "be cut short: copy it again."
        ) from error
