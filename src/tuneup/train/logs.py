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

from .record import TrainingRecord
from .result import Callback, Progress

LOG_FILE = "log.jsonl"
"""What commands call their log."""

Place = tuple[int, int]
"""Stage and epoch."""


class JsonLines:
    """One JSON object per epoch, each written as soon as it is told.

    Keys: ``time`` (UTC), ``stage`` and ``epoch`` (from 1), ``loss``, ``score`` (``null`` where the
    epoch was not validated), ``best`` so far, ``metric`` (what both are), ``lr``, ``seconds``, and
    ``stopped`` where a stage ends.

    A file that is there is gone on with, as a resumed run does: what it holds from the told epoch
    on gives way, and so does what a killed process left of a line.  A run that begins anew begins
    its log anew.

    Args:
        path: of the file; made when the first epoch is told.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._last: Place | None = None

    def __call__(self, told: Progress) -> None:
        """Write one epoch."""
        place = (told.stage, told.epoch)
        if self._last is None or place <= self._last:
            ensure_writable(self.path.absolute().parent)
            before = [line for line in _lines(self.path) if _place_of(line) < place]
            write_atomic(self.path, "".join(before))
        append(self.path, _line(told, datetime.now(UTC).isoformat(timespec="milliseconds")))
        self._last = place

    def complete(self, record: TrainingRecord) -> None:
        """Make it the log of a finished run, whoever told what of it.

        Added are epochs of a stage that was taken over, of a log that was lost, and any that was
        saved a moment before its process died.  When they ran is not known: ``time`` is ``null``.
        """
        there = {_place_of(line): line for line in _lines(self.path)}
        lines = []
        for told in _retold(record):
            line = there.get((told.stage, told.epoch), "null")
            same = _seen(line) == (told.loss, told.score)
            lines.append(line if same else _line(told, None))
        ensure_writable(self.path.absolute().parent)
        write_atomic(self.path, "".join(lines))
        self._last = None


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
                metric=stage.metric or record.metric,
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
