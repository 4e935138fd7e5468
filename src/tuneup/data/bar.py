"""A progress bar for a download, on a terminal; elsewhere silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .fetch import Report


@contextmanager
def download_bar(title: str) -> Iterator[Report]:
    """A function to report bytes to, for as long as the block lasts."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield report
