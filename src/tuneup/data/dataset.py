"""A dataset that can be downloaded: its record, its files on this machine, and how it is read.

Datasets are in the folder that the environment variable ``TUNEUP_DATA`` names, or else in
``tuneup`` in the user's cache folder.  A file is at ``<name>/raw/<file>``, where PyG has it too, or
at ``<name>/<file>``; what is there is used without a network.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tuneup.errors import DownloadError, InputError
from tuneup.files import atomic_path, output_folder
from tuneup.names import TaskName

from .download import Remote, download, download_bar
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
    """The size of a dataset as read, to compare with the published one."""
    if isinstance(data, Interactions):
        return PairsSize(data.num_users, data.num_items, len(data))
    edges = data.adjacency.num_edges
    return GraphSize(data.num_nodes, edges, data.num_features, data.num_classes)


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
        read: reads the files, in the order in which the remotes give them.
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
        """Whether every download can be verified before it is read."""
        return all(remote.checksums for remote in self.remotes)

    def load(
        self, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
    ) -> Graph | Interactions:
        """Read the dataset; arguments as of :func:`tuneup.data.load_dataset`."""
        paths = files_of(self, root, fetch=fetch)
        data = self.read(paths, self.name)
        if published and size_of(data) != self.size:
            raise InputError(
                f"{self.name}: {size_of(data)} in {paths[0].parent}, but {self.size} were "
                "published. Remove that folder's files and fetch them again."
            )
        return data


def data_folder(root: Path | str | None = None) -> Path:
    """``root`` if given, else what ``TUNEUP_DATA`` names, else the user's cache folder."""
    if root is not None:
        return Path(root)
    if named := os.environ.get("TUNEUP_DATA"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tuneup"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "tuneup"


def is_cached(dataset: Dataset, root: Path | str | None = None) -> bool:
    """Whether the dataset can be read without a network."""
    root = data_folder(root)
    return all(_find(dataset, remote.file, root) for remote in _missing(dataset, root))


def differing(dataset: Dataset, root: Path | str | None = None) -> list[str]:
    """How local copies differ from the published files, where their checksums are known.

    They are used unchanged: a copy may have been cleaned on purpose.
    """
    root = data_folder(root)
    here = [(remote, _find(dataset, remote.file, root)) for remote in dataset.remotes]
    found = [(path, remote.mismatch(path)) for remote, path in here if path is not None]
    return [f"{path} {difference}" for path, difference in found if difference]


def files_of(dataset: Dataset, root: Path | str | None = None, *, fetch: bool = True) -> list[Path]:
    """The files that the dataset's reader needs, downloaded if need be.

    Args:
        dataset: whose files.
        root: folder of datasets; see :func:`data_folder`.
        fetch: whether to download what is missing.

    Raises:
        DownloadError: if a file is missing and cannot be downloaded; it says what to put where.
    """
    root = data_folder(root)
    absent = _missing(dataset, root)
    to_download = [remote for remote in absent if _find(dataset, remote.file, root) is None]
    if to_download and not fetch:
        reason = f"no {to_download[0].file} in {root}"
        raise DownloadError(_advice(dataset, to_download, root, reason))
    for remote in absent:
        try:
            _obtain(dataset, remote, root)
        except DownloadError as error:
            left = [other for other in to_download if other in _missing(dataset, root)]
            raise DownloadError(_advice(dataset, left, root, str(error))) from error
    found = [_find(dataset, file, root) for file in dataset.files]
    return [path for path in found if path is not None]


def _find(dataset: Dataset, file: str, root: Path) -> Path | None:
    places = (root / dataset.name / "raw" / file, root / dataset.name / file)
    return next((place for place in places if place.is_file()), None)


def _missing(dataset: Dataset, root: Path) -> list[Remote]:
    """The remotes of which a file is not here."""
    return [
        remote
        for remote in dataset.remotes
        if any(_find(dataset, file, root) is None for file in remote.gives)
    ]


def _obtain(dataset: Dataset, remote: Remote, root: Path) -> None:
    """Download and extract; of several processes, one does it for all."""
    folder = root / dataset.name / "raw"
    with output_folder(folder):
        lock = folder / f".{remote.file}.lock"
        with FileLock(lock):
            try:
                if remote not in _missing(dataset, root):
                    return  # another process was faster
                archive = _find(dataset, remote.file, root)
                if archive is None:
                    with download_bar(f"{dataset.name}: {remote.file}") as report:
                        download(remote, folder / remote.file, report=report)
                if remote.members:
                    _extract(archive or folder / remote.file, remote.members, folder)
                    if archive is None:
                        (folder / remote.file).unlink()
            finally:
                lock.unlink(missing_ok=True)


def _extract(archive: Path, members: tuple[str, ...], folder: Path) -> None:
    """Write the named members of a zip file into one folder, under their last names."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in members:
                with (
                    opened.open(member) as source,
                    atomic_path(folder / member.rpartition("/")[2]) as partial,
                    partial.open("wb") as target,
                ):
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        reason = str(error.args[0]) if error.args else type(error).__name__
        raise InputError(
            f"{archive}: {', '.join(members)} cannot be extracted ({reason}). Remove it and "
            "fetch it again."
        ) from error


def _advice(dataset: Dataset, absent: list[Remote], root: Path, reason: str) -> str:
    """One line: what to fetch, from where, and where to put it."""
    wanted = ", ".join(f"{remote.url} as {remote.file}" for remote in absent)
    folder = root / dataset.name / "raw"
    return (
        f"{dataset.name}: {reason}. Fetch {wanted} and put {'it' if len(absent) == 1 else 'them'} "
        f"into {folder}, or set TUNEUP_DATA to the folder that holds {dataset.name}."
    )
