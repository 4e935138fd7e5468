"""What the results folder holds of one dataset, task and architecture: records, choices, trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .records import RunRecord, record_name
from .selection import Point, Selection
from .trial_files import TrialFiles


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
        """The name of a record's files, without their endings."""
        return record_name(self.dataset, self.architecture, method, seed)

    def has(self, method: str, seed: int) -> bool:
        """Whether a record is there with its scores, of whatever choice."""
        name = self.name(method, seed)
        return all((self.results / f"{name}{end}").exists() for end in (".json", ".parquet"))

    def record(self, method: str, seed: int) -> RunRecord | None:
        """A run's record, of whatever choice; none where its scores are gone."""
        if not self.has(method, seed):
            return None
        try:
            return RunRecord.read(self.results / f"{self.name(method, seed)}.json")
        except (FileNotFoundError, NotADirectoryError):
            return None

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
        """The file of a method's choice."""
        name = f"{self.dataset}-{self.architecture}-{method}"
        return self.results / "selection" / f"{name}.json"

    def selection(self, method: str) -> Selection | None:
        """What was chosen before, for the same experiment."""
        path = self.selection_file(method)
        found = Selection.read(path) if path.exists() else None
        return found if found is not None and found.config and self._is_same(found.config) else None

    def trials(self, method: str, shared: Point, beginnings: Mapping[int, Any]) -> TrialFiles:
        """Trials of a method's choice, until it is made."""
        decisive = {"config": self.config, "shared": shared}
        name = f"{self.dataset}-{self.architecture}-{method}"
        return TrialFiles(self.results / "trials", name, decisive, beginnings)

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
