"""``tuneup methods`` and ``tuneup datasets``: what goes by a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from tuneup.data import Dataset
    from tuneup.methods import Method


def methods() -> None:
    """List TuneUp, its ablations and the published baselines, with what each needs.

    Every line below a method's summary is a limit of it, or a setting with the values that are
    tried.
    """
    from rich.console import Console

    from tuneup.methods import METHODS

    known = {name: method_facts(method) for name, method in METHODS.items()}
    Console().print(facts_table("method", "what it is, what it applies to, what is chosen", known))


def datasets(
    download: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Fetch this dataset and verify it; may be repeated."),
    ] = None,
) -> None:
    """List the datasets that go by a name, or fetch some.

    They are stored in the folder that the environment variable TUNEUP_DATA names, or else in your
    cache folder. What is there is used without a network; what is not is fetched when it is first
    needed, and a download that broke off is resumed.
    """
    from rich.console import Console

    from tuneup.data import DATASETS, data_folder, dataset_named, is_cached

    console, root = Console(), data_folder()
    for dataset in [dataset_named(name) for name in download or ()]:
        for line in _fetch(dataset):
            console.print(line, highlight=False, soft_wrap=True)
    if not download:
        known = {each.name: dataset_facts(each, is_cached(each)) for each in DATASETS.values()}
        title = "tasks, size, download, licence, cached or not"
        console.print(facts_table("dataset", title, known))
        console.print(f"The folder is {root}.", highlight=False, soft_wrap=True)


def _fetch(dataset: Dataset) -> list[str]:
    """Fetch and verify a dataset; lines to print."""
    from tuneup.data import differing, files_of, is_cached, load_dataset

    fresh = not is_cached(dataset)
    folder = files_of(dataset)[0].parent
    if not (fresh and dataset.has_checksums):
        load_dataset(dataset.name)  # reading is how it is verified
    warnings = [
        f"[yellow]{words}: it is not the published file. It is used as it is; remove it and ask "
        "again to have that one.[/yellow]"
        for words in differing(dataset)
    ]
    return [*warnings, f"{dataset.name}: {dataset.size}, in {folder}"]


def facts_table(title: str, facts_title: str, facts: Mapping[str, Sequence[str]]) -> Table:
    """Names, with a line for every fact."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False, show_edge=False)
    found.add_column(title, no_wrap=True)
    found.add_column(facts_title)
    for name, lines in facts.items():
        found.add_row(f"[bold]{name}[/bold]", "\n".join(lines) + "\n")
    return found


def method_facts(method: Method) -> list[str]:
    """Summary, limits and grid of a method."""
    from tuneup.methods.base import ARCHITECTURES, TASKS

    lines = [f"{method.summary} ({method.reference})" if method.reference else method.summary]
    if method.tasks != TASKS:
        lines.append(f"for {' and '.join(method.tasks)}")
    if method.architectures != ARCHITECTURES:
        lines.append(f"with {', '.join(method.architectures)}")
    if method.needs_features:
        lines.append("needs node features")
    lines += [f"{name}: {', '.join(map(str, values))}" for name, values in method.grid.items()]
    return lines


def dataset_facts(dataset: Dataset, cached: bool) -> list[str]:
    """Tasks, size, download and licence of a dataset."""
    from rich.filesize import decimal

    size = decimal(dataset.download_size) if dataset.download_size else "size unknown"
    known = "checksum known" if dataset.has_checksums else "verified by its nodes and edges"
    return [
        " or ".join(task.replace("-", " ") for task in dataset.tasks),
        str(dataset.size),
        f"download: {size}, {known}",
        f"licence: {dataset.licence}; {'cached' if cached else 'not cached'}",
    ]
