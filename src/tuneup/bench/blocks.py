"""Which tables there are records for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from tuneup.errors import InputError

from .paper import PaperTable, paper_table
from .presets import PresetName, check_request, folder_of
from .records import read_records
from .tables import METRICS, Block


def blocks(
    results: Path, preset: str = "short", shown: PaperTable | None = None
) -> Iterator[Block]:
    """Every block of a preset that has a record, node classification first."""
    for task in METRICS:
        folder = folder_of(results, task, preset)
        known = {
            (record.dataset, record.architecture)
            for record in (read_records(folder) if folder.exists() else [])
            if not record.variant
        }
        for dataset, architecture in sorted(known):
            yield Block(
                folder,
                dataset,
                task,  # type: ignore[arg-type]
                architecture,  # type: ignore[arg-type]
                preset=preset,
                shown=shown,
            )


def chosen_blocks(
    results: Path,
    table: str | None = None,
    datasets: Sequence[str] = (),
    task: str | None = None,
    architectures: Sequence[str] = (),
    preset: str = "short",
) -> list[Block]:
    """The recorded blocks that are asked for; what is not named is everything.

    A table's rows and columns are shown of whatever graphs are recorded.
    """
    datasets = check_request(datasets, task, architectures, preset)
    shown = paper_table(table) if table is not None else None
    found = [
        block
        for block in blocks(results, preset, shown)
        if (not datasets or block.dataset in datasets)
        and task in (None, block.task)
        and (not architectures or block.architecture in architectures)
        and (shown is None or (block.task, block.architecture) in shown.blocks)
    ]
    if not found:
        there = dict.fromkeys(f"{b.dataset} ({b.task})" for b in blocks(results, preset))
        has = f"it has {', '.join(there)}" if there else "it has none at all"
        raise InputError(
            f"{results.absolute()} has no record of that by preset {preset}, {has}; name another "
            "folder with --results, or make them with tuneup bench run."
        )
    return found


def every_block(results: Path) -> list[Block]:
    """All that is recorded, of either preset."""
    found = [block for preset in get_args(PresetName) for block in blocks(results, preset)]
    if not found:
        raise InputError(
            f"{results.absolute()} has no records; name another folder with --results, or make "
            "them with tuneup bench run."
        )
    return found
