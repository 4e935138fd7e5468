"""The memory of one run among the many of a process."""

from __future__ import annotations

import json
from pathlib import Path

from tuneup.files import write_atomic
from tuneup.runtime import forget_peak_rss, peak_rss
from tuneup.train import Progress


class PeakMemory:
    """The largest resident memory while a run is trained, kept beside its checkpoints.

    A callback of the training: a run that is only looked up tells nothing of what it took.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "memory.json"
        self._known = forget_peak_rss()
        self._trained = False

    def __call__(self, told: Progress) -> None:
        """An epoch was trained; what it took is written down where it was validated."""
        self._trained = True
        if told.score is not None:
            self.keep()

    def keep(self) -> int | None:
        """The run's peak in bytes, of all its parts if it was stopped; None if it is not known."""
        before = json.loads(self._file.read_text())["peak_rss"] if self._file.exists() else None
        if not self._trained or not self._known:
            return None if before is None else int(before)
        peak = max(peak_rss(), before or 0)
        if peak != before:
            write_atomic(self._file, json.dumps({"peak_rss": peak}))
        return peak
