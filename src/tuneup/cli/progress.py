"""Live progress on a terminal; elsewhere one line when a stage ends."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from tuneup.training import Progress as Told


class TrainingProgress:
    """A callback for :func:`tuneup.training.train`, and the context it draws in."""

    def __init__(self, console: Console, names: tuple[str, ...]) -> None:
        self.console = console
        self.names = names
        self.seconds = 0.0
        self.tasks: dict[int, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> TrainingProgress:
        self.bars.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.__exit__(kind, error, trace)

    def __call__(self, told: Told) -> None:
        """Show one epoch."""
        name = self.names[told.stage - 1]
        if told.stage not in self.tasks:
            self.seconds = 0.0
            self.tasks[told.stage] = self.bars.add_task(name, total=told.epochs, told="")
        self.seconds += told.seconds
        best = f"{100 * told.best:.1f} %" if told.best > float("-inf") else "-"
        text = f"loss {told.loss:.3f}  best {told.metric} {best}"
        self.bars.update(self.tasks[told.stage], completed=told.epoch, told=text)
        if told.stopped:
            self.bars.remove_task(self.tasks[told.stage])
            self.console.print(
                f"[bold]{name}[/bold]: best validation {told.metric} {100 * told.best:.1f} %, "
                f"{told.epoch} epochs in {self.seconds:.0f} s ({told.stopped})",
                highlight=False,
            )
