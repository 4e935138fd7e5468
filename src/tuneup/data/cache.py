"""The folder of datasets: what is in it, and how what is not gets there.

It is the one that the environment variable ``TUNEUP_DATA`` names, or else ``tuneup`` in the user's
cache folder.  A file of a dataset is at ``<name>/raw/<file>``, where PyG has it too, or at
``<name>/<file>``; what is there is used without a network.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
import zlib
from pathlib import Path

from filelock import FileLock

from tuneup.errors import DownloadError, InputError
from tuneup.files import atomic_path, output_folder

from .bar import download_bar
from .dataset import Dataset, Remote
from .fetch import download, mismatch


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


def find(dataset: Dataset, file: str, root: Path) -> Path | None:
    """Where a file of a dataset is, if it is anywhere."""
    places = (root / dataset.name / "raw" / file, root / dataset.name / file)
    return next((place for place in places if place.is_file()), None)


def missing(dataset: Dataset, root: Path) -> list[Remote]:
    """What would have to be downloaded."""
    return [
        remote
        for remote in dataset.remotes
        if any(find(dataset, file, root) is None for file in remote.gives)
    ]


def is_cached(dataset: Dataset, root: Path | str | None = None) -> bool:
    """Whether it can be read without a network."""
    root = data_folder(root)
    return all(find(dataset, remote.file, root) for remote in missing(dataset, root))


def differing(dataset: Dataset, root: Path | str | None = None) -> list[str]:
    """What tells copies that are here from the published files, where their checksums are known.

    They are used as they are: whoever puts a copy here may have cleaned it.
    """
    root = data_folder(root)
    here = [(remote, find(dataset, remote.file, root)) for remote in dataset.remotes]
    found = [(path, mismatch(remote, path)) for remote, path in here if path is not None]
    return [f"{path} {told}" for path, told in found if told]


def files_of(dataset: Dataset, root: Path | str | None = None, *, fetch: bool = True) -> list[Path]:
    """The files that the dataset's reader needs, downloaded if need be.

    Args:
        dataset: whose files.
        root: folder of datasets; see :func:`data_folder`.
        fetch: whether to download what is missing.

    Raises:
        DownloadError: if something is missing and cannot be had; it says what to put where.
    """
    root = data_folder(root)
    absent = missing(dataset, root)
    to_download = [remote for remote in absent if find(dataset, remote.file, root) is None]
    if to_download and not fetch:
        raise DownloadError(
            _advice(dataset, to_download, root, f"no {to_download[0].file} in {root}")
        )
    for remote in absent:
        try:
            _obtain(dataset, remote, root)
        except DownloadError as error:
            left = [other for other in to_download if other in missing(dataset, root)]
            raise DownloadError(_advice(dataset, left, root, str(error))) from error
    found = [find(dataset, file, root) for file in dataset.files]
    return [path for path in found if path is not None]


def _obtain(dataset: Dataset, remote: Remote, root: Path) -> None:
    """Download, and take out of the archive; of several processes, one does it for all."""
    folder = root / dataset.name / "raw"
    with output_folder(folder):
        waiting = folder / f".{remote.file}.lock"
        with FileLock(waiting):
            try:
                if remote not in missing(dataset, root):
                    return  # another process was faster
                archive = find(dataset, remote.file, root)
                if archive is None:
                    with download_bar(f"{dataset.name}: {remote.file}") as report:
                        download(remote, folder / remote.file, report=report)
                if remote.members:
                    _take_out(archive or folder / remote.file, remote.members, folder)
                    if archive is None:
                        (folder / remote.file).unlink()
            finally:
                waiting.unlink(missing_ok=True)


def _take_out(archive: Path, members: tuple[str, ...], folder: Path) -> None:
    """The named members of a zip file, into one folder under their last names."""
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
            f"{archive}: {', '.join(members)} cannot be taken out of it ({reason}). Remove it and "
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
