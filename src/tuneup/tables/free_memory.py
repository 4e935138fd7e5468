"""How much memory a process may still take on this machine, on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_FILES = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        *("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        "total_inactive_file",
    ),
}
"""Of control groups of version 2 and 1: folder, limit, use, and the part of it that is cache."""


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that are free, or that the limits of control groups leave; ``None`` if unknown.

    Args:
        root: the folder that ``proc`` and ``sys`` are in.
    """
    found = [*_of_machine(root), *_of_groups(root)]
    return max(0, min(found)) if found else None


def _of_machine(root: Path) -> Iterator[int]:
    for name, value in _fields(root / "proc/meminfo"):
        if name == "MemAvailable:":
            yield 1024 * value


def _of_groups(root: Path) -> Iterator[int]:
    """What each control group that this process is in leaves, up to the topmost."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _FILES:
            continue
        top, *names, cache = _FILES[kind]
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
