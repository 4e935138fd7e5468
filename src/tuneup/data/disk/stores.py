"""A graph folder as PyG's ``FeatureStore`` and ``GraphStore``: read on demand, never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from tuneup.errors import InputError
from tuneup.graph import SparseMatrix

if TYPE_CHECKING:
    from .folder import GraphFolder


class FolderFeatures(FeatureStore):  # type: ignore[misc]
    """Features ``x`` and labels ``y`` of a folder, by PyG's names.

    Example::

        x = folder.feature_store().get_tensor("node", "x", index=nodes)

    Args:
        folder: the graph folder.
        node_type: what PyG calls its nodes.
    """

    folder: GraphFolder
    node_type: str

    def __init__(self, folder: GraphFolder, node_type: str) -> None:
        super().__init__()
        self.__dict__.update(folder=folder, node_type=node_type)  # PyG's own __setattr__ stores

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """``x`` and ``y``, where the folder has them."""
        held = {"x": self.folder.num_features > 0, "y": self.folder.num_classes > 0}
        return [TensorAttr(self.node_type, name) for name, is_held in held.items() if is_held]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.group_name != self.node_type or attr.attr_name not in ("x", "y"):
            return None
        nodes = _nodes(attr.index, self.folder.num_nodes)
        if attr.attr_name == "y":
            return self.folder.y(nodes)
        rows = self.folder.x.take(nodes)
        if isinstance(rows, SparseMatrix):
            rows = rows @ torch.eye(rows.shape[1])
        return rows if self.folder.num_features else None

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.attr_name == "x":
            return self.folder.x.shape
        labels = self.folder.labels
        return None if labels is None else tuple(labels.shape)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only(self.folder)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only(self.folder)


class FolderEdges(GraphStore):  # type: ignore[misc]
    """The edges of a folder as PyG's compressed columns: mapped, not copied.

    Args:
        folder: the graph folder.
        edge_type: what PyG calls its edges.
    """

    folder: GraphFolder
    edge_type: tuple[str, str, str]

    def __init__(self, folder: GraphFolder, edge_type: tuple[str, str, str]) -> None:
        super().__init__()
        self.__dict__.update(folder=folder, edge_type=edge_type)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The one kind of edges, by column."""
        size = self.folder.num_nodes, self.folder.num_nodes
        return [EdgeAttr(self.edge_type, EdgeLayout.CSC, size=size)]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.edge_type != self.edge_type or edge_attr.layout != EdgeLayout.CSC:
            return None
        rows = self.folder.neighbours
        return rows.col, rows.rowptr

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only(self.folder)

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only(self.folder)


def _nodes(index: Any, count: int) -> Tensor:
    """The nodes that PyG's index means."""
    if isinstance(index, Tensor):
        return index.nonzero().view(-1) if index.dtype == torch.bool else index.long()
    if isinstance(index, slice):
        return torch.arange(count)[index]
    if index is None:
        return torch.arange(count)
    return torch.as_tensor(index).long().view(-1)


def _read_only(folder: GraphFolder) -> InputError:
    return InputError(f"{folder.path}: a graph folder is read only; write another one.")
