"""A graph with the features and labels of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Features, adjacency_from, sparse_features, take_features


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges, node features and, where there are any, labels.

    Example::

        from tuneup.data import graph_from
        from tuneup.graph import adjacency_from

        graph = graph_from(data)                               # of a PyG Data, or of its parts:
        graph = tuneup.Graph(adjacency_from(data), data.x, data.y)

    Args:
        adjacency: the edges between N nodes.
        x: features ``[N, d]``, dense or sparse.
        y: class of each node ``[N]``, int64, -1 where unknown; or, where nodes have any number of
            classes, float32 ``[N, C]`` of 0 and 1, -1 in all columns where unknown.
        num_classes: number of classes; by default the largest label plus one, or C.
        name: what to call it in reports.
    """

    adjacency: Adjacency
    x: Features
    y: Tensor | None = None
    num_classes: int = 0
    name: str = "graph"

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.adjacency.num_nodes:
            raise InputError(
                f"{self.name}: {self.adjacency.num_nodes} nodes but "
                f"{self.x.shape[0]} rows of features."
            )
        if isinstance(self.x, Tensor):
            if self.x.dim() != 2 or not self.x.is_floating_point():
                raise InputError(
                    f"{self.name}: x must be floating point of shape [nodes, width]; got "
                    f"{self.x.dtype} of shape {list(self.x.shape)}."
                )
            if not torch.isfinite(self.x).all():
                row = int((~torch.isfinite(self.x)).any(1).nonzero()[0])
                raise InputError(
                    f"{self.name}: the features of node {row} are not all finite; "
                    "x.nan_to_num() would make them so."
                )
        elif not torch.isfinite(self.x.value).all():
            raise InputError(f"{self.name}: the sparse features are not all finite.")
        if self.y is not None:
            top = (
                self._check_multi_label(self.y) if self.multi_label else self._check_classes(self.y)
            )
            if not self.num_classes:
                object.__setattr__(self, "num_classes", top)
            elif top > self.num_classes:
                raise InputError(
                    f"{self.name}: label {top - 1} but only {self.num_classes} classes."
                )

    def _check_classes(self, y: Tensor) -> int:
        """The number of classes of a label per node."""
        if y.shape != (self.num_nodes,) or y.dtype != torch.long:
            raise InputError(
                f"{self.name}: y must be int64 of shape [{self.num_nodes}]; got "
                f"{y.dtype} of shape {list(y.shape)}."
            )
        return int(y.max()) + 1 if y.numel() else 0

    def _check_multi_label(self, y: Tensor) -> int:
        """The number of classes of a row of 0 and 1 per node."""
        if y.dtype != torch.float32 or y.shape[0] != self.num_nodes:
            raise InputError(
                f"{self.name}: y must be float32 of shape [{self.num_nodes}, classes]; got "
                f"{y.dtype} of shape {list(y.shape)}."
            )
        known = y[y[:, 0] >= 0]
        if not ((known == 0) | (known == 1)).all() or not (y[y[:, 0] < 0] == -1).all():
            raise InputError(
                f"{self.name}: y must hold 0 and 1, or -1 in all columns of a node without labels."
            )
        return y.shape[1]

    @property
    def multi_label(self) -> bool:
        """Whether nodes have any number of classes: then ``y`` is ``[N, C]``."""
        return self.y is not None and self.y.dim() == 2

    @property
    def has_label(self) -> Tensor:
        """Marks the nodes whose label is known ``[N]``."""
        if self.y is None:
            return torch.zeros(self.num_nodes, dtype=torch.bool, device=self.adjacency.device)
        return (self.y[:, 0] if self.multi_label else self.y) >= 0

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency.num_nodes

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return self.x.shape[1]

    def __repr__(self) -> str:
        classes = f", {self.num_classes} classes" if self.y is not None else ""
        return f"Graph({self.name}: {self.adjacency!r}, {self.num_features} features{classes})"

    def induce(self, nodes: Tensor) -> Graph:
        """The subgraph on ``nodes``, renumbered in that order."""
        y = None if self.y is None else self.y[nodes]
        x = take_features(self.x, nodes)
        return Graph(self.adjacency.induce(nodes), x, y, self.num_classes, self.name)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        y = None if self.y is None else self.y.to(device)
        x, adjacency = self.x.to(device), self.adjacency.to(device)
        return Graph(adjacency, x, y, self.num_classes, self.name)

    def with_adjacency(self, adjacency: Adjacency) -> Graph:
        """The same nodes with other edges."""
        return Graph(adjacency, self.x, self.y, self.num_classes, self.name)


def graph_from(data: Any, *, undirected: bool | None = None, name: str = "graph") -> Graph:
    """A :class:`Graph` from a PyG ``Data`` with ``x``, ``edge_index`` and, if present, ``y``.

    An ``edge_weight`` is read too: "gcn", "sage" and "sage-sum" multiply messages by it.
    ``y`` is a class per node, ``[N]`` or ``[N, 1]``, or a column of 0 and 1 per class ``[N, C]``.
    """
    if isinstance(data, Graph):
        return data
    if getattr(data, "x", None) is None:
        raise InputError(f"{type(data).__name__} has no node features x; node tasks need them.")
    x = sparse_features(data.x) if data.x.layout != torch.strided else data.x.float()
    weight = getattr(data, "edge_weight", None)
    adjacency = adjacency_from(data, undirected=undirected, weight=weight)
    return Graph(adjacency, x, _class_labels(data.y), name=name)


def _class_labels(y: Tensor | None) -> Tensor | None:
    """One class per node ``[N]``, or one column of 0 and 1 per class ``[N, C]``; nothing else."""
    if y is None:
        return None
    if y.dim() == 2 and y.shape[1] > 1:
        columns = y.float().nan_to_num(-1.0)  # NaN: unknown, as in OGB's files
        if ((columns == 0) | (columns == 1) | (columns == -1)).all():
            return columns
    elif not y.is_floating_point() and y.dtype != torch.bool:
        return y.view(-1).long()
    raise InputError(
        f"y must hold one integer class per node, or a column of 0 and 1 per class; got {y.dtype} "
        f"of shape {list(y.shape)}. Regression targets are not supported; whole numbers stored as "
        "floats are classes after y.long()."
    )
