"""Trials of a choice that is not made yet, a file each among the results.

Checkpoints and studies may be gone by the time that a suite goes on, on another machine perhaps,
and a trial takes as long as a run.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuneup.errors import InputError
from tuneup.files import write_atomic

from .selection import Planned, Trial


@dataclass(frozen=True)
class TrialFiles:
    """The trials of one method that are on disk.

    Args:
        folder: where they are.
        name: of the dataset, architecture and method.
        decisive: what else a trial depends on.  The code's version is not part of it, as it is not
            of records.
        beginnings: by seed, the validation of the run of Base that its trials go on from.  Trials
            of other seeds are neither kept nor taken over: nothing tells what they go on from.
    """

    folder: Path
    name: str
    decisive: Mapping[str, Any]
    beginnings: Mapping[int, Any]

    def get(self, planned: Planned) -> Trial | None:
        """A trial that was made before."""
        path = self._path(planned)
        if path is None:
            return None
        try:
            return Trial(**json.loads(path.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path} is not a record of a trial ({error!r}); remove it, and the trial is made "
                "again."
            ) from error

    def put(self, trial: Trial) -> None:
        """Write a trial down."""
        path = self._path(Planned(trial.point, trial.seed))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(asdict(trial), indent=1) + "\n")

    def remove(self, planned: Planned) -> None:
        """Of a choice that is made: its own file has the trials."""
        path = self._path(planned)
        if path is not None:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all, whatever they were made for."""
        for path in self.folder.glob(f"{self.name}-{'?' * 8}.json"):
            path.unlink(missing_ok=True)

    def mark(self, planned: Planned) -> str | None:
        """Of all that decides a trial; None where it is not known what it goes on from."""
        if planned.seed not in self.beginnings:
            return None
        told = {**self.decisive, **asdict(planned), "beginning": self.beginnings[planned.seed]}
        return f"{zlib.crc32(json.dumps(told, sort_keys=True).encode()):08x}"

    def _path(self, planned: Planned) -> Path | None:
        mark = self.mark(planned)
        return None if mark is None else self.folder / f"{self.name}-{mark}.json"
