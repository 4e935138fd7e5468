"""What is in tables and what a fit of them would cost, as data and as text.

The constants of training were fitted to six graphs of 20 to 100 thousand nodes and 0.2 to 4 million
directed entries, with 50 to 500 features and widths of 64 and 256; those of ranking to tables of
1,500 and 10,000 nodes, and of 1,800 and 18,000 users and items.  All on one core of a 2020s server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.names import TAIL_DEGREE

from .graphs import TableGraph, TablePairs
from .nodes import ClassName
from .splits import PARTS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

START = 5.0
"""Seconds until the first epoch and after the last, however small the graph."""
MULTIPLY, GATHER = 9e-11, 7e-10
"""Seconds per multiplication of a dense layer, and per number that is added up along an edge."""
NODE = 5e-6
"""Seconds per node for all that does not grow with the width."""
RANK, CANDIDATE = 3.7e-11, 2e-9
"""Seconds per multiplication of a score (there is no backward pass), and per score."""
FIXED_BYTES = 453 << 20
"""The program itself and what torch takes, however small the graph."""
NODE_BYTES, ENTRY_BYTES = 2100, 60
"""Of indices, weights, masks and scores."""
HIDDEN_STATES, DECODED = 4, 16
"""Vectors of width numbers that are alive at once: for a node, and for an edge that is scored."""
SCORE_BYTES = 80
"""A score of a tile with what is made of it, if every candidate is among the best so far."""
LINK_TILE, PAIR_TILE = (16, 1024), (128, 4096)
"""Sources and candidates that a network, and an inner product, score at a time."""
LINK_SOURCES = 500
"""Sources that a validation of link prediction ranks."""
NEW_SETTINGS = 4
"""Settings that new nodes are scored in: with all links, and with three shares of them removed."""

_CGROUP_FILES = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        *("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        "total_inactive_file",
    ),
}
"""Of control groups of version 2 and 1: folder, limit, use, and the part of it that is cache."""
_LAST_DEGREES = (0, 1, 2, 3, 4, TAIL_DEGREE, 10, 20, 50, 100, 1000)
"""Of each bin but the open one; a bin ends where the tail does."""
_BAR = 20
"""Characters of the longest bar."""
_CLASSES = 10
"""Classes that are listed."""


@dataclass(frozen=True)
class Estimate:
    """An estimate, right to about a factor of two: cores differ, and stages may stop early.

    Args:
        memory: peak bytes of the whole process.
        seconds: of a fit whose stages run all of their epochs, on one core.
        width: of the hidden states that was assumed.
        epochs: per stage that were assumed.
    """

    memory: int
    seconds: float
    width: int
    epochs: int

    def warning(self, free: int | None) -> str | None:
        """A line if a fit needs more memory than the ``free`` bytes of :func:`free_memory`."""
        if free is None or self.memory <= free:
            return None
        return (
            f"Warning: a fit may need {size(self.memory)} of memory, but {size(free)} are free; "
            "lower --width, or leave out features with --exclude."
        )


def validates_every(epochs: int) -> int:
    """Epochs between two validations of a fit."""
    return max(1, min(5, epochs // 20))


def estimate_fit(
    nodes: int,
    entries: int,
    features: int,
    *,
    width: int = 128,
    num_layers: int = 3,
    epochs: int = 300,
) -> Estimate:
    """Time and memory of TuneUp with a SAGE encoder that reads the whole graph in each update.

    With N nodes, M directed entries, d features (or learned inputs of ``width``), width w and L
    layers, an epoch multiplies ``2 N w (d + (L - 1) w)`` numbers and adds up ``M (d + (L - 1) w)``
    along edges.  Alive at once are ``N (d + 4 w)`` numbers and what is kept per node and entry.
    """
    first = features or width
    depth = first + (num_layers - 1) * width
    epoch = MULTIPLY * 2 * nodes * width * depth + GATHER * entries * depth + NODE * nodes
    hidden = 4 * nodes * (first + HIDDEN_STATES * width)
    memory = FIXED_BYTES + NODE_BYTES * nodes + ENTRY_BYTES * entries + hidden
    return Estimate(memory, START + 2 * epochs * epoch, width, epochs)


def _with_ranking(
    cost: Estimate, candidates: int, validated: int, scored: int, positives: int, decoded: bool
) -> Estimate:
    """With both stages' ranking losses and validations, and the scores of both models.

    To rank S sources against C candidates takes ``S C w`` multiplications, ``S C w (w + 1)`` for
    links: on most tables of links that is nearly all of the time.

    Args:
        cost: of the graph and the encoder.
        candidates: that every source is ranked against.
        validated: sources of one validation.
        scored: sources of all settings together.
        positives: training edges.
        decoded: whether a network makes a score of two embeddings, or their inner product is it.
    """
    width, epochs, tile = cost.width, cost.epochs, LINK_TILE if decoded else PAIR_TILE
    multiplied = width * (width + 1) if decoded else width
    example = 3 * MULTIPLY * multiplied if decoded else 4 * GATHER * width
    validations = 2 * math.ceil(epochs / validates_every(epochs))
    # Tiles are filled up, with sources and with candidates.
    heights = validations * math.ceil(validated / tile[0]) + 2 * math.ceil(scored / tile[0])
    scores = heights * tile[0] * math.ceil(candidates / tile[1]) * tile[1]
    seconds = (RANK * multiplied + CANDIDATE) * scores + 2 * epochs * example * positives
    alive = 4 * DECODED * positives * width if decoded else 0
    memory = cost.memory + max(alive, SCORE_BYTES * math.prod(tile))
    return replace(cost, seconds=cost.seconds + seconds, memory=memory)


def fit_cost(
    tables: TableGraph | TablePairs,
    split: NodeSplit | EdgeSplit | InteractionSplit | None,
    width: int,
    epochs: int,
) -> Estimate:
    """Time and memory of a fit on tables.

    Args:
        tables: without labels, links are predicted.
        split: by default a seeded one; classes need none.
        width: of the hidden states.
        epochs: per stage.
    """
    if isinstance(tables, TablePairs):
        data = tables.interactions
        nodes, entries = data.num_users + data.num_items, 2 * len(data)
        pairs = split if isinstance(split, InteractionSplit) else tables.split()
        return _with_ranking(
            estimate_fit(nodes, entries, 0, width=width, epochs=epochs),
            candidates=data.num_items,
            validated=pairs.validation.user.unique().numel(),
            scored=pairs.test.user.unique().numel() + NEW_SETTINGS * pairs.new.numel(),
            positives=len(pairs.train),
            decoded=False,
        )
    bare = tables.bare
    nodes, entries, features = bare.num_nodes, bare.adjacency.num_entries, tables.plan.width
    cost = estimate_fit(nodes, entries, features, width=width, epochs=epochs)
    edges = tables.split() if bare.y is None and split is None else split
    if bare.y is not None or not isinstance(edges, EdgeSplit):
        return cost
    new = int(torch.isin(edges.new, edges.new_target).sum())
    return _with_ranking(
        cost,
        candidates=nodes,
        validated=min(LINK_SOURCES, edges.validation.unique().numel()),
        scored=edges.test.unique().numel() + NEW_SETTINGS * new,
        positives=edges.train.shape[1],
        decoded=True,
    )


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that are free on Linux, within the limits of control groups, or ``None``.

    Args:
        root: the folder that ``proc`` and ``sys`` are in.
    """
    machine = _fields(root / "proc/meminfo").get("MemAvailable:")
    found = [*([] if machine is None else [1024 * machine]), *_of_control_groups(root)]
    return max(0, min(found)) if found else None


def _of_control_groups(root: Path) -> Iterator[int]:
    """What each control group that this process is in leaves, up to the topmost."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _CGROUP_FILES:
            continue
        top, *names, cache = _CGROUP_FILES[kind]
        path = PurePosixPath(group.lstrip("/"))
        for each in (path, *path.parents):  # in a container, only the topmost may be there
            folder = root / top / each
            limit, used = (_text(folder / name).strip() for name in names)
            if limit.isdigit() and used.isdigit():
                yield int(limit) - int(used) + _fields(folder / "memory.stat").get(cache, 0)


def _fields(path: Path) -> dict[str, int]:
    """Names and numbers of a file with a line for each."""
    words = (line.split() for line in _text(path).splitlines())
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


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


def degrees_of(degree: Tensor, tail_degree: int = TAIL_DEGREE) -> Degrees:
    """A histogram in which a bin ends where the tail does, and statistics."""
    lasts = [-1, *sorted({*_LAST_DEGREES, tail_degree})]
    bins = []
    for low, high in zip(lasts, [*lasts[1:], None], strict=True):
        inside = degree > low if high is None else (degree > low) & (degree <= high)
        bins.append(DegreeCount(low + 1, high, int(inside.sum())))
    while len(bins) > 1 and not bins[-1].count:
        bins.pop()
    count, tail = degree.numel(), int((degree <= tail_degree).sum())
    return Degrees(
        count=count,
        mean=float(degree.double().mean()),
        median=float(degree.double().median()),
        largest=int(degree.max()),
        tail=tail,
        tail_share=tail / max(1, count),
        tail_degree=tail_degree,
        bins=tuple(bins),
    )


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

        yield _counts_shown(self.name, self.counts)
        for kind, degrees in self.degrees.items():
            yield _degrees_shown(kind, degrees)
        if self.labels:
            yield self._labels_shown()
        if self.split:
            yield _counts_shown("split of the column", self.split)
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

    def _labels_shown(self) -> RichTable:
        table = _table("class", "nodes", "share")
        total, rest = sum(count for _, count in self.labels), self.labels[_CLASSES:]
        rows = [*self.labels[:_CLASSES]]
        if rest:
            rows.append((f"{len(rest)} more classes", sum(count for _, count in rest)))
        for name, count in rows:
            table.add_row(str(name), f"{count:,}", f"{count / total:.1%}")
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
    features: dict[str, str] = {}
    unlabelled, given = 0, tables.given
    if isinstance(tables, TablePairs):
        data = tables.interactions
        name, counts = data.name, _count_pairs(tables)
        ends = {"users": (data.user, data.num_users), "items": (data.item, data.num_items)}
        for kind, described in tables.described.items():
            features |= {f"{kind}: {each.name}": each.kind for each in described.plan.features}
        of_each = {kind: torch.bincount(end, minlength=n) for kind, (end, n) in ends.items()}
    else:
        graph = tables.graph
        name, counts = graph.name, _count_graph(tables)
        of_each = {"nodes": graph.adjacency.degree}
        features = {each.name: each.kind for each in tables.plan.features}
        if graph.y is not None:
            known = graph.y[graph.y >= 0]
            sizes = torch.bincount(known, minlength=len(tables.classes)).tolist()
            labels = sorted(zip(tables.classes, sizes, strict=True), key=lambda each: -each[1])
            unlabelled = graph.num_nodes - known.numel()
    parts = {} if given is None else {part: getattr(given, part) for part in PARTS}
    return Inspection(
        name=name,
        counts=counts,
        degrees={kind: degrees_of(degree) for kind, degree in of_each.items()},
        labels=tuple(labels),
        unlabelled=unlabelled,
        split={
            part: found.shape[-1] if isinstance(found, Tensor) else len(found)
            for part, found in parts.items()
        },
        estimate=fit_cost(tables, split, width, epochs),
        features=features,
        notes=tables.notes,
        num_bytes=tables.num_bytes,
    )


def _count_graph(tables: TableGraph) -> dict[str, int]:
    graph, adjacency = tables.graph, tables.graph.adjacency
    loops, repeated = adjacency.num_self_loops, adjacency.num_duplicates
    both_ways = tables.rows - loops - repeated - adjacency.num_edges
    return {
        "nodes": graph.num_nodes,
        "edges": adjacency.num_edges,
        "rows of edges": tables.rows,
        "repeated edges": repeated,
        "self-loops": loops,
        **({"edges listed both ways": both_ways} if adjacency.undirected else {}),
        "ids without a row": tables.added,
        "nodes without an edge": int((adjacency.degree == 0).sum()),
        "features": graph.num_features,
    }


def _count_pairs(tables: TablePairs) -> dict[str, int]:
    data = tables.interactions
    counts = {
        "users": data.num_users,
        "items": data.num_items,
        "pairs": len(data),
        "rows of pairs": tables.rows,
        "repeated pairs": tables.rows - len(data),
    }
    used = {"users": data.user.unique().numel(), "items": data.item.unique().numel()}
    for kind, described in tables.described.items():
        counts[f"{kind} without a row"] = described.added
        counts[f"{kind} without a pair"] = counts[kind] - used[kind]
        counts[f"features of {kind}"] = described.plan.width
    return counts


def _table(*headings: str) -> RichTable:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    return table


def _counts_shown(heading: str, counts: Mapping[str, int]) -> RichTable:
    table = _table(heading, "")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    return table


def _degrees_shown(kind: str, degrees: Degrees) -> RichTable:
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


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        whole = max(1, round(seconds))
        return f"{whole} second{'s' if whole > 1 else ''}"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
