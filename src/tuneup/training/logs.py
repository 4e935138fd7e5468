"""Callbacks that write down how training goes, one JSON object a line.

::

    train(model, task, stages, callback=both(JsonLines("log.jsonl"), print))
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tuneup.files import append, ensure_writable, write_atomic

from .checkpoint import Checkpoints
from .record import TrainingRecord
from .result import Callback, Progress

LOG_FILE = "log.jsonl"
"""What commands call their log."""


class JsonLines:
    """One JSON object per epoch, each written as soon as it is told.

    Keys: ``time`` (UTC), ``stage`` and ``epoch`` (from 1), ``loss``, ``score`` (``null`` where the
    epoch was not validated), ``best`` so far, ``metric`` (what both are), ``lr``, ``seconds``, and
    ``stopped`` where a stage ends.

    Args:
        path: of the file; made when the first epoch is told.
        append: go on with a file that is there, as a resumed run does: epochs that it has are not
            written twice, and what a killed process left of a line is removed. Otherwise begin
            anew.
    """

    def __init__(self, path: Path | str, *, append: bool = True) -> None:
        self.path = Path(path)
        self.append = append
        self._told: set[tuple[int, int]] | None = None

    @classmethod
    def beside(cls, checkpoints: Checkpoints) -> JsonLines:
        """A log in the folder of checkpoints, continued if the run will be."""
        return cls(checkpoints.folder / LOG_FILE, append=checkpoints.manifest.exists())

    def __call__(self, told: Progress) -> None:
        """Write one epoch."""
        if self._told is None:
            self._told = self._begin()
        if (told.stage, told.epoch) not in self._told:
            append(self.path, _line(told, datetime.now(UTC).isoformat(timespec="milliseconds")))
            self._told.add((told.stage, told.epoch))

    def complete(self, record: TrainingRecord) -> None:
        """Add the epochs of a finished run that nobody told here, at their places.

        They are those of a stage that was taken over, of a log that was lost, and any that was
        saved a moment before its process died.  When they ran is not known: ``time`` is ``null``.
        """
        known = self._begin() if self._told is None else self._told
        missing = [t for t in _retold(record) if (t.stage, t.epoch) not in known]
        if missing:
            lines = [*_lines(self.path), *(_line(told, None) for told in missing)]
            write_atomic(self.path, "".join(sorted(lines, key=_epoch_of)))
            self._told = {_epoch_of(line) for line in lines}

    def _begin(self) -> set[tuple[int, int]]:
        """Make the file whole; which epochs it has."""
        ensure_writable(self.path.absolute().parent)
        if not self.append:
            self.path.unlink(missing_ok=True)
        lines = _lines(self.path)
        whole = "".join(lines).encode()
        if self.path.exists() and whole != self.path.read_bytes():
            write_atomic(self.path, whole)
        return {_epoch_of(line) for line in lines}


def _line(told: Progress, time: str | None) -> str:
    values = {
        "time": time,
        "stage": told.stage,
        "epoch": told.epoch,
        "loss": told.loss,
        "score": told.score,
        "best": told.best if math.isfinite(told.best) else None,
        "metric": told.metric,
        "lr": told.lr,
        "seconds": round(told.seconds, 6),
    }
    values |= {"stopped": told.stopped} if told.stopped else {}
    return json.dumps(values, allow_nan=False) + "\n"


def _lines(path: Path) -> list[str]:
    """What is a line of a log in a file, without what is not, such as half of one."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            _epoch_of(line)
        except (ValueError, TypeError, KeyError):
            continue
        found.append(line + "\n")
    return found


def _epoch_of(line: str) -> tuple[int, int]:
    found = json.loads(line)
    return int(found["stage"]), int(found["epoch"])


def _retold(record: TrainingRecord) -> Iterator[Progress]:
    """All epochs of a run, as they were told."""
    for stage in record.stages:
        best = -math.inf
        for epoch in stage.epochs:
            best = best if epoch.score is None else max(best, epoch.score)
            last = epoch is stage.epochs[-1]
            yield Progress(
                stage=stage.stage + 1,
                stages=len(record.stages),
                epoch=epoch.epoch,
                epochs=len(stage.epochs),
                loss=epoch.loss,
                score=epoch.score,
                best=best,
                seconds=epoch.seconds,
                metric=record.metric,
                stopped=stage.stopped if last else "",
                lr=epoch.lr,
            )


def both(*callbacks: Callback | None) -> Callback:
    """One callback that tells all of these, in their order; ``None`` is left out."""
    wanted = [each for each in callbacks if each is not None]

    def tell(told: Progress) -> None:
        for each in wanted:
            each(told)

    return tell
