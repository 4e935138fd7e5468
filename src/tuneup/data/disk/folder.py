"""Reading a graph folder: nothing is loaded but what is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Features, Rows, SparseMatrix
from tuneup.names import TaskName

from ..graph import Graph
from ..splits import NodeSplit
from .header import HEADER, Header

if TYPE_CHECKING:
    from .stores import FolderEdges, FolderFeatures

EDGE_TYPE = ("node", "to", "node")
"""What PyG calls the edges, where nodes are all of one kind."""

TRAIN, VALIDATION, TEST, NEW = range(4)
"""Parts of a split as they are stored; -1 for a node that is in none."""

_TOGETHER = 1 << 22
"""Rows that are looked at together where a whole array is."""


def is_graph_folder(path: str | Path) -> bool:
    """Whether there is a graph folder, whatever its state."""
    return (Path(path) / HEADER).is_file()


def open_graph(path: str | Path, task: TaskName | None = None) -> GraphFolder:
    """Open a graph folder without reading its arrays.

    Example::

        folder = open_graph("papers")
        field = receptive_field(folder.neighbours, seeds, depth=2)
        x = folder.x.take(field.nodes)

    Args:
        path: the folder.
        task: what it is for, if that is known: a folder without labels cannot train classes.

    Raises:
        InputError: If it is no graph folder, damaged, incomplete, of a newer format, or for another
            task.
    """
    folder = GraphFolder(Path(path), Header.read(Path(path)))
    folder.check()
    if task is not None:
        folder.check_task(task)
    return folder


@dataclass(frozen=True, eq=False)
class MappedRows(Rows):
    """Senders of each node in mapped files: ``rowptr`` int64, ``col`` int32 or int64."""

    name: str = field(default="the graph folder", kw_only=True)

    def degree(self, nodes: Tensor) -> Tensor:
        """Number of senders of some nodes."""
        return self.rowptr[nodes + 1] - self.rowptr[nodes]

    def take(self, nodes: Tensor) -> Rows:
        """Senders of some nodes, in memory, int64."""
        rows = super().take(nodes)
        col = rows.col.long()
        if col.numel():
            low, high = map(int, col.aminmax())
            if low < 0 or high >= self.num_nodes:
                raise InputError(
                    f"{self.name}: damaged; got sender {high if high > 0 else low}, expected 0 to "
                    f"{self.num_nodes - 1}; write the folder again."
                )
        return Rows(rows.rowptr, col, rows.entries)


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features in mapped files; rows become float32 when they are taken.

    Args:
        shape: nodes and width.
        dense: ``[N, d]``, float32 or float16; or
        sparse: row pointer ``[N + 1]``, columns ``[K]`` and values ``[K]``.
    """

    shape: tuple[int, int]
    dense: Tensor | None = None
    sparse: tuple[Tensor, Tensor, Tensor] | None = None

    def take(self, nodes: Tensor) -> Features:
        """Rows of some nodes, in memory, float32."""
        if self.dense is not None:
            return self.dense.index_select(0, nodes).float()
        if self.sparse is None:
            return torch.zeros(nodes.numel(), 0)
        rowptr, col, value = self.sparse
        rows = Rows(rowptr, col).take(nodes)
        assert rows.entries is not None
        return SparseMatrix(
            rows.rowptr, rows.col.long(), value[rows.entries].float(), self.shape[1]
        )


@dataclass(frozen=True, eq=False)
class MappedGraph(Graph):
    """A graph whose arrays are mapped, and were checked when they were written."""

    def __post_init__(self) -> None:
        pass  # to look at every number would be to read every file


@dataclass(frozen=True, eq=False)
class GraphFolder:
    """A graph on disk; made by :func:`open_graph`.

    Arrays are mapped when they are first asked for, and several processes on one machine share the
    pages that they read.

    Args:
        path: the folder.
        header: what it says of itself.
    """

    path: Path
    header: Header

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.header.nodes

    @property
    def num_entries(self) -> int:
        """Stored entries: an undirected edge counts twice."""
        return self.header.entries

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return self.header.width

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 without labels."""
        return len(self.header.classes)

    @property
    def checksum(self) -> str:
        """Of all files: equal on every machine that trains on the same graph."""
        return self.header.checksum

    def __repr__(self) -> str:
        kind = "undirected" if self.header.undirected else "directed"
        edges = self.num_entries // (2 if self.header.undirected else 1)
        return (
            f"GraphFolder({self.path}: {self.num_nodes:,} nodes, {edges:,} {kind} edges, "
            f"{self.num_features} features, {self.num_classes} classes)"
        )

    # Arrays

    def array(self, name: str) -> NDArray[Any]:
        """A mapped array by its name in the header; it can only be read."""
        info = self.header.arrays[name]
        try:
            return np.lib.format.open_memmap(self.path / info.file, mode="r")
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.path / info.file}: damaged, no readable .npy file ({error}); write the "
                "folder again."
            ) from error

    def _tensor(self, name: str) -> Tensor:
        # Not a private copy-on-write map, which torch would not warn of: the system counts that as
        # memory, and refuses one larger than the machine's.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            return torch.from_numpy(self.array(name))

    @cached_property
    def neighbours(self) -> MappedRows:
        """The senders of each node: a :class:`tuneup.graph.Neighbours`."""
        return MappedRows(self._tensor("rowptr"), self._tensor("senders"), name=str(self.path))

    @cached_property
    def x(self) -> MappedFeatures:
        """The features of each node; of width 0 without features."""
        shape = self.num_nodes, self.num_features
        if "x" in self.header.arrays:
            return MappedFeatures(shape, self._tensor("x"))
        if "x_value" in self.header.arrays:
            parts = tuple(self._tensor(f"x_{name}") for name in ("rowptr", "col", "value"))
            return MappedFeatures(shape, None, parts)  # type: ignore[arg-type]
        return MappedFeatures(shape)

    @cached_property
    def labels(self) -> Tensor | None:
        """Mapped labels in the type that they are stored in: ``[N]``, or ``[N, C]`` of int8."""
        return self._tensor("y") if "y" in self.header.arrays else None

    def y(self, nodes: Tensor | None = None) -> Tensor | None:
        """Labels of some nodes, or of all, in memory, as :class:`tuneup.Graph` has them."""
        if self.labels is None:
            return None
        found = self.labels if nodes is None else self.labels[nodes]
        return found.float() if self.header.multi_label else found.long()

    @cached_property
    def split(self) -> NodeSplit | None:
        """The split that is stored, if there is one."""
        if "split" not in self.header.arrays:
            return None
        part = self._tensor("split")
        train, validation, test, new = (part.eq(k).nonzero().view(-1) for k in range(4))
        return NodeSplit(part.ne(NEW).nonzero().view(-1), new, train, validation, test)

    def ids(self, nodes: Tensor | None = None) -> pl.Series:
        """The user's ids of some nodes, or of all; without a table of ids the numbers themselves.

        The table is read in a stream, but all ids that are asked for come into memory.
        """
        if "ids" not in self.header.arrays:
            numbers = np.arange(self.num_nodes) if nodes is None else nodes.numpy()
            return pl.Series("id", numbers)
        table = pl.scan_parquet(self.path / self.header.arrays["ids"].file)
        if nodes is None:
            return table.collect()["id"]
        wanted = pl.LazyFrame({"node": nodes.numpy(), "place": np.arange(nodes.numel())})
        table = table.with_row_index("node").with_columns(pl.col("node").cast(pl.Int64))
        found = table.join(wanted, on="node", how="inner").collect(engine="streaming")
        return found.sort("place")["id"]

    # Whole

    def graph(self, *, mapped: bool = False) -> Graph:
        """The graph as tasks take it: in memory, for passes over all of it; or mapped.

        Example::

            graph, split = folder.graph(mapped=True), folder.split
            task = tuneup.NodeClassification(
                graph, split.train, split.validation, batch_size=1024, num_neighbors=(15, 10)
            )

        Args:
            mapped: leave edges and dense features on disk, to be read where neighbours are sampled;
                labels come into memory in either case.
        """
        rows, undirected, y = self.neighbours, self.header.undirected, self.y()
        if not mapped:
            index = rows.rowptr.clone(), rows.col.long().clone(), self.num_nodes
            x = self.x.take(torch.arange(self.num_nodes))
            return Graph(Adjacency(*index, undirected), x, y, self.num_classes, self.header.name)
        if self.x.sparse is not None:
            raise InputError(f"{self.path}: sparse features cannot stay on disk; use mapped=False.")
        adjacency = Adjacency(rows.rowptr, rows.col, self.num_nodes, undirected)
        vars(adjacency)["neighbours"] = rows
        x = torch.zeros(self.num_nodes, 0) if self.x.dense is None else self.x.dense
        return MappedGraph(adjacency, x, y, self.num_classes, self.header.name)

    def feature_store(self, node_type: str = "node") -> FolderFeatures:
        """The features and labels as a ``FeatureStore`` of PyG."""
        from .stores import FolderFeatures  # imports PyG

        return FolderFeatures(self, node_type)

    def graph_store(self, edge_type: tuple[str, str, str] = EDGE_TYPE) -> FolderEdges:
        """The edges as a ``GraphStore`` of PyG."""
        from .stores import FolderEdges

        return FolderEdges(self, edge_type)

    def check(self) -> None:
        """Refuse arrays whose types or shapes are not those that the header promises."""
        n, entries, width = self.num_nodes, self.num_entries, self.num_features
        expected: Mapping[str, tuple[tuple[int, ...], str]] = {
            "rowptr": ((n + 1,), "i8"),
            "senders": ((entries,), "i4 i8"),
            "x": ((n, width), "f2 f4"),
            "x_rowptr": ((n + 1,), "i8"),
            "y": ((n, self.num_classes) if self.header.multi_label else (n,), "i1 i2 i4"),
            "split": ((n,), "i1"),
        }
        for name in ("rowptr", "senders"):
            if name not in self.header.arrays:
                raise InputError(f"{self.path}: incomplete, the header names no {name}.")
        for name in self.header.arrays:
            if name not in expected:
                continue
            found, (shape, kinds) = self.array(name), expected[name]
            if found.shape != shape or found.dtype.str[1:] not in kinds.split():
                raise InputError(
                    f"{self.path}: damaged, {name} is {found.dtype} {list(found.shape)}; expected "
                    f"{list(shape)} of type {kinds.replace(' ', ' or ')}; write the folder again."
                )
        rowptr = self.array("rowptr")
        if int(rowptr[0]) != 0 or int(rowptr[-1]) != entries:
            raise InputError(
                f"{self.path}: damaged, rowptr runs from {int(rowptr[0])} to {int(rowptr[-1])}; "
                f"expected 0 to {entries}; write the folder again."
            )

    def check_task(self, task: TaskName) -> None:
        """Refuse a folder that cannot serve a task."""
        if task == "recommendation":
            raise InputError(
                f"{self.path}: holds one kind of node; recommendation reads pairs of users and "
                "items: pass their table with --edges."
            )
        if task == "node-classification" and not self.num_classes:
            raise InputError(
                f"{self.path}: has no labels, which node classification needs; write it again "
                "from a table of nodes with a column of labels, or pass --task link-prediction."
            )
        if task == "link-prediction" and not self.header.undirected:
            raise InputError(
                f"{self.path}: has directed edges; link prediction is for undirected ones: write "
                "it again without --directed."
            )

    def verify(self) -> None:
        """Read every byte, and refuse a folder that is not as it was written.

        Raises:
            InputError: about the first file whose checksum is wrong, or whose numbers cannot be.
        """
        self.header.verify(self.path)
        rowptr, col = self.array("rowptr"), self.array("senders")
        for start in range(0, self.num_nodes, _TOGETHER):
            if (np.diff(rowptr[start : start + _TOGETHER + 1]) < 0).any():
                raise InputError(f"{self.path}: damaged, rowptr falls; write the folder again.")
        for start in range(0, self.num_entries, _TOGETHER):
            part = col[start : start + _TOGETHER]
            if part.min() < 0 or part.max() >= self.num_nodes:
                raise InputError(f"{self.path}: damaged, senders out of range; write it again.")
