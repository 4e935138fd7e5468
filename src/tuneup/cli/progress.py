"""What a training shows: a progress bar on a terminal, and the scores of its models at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from tuneup.report import RunSummary
    from tuneup.train import JsonLines
    from tuneup.train import Progress as Epoch
    from tuneup.train.result import Callback

TensorBoardOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Log for TensorBoard too, which is an extra to install."),
]

_BAR = 12
"""Least columns of the bar."""

_TIME = 5
"""Columns of the time left, as in 01:23."""


@contextmanager
def followed(
    console: Console, names: Sequence[str], log: JsonLines, tensorboard: Path | None
) -> Iterator[Callback]:
    """A callback that shows the training and writes it down.

    Args:
        console: to show it on.
        names: of the stages: Base, stage 2, and where alphas are tried stage 2 with each of them.
        log: of the epochs.
        tensorboard: folder of another log.
    """
    from tuneup.train import TensorBoard, both

    progress = TrainingProgress(console, names)
    with ExitStack() as stack:
        board = None
        if tensorboard is not None:
            folders = [_folder(k, name) for k, name in enumerate(names, 1)]
            board = stack.enter_context(TensorBoard(tensorboard, folders))
        stack.enter_context(progress.bars)
        yield both(progress, log, board)
    if not progress.tasks:
        console.print("Nothing was left to train: all of it is in the checkpoints.")


def _folder(number: int, name: str) -> str:
    """``stage-1``, and where alphas are tried ``stage-2-alpha-0.25``."""
    alpha = name.partition(", alpha ")[2]
    return f"stage-2-alpha-{alpha}" if alpha else f"stage-{number}"


class TrainingProgress:
    """A callback for :func:`tuneup.train.train` that shows it on a console.

    Where there is no terminal, it prints a line at the end of each stage and nothing else.
    """

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.console = console
        self.names = names
        self.seconds = 0.0
        self.tasks: dict[int, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=_TIME)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __call__(self, epoch: Epoch) -> None:
        """Show one epoch."""
        name = self.names[epoch.stage - 1]
        if epoch.stage not in self.tasks:
            self.seconds = 0.0
            self._say_resumed(epoch)
            self.tasks[epoch.stage] = self.bars.add_task(name, total=epoch.epochs, text="")
        self.seconds += epoch.seconds
        room = self.console.width - len(name) - _BAR - _TIME - 3  # 3: a space between columns
        text = next(text for text in _texts(epoch) if len(text) <= max(0, room))
        self.bars.update(self.tasks[epoch.stage], completed=epoch.epoch, text=text)
        if epoch.stopped:
            self._end(name, epoch)

    def _say_resumed(self, epoch: Epoch) -> None:
        """Say so if the first epoch of a stage, or the first stage, comes from a checkpoint."""
        if epoch.epoch > 1:
            place = f"epoch {epoch.epoch - 1} of {self.names[epoch.stage - 1]}"
        elif epoch.stage > 1 and not self.tasks:
            place = self.names[epoch.stage - 2]
        else:
            return
        self.console.print(f"resumed after {place}, from the checkpoints", highlight=False)

    def _end(self, name: str, epoch: Epoch) -> None:
        self.bars.remove_task(self.tasks[epoch.stage])
        self.console.print(
            f"[bold]{name}[/bold]: best validation {epoch.metric} {100 * epoch.best:.1f} %, "
            f"{epoch.epoch} epochs in {self.seconds:.0f} s ({epoch.stopped})",
            highlight=False,
        )
        if epoch.stage == epoch.stages:
            self.console.print("Scoring all models ...", highlight=False)


def _texts(epoch: Epoch) -> list[str]:
    """Texts beside the bar, for ever narrower terminals.

    The loss is left out first; then the epochs, which the bar shows too.
    """
    epochs = f"{epoch.epoch}/{epoch.epochs}"
    loss = f"loss {epoch.loss:.3f}"
    score = f"{100 * epoch.best:.1f} %" if epoch.best > float("-inf") else "-"
    best = f"best {epoch.metric} {score}"
    return [f"{epochs}  {loss}  {best}", f"{epochs}  {best}", best, score, ""]


def print_scores(console: Console, run: RunSummary) -> None:
    """Print the verdict, and the table that it is read off: every model in every setting."""
    from tuneup.report import models_table

    for line in run.verdict:
        console.print(line, highlight=False, markup=False)
    console.print()
    console.print(models_table(run.rows, run.measure, run.unit, run.tail_degree))
