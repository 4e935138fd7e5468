"""``tuneup datasets``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tuneup.data import Dataset


def command(
    download: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Fetch this dataset and verify it; may be repeated."),
    ] = None,
) -> None:
    """List the datasets that go by a name, or fetch some.

    They are kept in the folder that the environment variable TUNEUP_DATA names, or else in your
    cache folder. What is there is used without a network; what is not is fetched when it is first
    needed, and a broken download goes on where it broke off.
    """
    from tuneup.data import (
        DATASETS,
        data_folder,
        dataset_named,
        differing,
        files_of,
        is_cached,
        load_dataset,
    )

    console, root = Console(), data_folder()
    for dataset in [dataset_named(name) for name in download or ()]:
        fresh = not is_cached(dataset)
        paths = files_of(dataset)
        if not (fresh and dataset.has_checksums):
            load_dataset(dataset.name)  # reading is how it is verified
        for words in differing(dataset):
            console.print(
                f"{words}: it is not the published file. It is used as it is; remove it and ask "
                "again to have that one.",
                style="yellow",
                highlight=False,
                soft_wrap=True,
            )
        console.print(
            f"{dataset.name}: {dataset.size}, in {paths[0].parent}", highlight=False, soft_wrap=True
        )
    if not download:
        console.print(datasets_table(DATASETS.values(), root))
        console.print(f"The folder is {root}.", highlight=False, soft_wrap=True)


def datasets_table(datasets: Iterable[Dataset], root: Path) -> Table:
    """Name, task, size, licence and whereabouts of every dataset."""
    from tuneup.data import is_cached

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
