"""The registries of methods and of datasets as tables for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from tuneup.data import Dataset, is_cached
from tuneup.methods import Method
from tuneup.methods.base import ARCHITECTURES, TASKS


def methods_table(methods: Iterable[Method]) -> Table:
    """Name and summary of every method, with what it applies to and what is tuned."""
    found = Table(box=None, pad_edge=False, show_edge=False)
    found.add_column("method", no_wrap=True)
    found.add_column("what it is, what it applies to, what is chosen on validation")
    for method in methods:
        found.add_row(f"[bold]{method.name}[/bold]", "\n".join(lines_of(method)) + "\n")
    return found


def lines_of(method: Method) -> list[str]:
    """What a user must know before choosing it."""
    source = f" ({method.reference})" if method.reference else ""
    lines = [f"{method.summary}{source}"]
    if method.tasks != TASKS:
        lines.append(f"for {' and '.join(method.tasks)}")
    if method.architectures != ARCHITECTURES:
        lines.append(f"with {', '.join(method.architectures)}")
    if method.needs_features:
        lines.append("needs node features")
    lines += [f"{name}: {', '.join(map(str, values))}" for name, values in method.grid.items()]
    return lines


def datasets_table(datasets: Iterable[Dataset], root: Path) -> Table:
    """Name, task, size, licence and whereabouts of every dataset."""
    found = Table(box=None, pad_edge=False, show_edge=False)
    found.add_column("dataset", no_wrap=True)
    found.add_column("tasks, size, download, licence, cached or not")
    for dataset in datasets:
        lines = facts_of(dataset, is_cached(dataset, root))
        found.add_row(f"[bold]{dataset.name}[/bold]", "\n".join(lines) + "\n")
    return found


def facts_of(dataset: Dataset, cached: bool) -> list[str]:
    """What a user must know before downloading it."""
    size = dataset.download_size
    known = "checksum known" if dataset.has_checksums else "verified by its nodes and edges"
    return [
        " or ".join(task.replace("-", " ") for task in dataset.tasks),
        str(dataset.size),
        f"download: {readable(size) if size else 'size unknown'}, {known}",
        f"licence: {dataset.licence}; {'cached' if cached else 'not cached'}",
    ]


def readable(size: int) -> str:
    """Bytes as people say them: 6.0 MB, 1.5 GB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"
