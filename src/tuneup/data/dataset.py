"""What is known about a dataset before it is read: sources, sizes, checksums, licence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuneup.names import TaskName

from .graph import Graph
from .interactions import Interactions


@dataclass(frozen=True)
class GraphSize:
    """The size of a graph; an undirected edge counts once, self-loops and repetitions do not."""

    nodes: int
    edges: int
    features: int
    classes: int

    def __str__(self) -> str:
        return (
            f"{self.nodes:,} nodes, {self.edges:,} edges, {self.features:,} features, "
            f"{self.classes} classes"
        )


@dataclass(frozen=True)
class PairsSize:
    """The size of a recommendation problem; a repeated pair counts once."""

    users: int
    items: int
    pairs: int

    def __str__(self) -> str:
        return f"{self.users:,} users, {self.items:,} items, {self.pairs:,} pairs"


def size_of(data: Graph | Interactions) -> GraphSize | PairsSize:
    """What a dataset that was read has, to be compared with what was published."""
    if isinstance(data, Interactions):
        return PairsSize(data.num_users, data.num_items, len(data))
    edges = data.adjacency.num_edges
    return GraphSize(data.num_nodes, edges, data.num_features, data.num_classes)


@dataclass(frozen=True)
class Remote:
    """One file to download.

    Args:
        url: where it is.
        file: what it is called here.
        size: in bytes, if known.
        checksums: ``sha256:...`` or ``md5:...``, any of which it may have.  None if none is known:
            then it is the numbers of nodes and edges, after reading, that tell whether it is whole.
        members: of a zip archive, the files to take out of it.
    """

    url: str
    file: str
    size: int | None = None
    checksums: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def gives(self) -> tuple[str, ...]:
        """Names of the files that a reader gets from it."""
        return tuple(PurePosixPath(member).name for member in self.members) or (self.file,)


Reader = Callable[[Sequence[Path], str], Graph | Interactions]
"""Reads the files of a dataset, in the order of its record, under a name."""


@dataclass(frozen=True)
class Dataset:
    """A dataset that can be loaded by its name.

    Args:
        name: also of its folder.
        tasks: what it can be used for.
        size: as published, counted as this library counts.
        remotes: what to download.
        read: reads the files, which are in this order: those that each remote gives.
        licence: as its source states it.
    """

    name: str
    tasks: tuple[TaskName, ...]
    size: GraphSize | PairsSize
    remotes: tuple[Remote, ...]
    read: Reader
    licence: str

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files that the reader needs."""
        return tuple(file for remote in self.remotes for file in remote.gives)

    @property
    def download_size(self) -> int | None:
        """Bytes to download; ``None`` if that of any file is unknown."""
        sizes = [remote.size for remote in self.remotes if remote.size is not None]
        return sum(sizes) if len(sizes) == len(self.remotes) else None

    @property
    def has_checksums(self) -> bool:
        """Whether every download can be checked before it is read."""
        return all(remote.checksums for remote in self.remotes)
