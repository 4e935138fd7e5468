"""What is in the tables: counts, degrees, labels, and what a fit would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.names import TAIL_DEGREE

from .costs import graph_cost, pairs_cost
from .estimate import Estimate
from .graphs import TableGraph
from .labels import ClassName
from .pairs import TablePairs
from .splits import PARTS

_EDGES = (0, 1, 2, 3, 4, TAIL_DEGREE, 10, 20, 50, 100, 1000)
"""The last degree of each bin but the open one; a bin ends where the tail does."""


@dataclass(frozen=True)
class DegreeBin:
    """How many nodes have ``low`` to ``high`` edges (``high`` is ``None`` in the open bin)."""

    low: int
    high: int | None
    count: int

    @property
    def label(self) -> str:
        """``"3"``, ``"6-10"`` or ``"> 1000"``."""
        if self.high is None:
            return f"> {self.low - 1}"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class Degrees:
    """Degrees of one kind of nodes; the tail has at most ``tail_degree`` edges."""

    count: int
    mean: float
    median: float
    largest: int
    tail: int
    tail_degree: int
    bins: tuple[DegreeBin, ...]

    @property
    def tail_share(self) -> float:
        """Share of nodes in the tail."""
        return self.tail / max(1, self.count)


@dataclass(frozen=True)
class Inspection:
    """Everything that ``tuneup inspect`` says.

    Args:
        name: of the table of edges.
        counts: what was counted, by what it is called, in the order to show it.
        degrees: of ``nodes``, or of ``users`` and of ``items``.
        labels: rows of each class, the commonest first; empty without labels.
        unlabelled: nodes without a label, if there are labels.
        split: size of each part, if a column gave a split.
        estimate: of a fit.
        features: kind of each column that is one.
        notes: what was guessed, filled in or left out.
        num_bytes: of the files.
    """

    name: str
    counts: Mapping[str, int]
    degrees: Mapping[str, Degrees]
    labels: tuple[tuple[ClassName, int], ...]
    unlabelled: int
    split: Mapping[str, int]
    estimate: Estimate
    features: Mapping[str, str]
    notes: tuple[str, ...]
    num_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = asdict(self)
        for kind, degrees in self.degrees.items():
            found["degrees"][kind]["tail_share"] = degrees.tail_share
        return found


def inspect_graph(
    tables: TableGraph,
    *,
    split: NodeSplit | EdgeSplit | None = None,
    width: int = 128,
    epochs: int = 300,
) -> Inspection:
    """Look at a graph; the estimate is for this width and this many epochs a stage.

    Without labels it is one of link prediction with this ``split``, by default a seeded one.
    """
    graph = tables.graph
    adjacency = graph.adjacency
    loops, repeated = adjacency.num_self_loops, adjacency.num_duplicates
    counts = {
        "nodes": graph.num_nodes,
        "edges": adjacency.num_edges,
        "rows of edges": tables.edge_rows,
        "repeated edges": repeated,
        "self-loops": loops,
    }
    if adjacency.undirected:
        once = tables.edge_rows - loops - repeated
        counts["edges listed both ways"] = once - adjacency.num_edges
    counts["ids without a row"] = tables.added
    counts["nodes without an edge"] = int((adjacency.degree == 0).sum())
    counts["features"] = graph.num_features
    labels: list[tuple[ClassName, int]] = []
    if graph.y is not None:
        sizes = torch.bincount(graph.y[graph.y >= 0], minlength=len(tables.classes)).tolist()
        labels = sorted(zip(tables.classes, sizes, strict=True), key=lambda each: -each[1])
    return Inspection(
        name=graph.name,
        counts=counts,
        degrees={"nodes": degrees_of(adjacency.degree)},
        labels=tuple(labels),
        unlabelled=int((graph.y < 0).sum()) if graph.y is not None else 0,
        split=_sizes(tables.given),
        estimate=graph_cost(tables, split, width, epochs),
        features={each.name: each.kind for each in tables.plan.features},
        notes=tables.notes,
        num_bytes=tables.num_bytes,
    )


def inspect_pairs(
    tables: TablePairs,
    *,
    split: InteractionSplit | None = None,
    width: int = 128,
    epochs: int = 300,
) -> Inspection:
    """Look at interactions; the estimate is for this width and this many epochs a stage.

    It is for this ``split``, by default a seeded one.
    """
    data = tables.interactions
    counts = {
        "users": data.num_users,
        "items": data.num_items,
        "pairs": len(data),
        "rows of pairs": tables.rows,
        "repeated pairs": tables.rows - len(data),
    }
    return Inspection(
        name=data.name,
        counts=counts,
        degrees={
            "users": degrees_of(torch.bincount(data.user, minlength=data.num_users)),
            "items": degrees_of(torch.bincount(data.item, minlength=data.num_items)),
        },
        labels=(),
        unlabelled=0,
        split=_sizes(tables.given),
        estimate=pairs_cost(tables, split, width, epochs),
        features={},
        notes=tables.notes,
        num_bytes=tables.num_bytes,
    )


def degrees_of(degree: Tensor, tail_degree: int = TAIL_DEGREE) -> Degrees:
    """A histogram with the tail's end between two bins, and what else one asks of degrees."""
    bins, low = [], 0
    for high in sorted({*_EDGES, tail_degree}):
        inside = int(((degree >= low) & (degree <= high)).sum())
        bins.append(DegreeBin(low, high, inside))
        low = high + 1
    bins.append(DegreeBin(low, None, int((degree >= low).sum())))
    while len(bins) > 1 and not bins[-1].count:
        bins.pop()
    return Degrees(
        count=degree.numel(),
        mean=float(degree.double().mean()),
        median=float(degree.double().median()),
        largest=int(degree.max()),
        tail=int((degree <= tail_degree).sum()),
        tail_degree=tail_degree,
        bins=tuple(bins),
    )


def _sizes(split: NodeSplit | EdgeSplit | InteractionSplit | None) -> dict[str, int]:
    if split is None:
        return {}
    if isinstance(split, InteractionSplit):
        return {part: len(getattr(split, part)) for part in PARTS}
    return {part: getattr(split, part).shape[-1] for part in PARTS}
