"""Live progress on a terminal, and silence elsewhere: only what each stage came to is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

if TYPE_CHECKING:
    from tuneup.train import JsonLines
    from tuneup.train import Progress as Told
    from tuneup.train.result import Callback

TensorBoardOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Log for TensorBoard too, which is an extra to install."),
]

_BAR = 12
"""Columns that the bar keeps, however much there is to tell."""

_TIME = 5
"""Columns of the time left, as in 01:23."""


@contextmanager
def followed(
    console: Console, names: tuple[str, ...], log: JsonLines, tensorboard: Path | None
) -> Iterator[Callback]:
    """A callback that shows the training and writes it down."""
    from tuneup.train import TensorBoard, both

    with ExitStack() as stack:
        board = None
        if tensorboard is not None:
            board = stack.enter_context(TensorBoard(tensorboard, _folders(names)))
        yield both(stack.enter_context(TrainingProgress(console, names)), log, board)


def _folders(names: tuple[str, ...]) -> list[str]:
    """``stage-1``, and where alphas are tried ``stage-2-alpha-0.25``."""
    found = []
    for name in names:
        stage, _, what = name.lower().replace(" ", "-").partition(",-")
        found.append(f"{stage}-{what}" if what.startswith("alpha") else stage)
    return found


class TrainingProgress:
    """A callback for :func:`tuneup.train.train`, and the context it draws in."""

    def __init__(self, console: Console, names: tuple[str, ...]) -> None:
        self.console = console
        self.names = names
        self.seconds = 0.0
        self.tasks: dict[int, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=_TIME)),
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
        if kind is None and not self.tasks:
            self.console.print("Nothing was left to train: all of it is in the checkpoints.")

    def __call__(self, told: Told) -> None:
        """Show one epoch."""
        name = self.names[told.stage - 1]
        if told.stage not in self.tasks:
            self.seconds = 0.0
            self._resumed(told)
            self.tasks[told.stage] = self.bars.add_task(name, total=told.epochs, told="")
        self.seconds += told.seconds
        room = self.console.width - len(name) - _BAR - _TIME - 3  # 3: a space between columns
        text = next(text for text in _texts(told) if len(text) <= max(0, room))
        self.bars.update(self.tasks[told.stage], completed=told.epoch, told=text)
        if told.stopped:
            self._end(name, told)

    def _resumed(self, told: Told) -> None:
        """Say so where the first that is told of a stage is not its beginning, or not the first."""
        if told.epoch > 1:
            place = f"epoch {told.epoch - 1} of stage {told.stage}"
        elif told.stage > 1 and not self.tasks:
            place = f"stage {told.stage - 1}"
        else:
            return
        self.console.print(f"resumed after {place}, from the checkpoints", highlight=False)

    def _end(self, name: str, told: Told) -> None:
        self.bars.remove_task(self.tasks[told.stage])
        self.console.print(
            f"[bold]{name}[/bold]: best validation {told.metric} {100 * told.best:.1f} %, "
            f"{told.epoch} epochs in {self.seconds:.0f} s ({told.stopped})",
            highlight=False,
        )
        if told.stage == told.stages:
            self.console.print("Scoring both models ...", highlight=False)


def _texts(told: Told) -> list[str]:
    """What there is to tell, from all of it down to nothing, for ever narrower terminals.

    The loss goes first; then the epochs, which the bar shows too.
    """
    epochs = f"{told.epoch}/{told.epochs}"
    loss = f"loss {told.loss:.3f}"
    score = f"{100 * told.best:.1f} %" if told.best > float("-inf") else "-"
    best = f"best {told.metric} {score}"
    return [f"{epochs}  {loss}  {best}", f"{epochs}  {best}", best, score, ""]
