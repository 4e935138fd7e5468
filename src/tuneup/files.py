"""Writing files so that a crash, a full disk or Ctrl-C leaves the old file or none, never half."""

import errno
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tuneup.errors import OutputError, TuneupError

# Advice for each error of writing.
_SPACE = "free some space or choose another place"
_PERMISSION = "check the permissions or choose another place"
_NOT_A_FOLDER = "a part of this path is a file; choose another place"
_ADVICE = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "raise the file size limit (ulimit -f) or choose another place",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: _PERMISSION,
    errno.ENOTDIR: _NOT_A_FOLDER,
    errno.EEXIST: _NOT_A_FOLDER,
    errno.ENOENT: "create the folder first",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "check the disk",
}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary sibling of `path`; on success it becomes `path`, otherwise it is removed.

    The sibling has the suffix of `path`, as some writers choose their format by it. Readers see
    the old file or the new one, also after a power cut. A killed process leaves its sibling
    behind: see `remove_partials`.

    Raises:
        OutputError: If writing fails, whichever library inside the block noticed.
    """
    partial = None
    try:
        target = Path(path).resolve()  # replaces the file behind a link, not the link
        if target.exists() and not target.is_file():
            raise OutputError(f"cannot write {path}: it is not a regular file; choose another name")
        token = os.urandom(4).hex()
        partial = target.with_name(f".{target.stem}.{token}.partial{target.suffix}")
        yield partial
        _put_in_place(partial, target)
    except BaseException as error:
        if partial is not None:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        code = _write_error(error, partial)
        if code is None:
            raise
        raise _output_error(path, code) from error


@contextmanager
def resumable_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield `path` with `.part` added; on success it becomes `path`, otherwise it stays.

    The next block may append to what a failed one wrote.

    Raises:
        OutputError: If writing fails.
    """
    partial = Path(f"{os.fspath(path)}.part")
    try:
        yield partial
        _put_in_place(partial, Path(path))
    except BaseException as error:
        code = _write_error(error, partial)
        if code is None:
            raise
        raise _output_error(path, code) from error


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path`, whole or not at all."""
    with atomic_path(path) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


def append(path: str | os.PathLike[str], line: str) -> None:
    """Add a line (as UTF-8) to a file at once, or as much of it as the disk takes.

    Raises:
        OutputError: If writing fails; half a line may be left.
    """
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        raise _output_error(path, error.errno) from error


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary sibling folder of `path`; on success it becomes `path`, or is removed.

    Args:
        path: Must not exist, or be an empty folder.
        replace: Whether to overwrite an existing folder. A process that is killed at that moment
            leaves the old one beside `path`, named `.<name>.<token>.replaced`.

    Raises:
        OutputError: If there is something at `path`, or writing fails.
    """
    target = Path(path).resolve()
    if not target.name or (target.exists() and not target.is_dir()):
        raise OutputError(f"cannot write {path}: it is not a folder; choose another name")
    if not replace and target.exists() and any(target.iterdir()):
        raise OutputError(f"cannot write {path}: the folder is not empty; choose another name")
    ensure_writable(target.parent)
    token = os.urandom(4).hex()
    partial = target.with_name(f".{target.name}.{token}.partial")
    try:
        partial.mkdir()
        yield partial
        for file in sorted(partial.rglob("*")):
            if file.is_file():
                _sync(file)
        _sync_folder(partial)
        _put_folder(partial, target, target.with_name(f".{target.name}.{token}.replaced"))
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        code = _write_error(error, partial)
        if code is None:
            raise
        raise _output_error(path, code) from error


def _put_folder(partial: Path, target: Path, aside: Path) -> None:
    with uninterrupted():
        taken = target.exists() and any(target.iterdir())
        if taken:
            os.rename(target, aside)
        os.rename(partial, target)
        _sync_folder(target.parent)
    if taken:
        shutil.rmtree(aside, ignore_errors=True)


def remove_partials(folder: str | os.PathLike[str]) -> None:
    """Remove what killed processes left half-written in `folder`; no other may be writing there."""
    for partial in Path(folder).glob(".*.partial*"):
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def ensure_writable(folder: str | os.PathLike[str]) -> Path:
    """Create `folder` if need be and prove that files can be written in it.

    Call it before the work whose result goes there.

    Raises:
        OutputError: If the folder cannot be created or written.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        # Permission bits do not tell of a full disk or a read-only mount: only writing does.
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise _output_error(folder, error.errno) from error
    return Path(folder)


def ensure_room(*needed: tuple[str | os.PathLike[str], int]) -> None:
    """Refuse if a disk has less free space than what will be written to it.

    Args:
        needed: folders, which need not exist yet, and how many bytes will be added to each.

    Raises:
        OutputError: If a disk has too little space, named by its first folder.
    """
    disks: dict[int, tuple[Path, int]] = {}
    for folder, size in needed:
        disk = _existing(Path(folder).absolute()).stat().st_dev
        place, sum_before = disks.get(disk, (Path(folder), 0))
        disks[disk] = (place, sum_before + size)
    for place, size in disks.values():
        space = shutil.disk_usage(_existing(place.absolute()))
        if space.total and size > space.free:  # a total of 0: the system does not know
            raise OutputError(
                f"cannot write {place}: about {_gigabytes(size)} are needed on its disk, where "
                f"{_gigabytes(space.free)} are free; {_SPACE}"
            )


def _existing(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next(part for part in (path, *path.parents) if part.exists())


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.3f} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"


@contextmanager
def output_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A writable folder for the block's results; removed if the block fails and it is empty."""
    target = Path(folder)
    made = [part for part in (target, *target.parents) if not os.path.lexists(part)]
    try:
        yield ensure_writable(target)
    except BaseException:
        with suppress(OSError):  # rmdir refuses a folder that holds anything
            for part in made:
                part.rmdir()
        raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block is done; for a few quick steps that belong together."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals never arrive here
        return
    pressed: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed and callable(before):
            before(*pressed[0])


def _write_error(error: BaseException, partial: Path | None) -> int | None:
    """Return the errno if `error` says that `partial` could not be written, else None."""
    if isinstance(error, TuneupError):
        return None
    if isinstance(error, OSError) and error.errno is not None:
        # An error that names another file is about the caller's reading.
        named = None if error.filename is None else Path(os.fsdecode(error.filename))
        ours = named is None or partial is None or partial in (named, *named.parents)
        code = error.errno if ours else None
    else:
        # safetensors and polars wrap the system's error in classes of their own, or leave its
        # number to the text.
        wrapped = re.search(r"\(os error (\d+)\)", str(error))
        ours = not isinstance(error, OSError) or partial is None or partial.name in str(error)
        code = int(wrapped[1]) if wrapped and ours else None
    return code if code in _ADVICE else None


def _output_error(path: str | os.PathLike[str], code: int | None) -> OutputError:
    reason = os.strerror(code) if code is not None else "unknown error"
    advice = _ADVICE.get(code or 0, "choose another place")
    return OutputError(f"cannot write {os.fspath(path)}: {reason}; {advice}")


def _put_in_place(partial: Path, target: Path) -> None:
    _sync(partial)
    os.replace(partial, target)
    _sync_folder(target.parent)


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable, where the system can; the file is whole in any case."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
