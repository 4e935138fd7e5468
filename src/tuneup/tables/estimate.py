"""Time and memory of a fit, estimated before it starts, and the memory that is free.

The constants of training were fitted to six graphs of 20 to 100 thousand nodes and 0.2 to 4 million
directed entries, with 50 to 500 features and widths of 64 and 256; those of ranking to tables of
1,500 and 10,000 nodes, and of 1,800 and 18,000 users and items.  All on one core of a 2020s server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit

from .graphs import TableGraph, TablePairs

START = 5.0
"""Seconds until the first epoch and after the last, however small the graph."""
MULTIPLY = 9e-11
"""Seconds per multiplication of a dense layer, backward pass and validation included."""
GATHER = 7e-10
"""Seconds per number that is added up along an edge."""
NODE = 5e-6
"""Seconds per node for all that does not grow with the width."""
RANK = 3.7e-11
"""Seconds per multiplication where candidates are scored: no backward pass, and large products."""
CANDIDATE = 2e-9
"""Seconds to tell whether a score is among the best."""

FIXED_BYTES = 453 << 20
"""The program itself and what torch takes, however small the graph."""
NODE_BYTES, ENTRY_BYTES = 2100, 60
"""Of indices, weights, masks and scores."""
HIDDEN_STATES = 4
"""Matrices of nodes by width that are alive at once."""
DECODED = 16
"""Vectors of width numbers that are alive for each training edge whose score a network makes."""
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


@dataclass(frozen=True)
class Ranking:
    """How much is ranked to validate and to score.

    Args:
        candidates: that every source is ranked against.
        validated: sources of one validation.
        scored: sources of all settings together.
        positives: training edges.
        decoded: whether a network makes a score of two embeddings, or their inner product is it.
    """

    candidates: int
    validated: int
    scored: int
    positives: int
    decoded: bool

    def seconds(self, width: int, epochs: int) -> float:
        """Of both stages' losses and validations, and of the scores of both models."""
        multiplied = width * (width + 1) if self.decoded else width
        each = RANK * multiplied + CANDIDATE
        validations = 2 * math.ceil(epochs / validates_every(epochs))
        ranked = validations * self._pairs(self.validated) + 2 * self._pairs(self.scored)
        triple = 3 * MULTIPLY * multiplied if self.decoded else 4 * GATHER * width
        return each * ranked + 2 * epochs * triple * self.positives

    def memory(self, width: int) -> int:
        """Bytes at the peak."""
        decoded = 4 * DECODED * self.positives * width if self.decoded else 0
        return max(decoded, SCORE_BYTES * math.prod(self._tile))

    @property
    def _tile(self) -> tuple[int, int]:
        return LINK_TILE if self.decoded else PAIR_TILE

    def _pairs(self, sources: int) -> int:
        """Scores that are made: tiles are filled up."""
        height, width = self._tile
        return _up(sources, height) * _up(self.candidates, width)


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
    ranking: Ranking | None = None,
) -> Estimate:
    """Time and memory of TuneUp with a SAGE encoder that reads the whole graph in each update.

    With N nodes, M directed entries, d features (or learned inputs of ``width``), width w and L
    layers, an epoch multiplies ``2 N w (d + (L - 1) w)`` numbers and adds up ``M (d + (L - 1) w)``
    along edges.  Alive at once are ``N (d + 4 w)`` numbers and what is kept per node and entry.
    To rank S sources against C candidates takes ``S C w`` multiplications, ``S C w (w + 1)`` for
    links: on most tables of links that is nearly all of the time.
    """
    first = features or width
    depth = first + (num_layers - 1) * width
    epoch = MULTIPLY * 2 * nodes * width * depth + GATHER * entries * depth + NODE * nodes
    hidden = 4 * nodes * (first + HIDDEN_STATES * width)
    memory = FIXED_BYTES + NODE_BYTES * nodes + ENTRY_BYTES * entries + hidden
    seconds = START + 2 * epochs * epoch
    if ranking is not None:
        seconds += ranking.seconds(width, epochs)
        memory += ranking.memory(width)
    return Estimate(memory, seconds, width, epochs)


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
        nodes, entries, features = data.num_users + data.num_items, 2 * len(data), 0
        pairs = split if isinstance(split, InteractionSplit) else tables.split()
        ranking: Ranking | None = Ranking(
            candidates=data.num_items,
            validated=pairs.validation.user.unique().numel(),
            scored=pairs.test.user.unique().numel() + NEW_SETTINGS * pairs.new.numel(),
            positives=len(pairs.train),
            decoded=False,
        )
    else:
        bare, features = tables.bare, tables.plan.width
        nodes, entries, ranking = bare.num_nodes, bare.adjacency.num_entries, None
        edges = tables.split() if bare.y is None and split is None else split
        if bare.y is None and isinstance(edges, EdgeSplit):
            new = torch.isin(edges.new, edges.new_target).sum()
            ranking = Ranking(
                candidates=nodes,
                validated=min(LINK_SOURCES, edges.validation.unique().numel()),
                scored=edges.test.unique().numel() + NEW_SETTINGS * int(new),
                positives=edges.train.shape[1],
                decoded=True,
            )
    return estimate_fit(nodes, entries, features, width=width, epochs=epochs, ranking=ranking)


def _up(count: int, step: int) -> int:
    return math.ceil(count / step) * step


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that are free on Linux, within the limits of control groups, or ``None``.

    Args:
        root: the folder that ``proc`` and ``sys`` are in.
    """
    found = [*_of_machine(root), *_of_control_groups(root)]
    return max(0, min(found)) if found else None


def _of_machine(root: Path) -> Iterator[int]:
    for name, value in _fields(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield 1024 * value


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
                cached = sum(
                    value for name, value in _fields(folder / "memory.stat") if name == cache
                )
                yield int(limit) - int(used) + cached


def _fields(path: Path) -> Iterator[tuple[str, int]]:
    """Names and numbers of a file with a line for each."""
    for line in _text(path).splitlines():
        name, value, *_ = [*line.split(), "", ""]
        if value.isdigit():
            yield name, int(value)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
