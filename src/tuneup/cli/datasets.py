"""``tuneup datasets``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console


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
    from tuneup.bench.catalogue import datasets_table
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
