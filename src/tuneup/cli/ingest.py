"""``tuneup ingest``: from tables of any size to a graph folder."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tuneup.tables import TableRequest

from .options import silent_stderr, takes_options

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tuneup.data.disk import Step

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PAIRS_ONLY = ("user", "item", "time", "by_time")
_TABLES_ONLY = ("labels", "ids_from", "weight")


def parse_memory(given: str | int) -> int:
    """Bytes of a text such as ``2GB``, ``512 MiB`` or ``1.5g``."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)i?b?\s*", str(given).lower())
    if found is None:
        raise typer.BadParameter(f"{given} is no amount of memory, such as 2GB or 512MB.")
    return int(float(found[1]) * _UNITS[found[2]])


@takes_options(TableRequest, without=[*_PAIRS_ONLY, *_TABLES_ONLY], required="edges")
def command(
    tables: TableRequest,
    out: Annotated[Path, typer.Option(metavar="GRAPH_FOLDER", help="Where the graph is written.")],
    memory: Annotated[
        int,
        typer.Option(
            parser=parse_memory,
            metavar="SIZE",
            help="Memory that may be used, such as 512MB or 8GB; what does not fit is sorted on "
            "the disk of --out.",
        ),
    ] = "2GB",  # type: ignore[assignment]
    half: Annotated[
        bool, typer.Option("--half", help="Store features as float16 instead of float32.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a graph that is there.")
    ] = False,
) -> None:
    """Write tables of any size as a graph folder, which is read without loading it.

    Edges and nodes are read in a stream and sorted on disk within --memory. The folder holds plain
    arrays (.npy), ids (Parquet) and a header (JSON) with checksums. It appears whole at the end; a
    run that was killed resumes if the same command is run again.

    Features are made as by `tuneup fit`: scaled by nodes that training knows, by a sample of them
    where there are more than memory allows.
    """
    from tuneup.workflow.ingest import ingest

    console = Console()
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    with _Steps(console) as steps, silent_stderr():
        folder = ingest(
            tables,
            out,
            memory=memory,
            dtype="float16" if half else "float32",
            overwrite=overwrite,
            on_step=steps,
            say=say,
        )
    say(repr(folder))
    header = folder.header
    if header.self_loops or header.duplicates:
        say(f"left out: {header.self_loops:,} self-loops, {header.duplicates:,} repeated edges")
    size = sum(info.bytes for info in header.arrays.values())
    say(f"saved {out}: {size / 1e9:,.3f} GB, checksum {folder.checksum[:16]}")


class _Steps:
    """Shows the step that is being done; on no terminal, a line for each step that is done."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars: Progress
        self.task: TaskID | None = None
        self.name = ""

    def __enter__(self) -> _Steps:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        hidden = not self.console.is_terminal
        self.bars = Progress(*columns, console=self.console, transient=True, disable=hidden)
        self.bars.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.__exit__(None, None, None)

    def __call__(self, step: Step) -> None:
        """Show progress."""
        if step.resumed:
            self.console.print(f"{step.name}: done before", highlight=False)
            return
        if step.name != self.name:
            self.name = step.name
            if self.task is not None:
                self.bars.remove_task(self.task)
            self.task = self.bars.add_task(step.name, total=None)
        assert self.task is not None
        self.bars.update(self.task, completed=step.done, total=step.total or None)
        if step.finished:
            self.console.print(f"{step.name}: {step.seconds:.1f} s", highlight=False)
