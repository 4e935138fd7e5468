"""What the results folder holds of one dataset, task and architecture.

Records, choices, and the trials of choices that are not made yet: checkpoints may be gone by the
time that a suite goes on, on another machine perhaps, and a trial takes as long as a run.
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

from .records import RunRecord, record_name
from .selection import Planned, Point, Selection, Trial


@dataclass(frozen=True)
class Kept:
    """Records, a file a run; choices, a file a method in ``selection/``; trials in ``trials/``.

    Args:
        results: the folder.
        dataset: as files are named by it.
        architecture: likewise.
        config: what else a record should say; one that says otherwise is of another experiment.
    """

    results: Path
    dataset: str
    architecture: str
    config: Mapping[str, Any]

    def name(self, method: str, seed: int) -> str:
        """Of a record's files, without their endings."""
        return record_name(self.dataset, self.architecture, method, seed)

    def has(self, method: str, seed: int) -> bool:
        """Whether a record is there, of whatever choice."""
        return (self.results / f"{self.name(method, seed)}.json").exists()

    def record(self, method: str, seed: int) -> RunRecord | None:
        """A run's record, of whatever choice."""
        if not self.has(method, seed):
            return None
        return RunRecord.read(self.results / f"{self.name(method, seed)}.json")

    def fits(self, record: RunRecord, shared: Point, point: Point) -> bool:
        """Whether a record was made with these settings."""
        config = record.config
        own = {} if record.method == "base" else {**config, **config.get("chosen", {})}
        wanted = {} if record.method == "base" else point
        return (
            self._is_same(config)
            and all(config.get(name) == value for name, value in shared.items())
            and all(own.get(name) == value for name, value in wanted.items())
        )

    def selection_file(self, method: str) -> Path:
        """Of a method's choice."""
        name = f"{self.dataset}-{self.architecture}-{method}"
        return self.results / "selection" / f"{name}.json"

    def selection(self, method: str) -> Selection | None:
        """What was chosen before, for the same experiment."""
        path = self.selection_file(method)
        found = Selection.read(path) if path.exists() else None
        return found if found is not None and found.config and self._is_same(found.config) else None

    def trial(self, method: str, planned: Planned, shared: Point) -> Trial | None:
        """A trial that was made before, for the same experiment and from the same run of Base."""
        path = self._trial_file(method, planned, shared)
        if not path.exists():
            return None
        try:
            return Trial(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} is not a record of a trial ({error!r}).") from error

    def keep_trial(self, method: str, trial: Trial, shared: Point) -> None:
        """Write a trial down, until the choice is made that it is for."""
        path = self._trial_file(method, Planned(trial.point, trial.seed), shared)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(trial), indent=1) + "\n")

    def forget_trials(self, method: str) -> None:
        """Remove those of a choice that is made, or is to be made anew."""
        name = f"{self.dataset}-{self.architecture}-{method}"
        for path in self._trials.glob(f"{name}-{'?' * 8}.json"):
            path.unlink(missing_ok=True)  # another process may be at the same

    @property
    def _trials(self) -> Path:
        return self.results / "trials"

    def _trial_file(self, method: str, planned: Planned, shared: Point) -> Path:
        """What decides a trial is part of its name."""
        base = None if method == "base" else self.record("base", planned.seed)
        decisive = {
            "config": self.config,
            "shared": shared,
            "point": planned.point,
            "seed": planned.seed,
            "base": None if base is None else base.curve,
        }
        mark = zlib.crc32(json.dumps(decisive, sort_keys=True).encode())
        return self._trials / f"{self.dataset}-{self.architecture}-{method}-{mark:08x}.json"

    def forget(self, method: str, seed: int) -> None:
        """Remove a record."""
        for suffix in (".json", ".parquet"):  # a record that exists is complete: it goes first
            (self.results / f"{self.name(method, seed)}{suffix}").unlink(missing_ok=True)

    def _is_same(self, recorded: Mapping[str, Any]) -> bool:
        """Whether what a file says of an experiment is what the experiment is now.

        A file from before something was noted says nothing against it.
        """
        now = json.loads(json.dumps(self.config))
        return all(now[name] == value for name, value in recorded.items() if name in now)
