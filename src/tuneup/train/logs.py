"""Callbacks that show or write down how training goes.

::

    train(model, task, stages, callback=both(JsonLines("log.jsonl"), ProgressBar()))
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tuneup.files import append, ensure_writable, write_atomic
from tuneup.runtime import require

from .result import Callback, Progress, TrainingRecord

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

LOG_FILE = "log.jsonl"
"""What commands call their log."""

_TENSORBOARD = "torch.utils.tensorboard"

Place = tuple[int, int]
"""Stage and epoch."""


def both(*callbacks: Callback | None) -> Callback:
    """One callback that calls all of these, in their order; ``None`` is left out."""
    wanted = [each for each in callbacks if each is not None]

    def call(progress: Progress) -> None:
        for each in wanted:
            each(progress)

    return call


class ProgressBar:
    """A bar for every stage, in terminals and notebooks; a context manager."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("stage {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(compact=True),
        )
        self._tasks: dict[int, int] = {}

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Show one epoch."""
        if progress.stage not in self._tasks:
            name = f"{progress.stage}/{progress.stages}"
            self._tasks[progress.stage] = self._bars.add_task(name, total=None, text="")
        text = f"loss {progress.loss:.4f}"
        if math.isfinite(progress.best):
            text += f", best {progress.metric} {progress.best:.4f}"
        self._bars.update(
            self._tasks[progress.stage],  # type: ignore[arg-type]
            completed=progress.epoch,
            total=progress.epoch if progress.stopped else progress.epochs,
            text=text,
        )


class JsonLines:
    """One JSON object per epoch, each written at once.

    Keys: ``time`` (UTC), ``stage`` and ``epoch`` (from 1), ``loss``, ``score`` (``null`` where the
    epoch was not validated), ``best`` so far, ``metric`` (what both are), ``lr``, ``seconds``, and
    ``stopped`` where a stage ends.

    An existing file is continued, as a resumed run is: lines of the current epoch and later ones
    are replaced, and half a line of a killed process is removed.

    Args:
        path: of the file; made at the first epoch.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._last: Place | None = None

    def __call__(self, progress: Progress) -> None:
        """Write one epoch."""
        place = (progress.stage, progress.epoch)
        if self._last is None or place <= self._last:
            ensure_writable(self.path.absolute().parent)
            before = [line for line in _lines(self.path) if _place_of(line) < place]
            write_atomic(self.path, "".join(before))
        append(self.path, _line(progress, datetime.now(UTC).isoformat(timespec="milliseconds")))
        self._last = place

    def complete(self, record: TrainingRecord) -> None:
        """Make it the log of a finished run.

        Added are epochs of a stage that was found in a store, of a log that was lost, and any that
        was saved a moment before its process died.  Their ``time`` is not known: ``null``.
        """
        there = {_place_of(line): line for line in _lines(self.path)}
        lines = []
        for progress in record.progress():
            line = there.get((progress.stage, progress.epoch), "null")
            same = _seen(line) == (progress.loss, progress.score)
            lines.append(line if same else _line(progress, None))
        ensure_writable(self.path.absolute().parent)
        write_atomic(self.path, "".join(lines))
        self._last = None


def _line(progress: Progress, time: str | None) -> str:
    values = {
        "time": time,
        "stage": progress.stage,
        "epoch": progress.epoch,
        "loss": progress.loss,
        "score": progress.score,
        "best": progress.best if math.isfinite(progress.best) else None,
        "metric": progress.metric,
        "lr": progress.lr,
        "seconds": round(progress.seconds, 6),
    }
    values |= {"stopped": progress.stopped} if progress.stopped else {}
    return json.dumps(values, allow_nan=False) + "\n"


def _lines(path: Path) -> list[str]:
    """The lines of a log; others, such as half of one, are left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            _place_of(line)
        except (ValueError, TypeError, KeyError):
            continue
        found.append(line + "\n")
    return found


def _place_of(line: str) -> Place:
    found = json.loads(line)
    return int(found["stage"]), int(found["epoch"])


def _seen(line: str) -> tuple[float | None, float | None]:
    """Loss and score of a line, as far as it has them."""
    found = json.loads(line) or {}
    return found.get("loss"), found.get("score")


class TensorBoard:
    """Loss, learning rate and validation score as event files that TensorBoard shows.

    A stage is a run of its own, in a folder of its own, so that the stages' curves lie over each
    other.  Epochs that a resumed or repeated run writes again replace the earlier ones.

    Args:
        folder: made if missing; pass the same to ``tensorboard --logdir``.
        names: of the stages' folders, where "stage-1", "stage-2" and so on do not say enough.
    """

    def __init__(self, folder: Path | str, names: Sequence[str] = ()) -> None:
        require(_TENSORBOARD, "tensorboard")  # fails now, not after an epoch, if it is missing
        self.folder = ensure_writable(folder)
        self.names = tuple(names)
        self._stage = 0
        self._writer: SummaryWriter | None = None

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, progress: Progress) -> None:
        """Write one epoch."""
        if self._writer is None or progress.stage != self._stage:
            self.close()
            self._stage = progress.stage
            named = progress.stage <= len(self.names)
            name = self.names[progress.stage - 1] if named else f"stage-{progress.stage}"
            writer = require(_TENSORBOARD, "tensorboard").SummaryWriter
            self._writer = writer(str(self.folder / name), purge_step=progress.epoch)
        assert self._writer is not None
        values = {
            "loss": progress.loss,
            "lr": progress.lr,
            f"validation {progress.metric}": progress.score,
        }
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, progress.epoch)
        self._writer.flush()
        if progress.stopped:
            self.close()

    def close(self) -> None:
        """Close the file that is open; a later epoch opens another."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
