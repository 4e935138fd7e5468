"""What is in tables (counts, degrees, labels) and what a fit would cost, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.names import TAIL_DEGREE

from .estimate import Estimate, fit_cost
from .graphs import TableGraph, TablePairs
from .nodes import ClassName
from .splits import PARTS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

_EDGES = (0, 1, 2, 3, 4, TAIL_DEGREE, 10, 20, 50, 100, 1000)
"""The last degree of each bin but the open one; a bin ends where the tail does."""
_BAR = 20
"""Characters of the longest bar."""
_CLASSES = 10
"""Classes that are listed."""


@dataclass(frozen=True)
class DegreeCount:
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
    tail_share: float
    tail_degree: int
    bins: tuple[DegreeCount, ...]


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
        """Plain values, for JSON."""
        return asdict(self)

    def __rich__(self) -> RenderableType:
        """Tables for a terminal, 60 columns wide or more."""
        from rich.console import Group

        return Group(*self._parts())

    def _parts(self) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        yield _count_table(self.name, self.counts)
        for kind, degrees in self.degrees.items():
            yield _degree_table(kind, degrees)
        if self.labels:
            yield self._label_table()
        if self.split:
            yield _count_table("split of the column", self.split)
        cost = self.estimate
        yield Text(
            f"A fit of width {cost.width} and {cost.epochs} epochs a stage is estimated at "
            f"{size(cost.memory)} of memory, the program's own included, and about "
            f"{duration(cost.seconds)} (up to twice that) on one core; less if a stage stops "
            f"early. The files are {size(self.num_bytes)}."
        )
        notes = Table.grid(padding=(0, 1))
        for note in self.notes:
            notes.add_row("-", Text(note))
        yield notes

    def _label_table(self) -> RichTable:
        table = _table("class", "nodes", "share")
        total = sum(count for _, count in self.labels)
        for name, count in self.labels[:_CLASSES]:
            table.add_row(str(name), f"{count:,}", f"{count / total:.1%}")
        rest = self.labels[_CLASSES:]
        if rest:
            count = sum(count for _, count in rest)
            table.add_row(f"{len(rest)} more classes", f"{count:,}", f"{count / total:.1%}")
        if self.unlabelled:
            table.add_row("(no label)", f"{self.unlabelled:,}", "")
        return table


def inspect_tables(
    tables: TableGraph | TablePairs,
    split: NodeSplit | EdgeSplit | InteractionSplit | None = None,
    *,
    width: int = 128,
    epochs: int = 300,
) -> Inspection:
    """Look at tables.

    Args:
        tables: as they were read.
        split: that the estimate is for, by default a seeded one.
        width: of the hidden states that the estimate is for.
        epochs: per stage that the estimate is for.
    """
    labels: list[tuple[ClassName, int]] = []
    features, unlabelled = {}, 0
    if isinstance(tables, TablePairs):
        data = tables.interactions
        name, counts = data.name, _count_pairs(tables)
        degrees = {
            "users": degrees_of(torch.bincount(data.user, minlength=data.num_users)),
            "items": degrees_of(torch.bincount(data.item, minlength=data.num_items)),
        }
    else:
        graph = tables.graph
        name, counts = graph.name, _count_graph(tables)
        degrees = {"nodes": degrees_of(graph.adjacency.degree)}
        features = {each.name: each.kind for each in tables.plan.features}
        if graph.y is not None:
            known = graph.y[graph.y >= 0]
            sizes = torch.bincount(known, minlength=len(tables.classes)).tolist()
            labels = sorted(zip(tables.classes, sizes, strict=True), key=lambda each: -each[1])
            unlabelled = graph.num_nodes - known.numel()
    return Inspection(
        name=name,
        counts=counts,
        degrees=degrees,
        labels=tuple(labels),
        unlabelled=unlabelled,
        split=_sizes(tables.given),
        estimate=fit_cost(tables, split, width, epochs),
        features=features,
        notes=tables.notes,
        num_bytes=tables.num_bytes,
    )


def _count_graph(tables: TableGraph) -> dict[str, int]:
    graph, adjacency = tables.graph, tables.graph.adjacency
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
    return counts


def _count_pairs(tables: TablePairs) -> dict[str, int]:
    data = tables.interactions
    return {
        "users": data.num_users,
        "items": data.num_items,
        "pairs": len(data),
        "rows of pairs": tables.rows,
        "repeated pairs": tables.rows - len(data),
    }


def degrees_of(degree: Tensor, tail_degree: int = TAIL_DEGREE) -> Degrees:
    """A histogram in which a bin ends where the tail does, and statistics."""
    bins, low = [], 0
    for high in sorted({*_EDGES, tail_degree}):
        inside = int(((degree >= low) & (degree <= high)).sum())
        bins.append(DegreeCount(low, high, inside))
        low = high + 1
    bins.append(DegreeCount(low, None, int((degree >= low).sum())))
    while len(bins) > 1 and not bins[-1].count:
        bins.pop()
    tail = int((degree <= tail_degree).sum())
    return Degrees(
        count=degree.numel(),
        mean=float(degree.double().mean()),
        median=float(degree.double().median()),
        largest=int(degree.max()),
        tail=tail,
        tail_share=tail / max(1, degree.numel()),
        tail_degree=tail_degree,
        bins=tuple(bins),
    )


def _sizes(split: NodeSplit | EdgeSplit | InteractionSplit | None) -> dict[str, int]:
    if split is None:
        return {}
    if isinstance(split, InteractionSplit):
        return {part: len(getattr(split, part)) for part in PARTS}
    return {part: getattr(split, part).shape[-1] for part in PARTS}


def _table(*headings: str) -> RichTable:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    return table


def _count_table(heading: str, counts: Mapping[str, int]) -> RichTable:
    table = _table(heading, "")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    return table


def _degree_table(kind: str, degrees: Degrees) -> RichTable:
    table = _table(f"edges of {kind}", kind, "share", "")
    table.columns[-1].justify = "left"
    most = max(each.count for each in degrees.bins)
    for each in degrees.bins:
        share = each.count / max(1, degrees.count)
        bar = "#" * round(_BAR * each.count / max(1, most))
        ends_tail = each.high == degrees.tail_degree and each is not degrees.bins[-1]
        table.add_row(each.label, f"{each.count:,}", f"{share:.1%}", bar, end_section=ends_tail)
    table.caption = (
        f"tail (at most {degrees.tail_degree} edges): {degrees.tail:,} of {degrees.count:,} "
        f"{kind}, {degrees.tail_share:.1%}; mean {degrees.mean:.1f}, median {degrees.median:g}, "
        f"largest {degrees.largest:,}"
    )
    table.caption_justify = "left"
    return table


def memory_warning(cost: Estimate, free: int | None) -> str | None:
    """A line if a fit needs more memory than is free.

    Args:
        cost: of the fit.
        free: bytes, as :func:`tuneup.tables.estimate.free_memory` counts them.
    """
    if free is None or cost.memory <= free:
        return None
    return (
        f"Warning: a fit may need {size(cost.memory)} of memory, but {size(free)} are free; lower "
        "--width, or leave out features with --exclude."
    )


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        whole = max(1, round(seconds))
        return f"{whole} second{'s' if whole > 1 else ''}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
