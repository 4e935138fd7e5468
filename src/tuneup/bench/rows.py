"""A method's row of a table, and a cell of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuneup.evaluation import Gain, MeanStd
from tuneup.methods import METHODS
from tuneup.methods.titles import title_of

from .paper import Published
from .records import RunRecord
from .selection import Selection


@dataclass(frozen=True)
class Cell:
    """A method in a setting.

    Gains are worked out when they are asked for: who needs scores alone need not wait for them.

    Args:
        score: over our seeds.
        paper: the paper's number for the same cell.
        find_over_base: works out :attr:`over_base`.
        find_under_tuneup: works out :attr:`under_tuneup`.
    """

    score: MeanStd
    paper: Published | None
    find_over_base: Callable[[], Gain | None]
    find_under_tuneup: Callable[[], Gain | None]

    @property
    def over_base(self) -> Gain | None:
        """What the method adds to Base."""
        return self.find_over_base()

    @property
    def under_tuneup(self) -> Gain | None:
        """What TuneUp adds to the method."""
        return self.find_under_tuneup()

    @property
    def verdict(self) -> str:
        """``<``: TuneUp is better, ``>``: the method is, by the paired interval; else nothing."""
        gain = self.under_tuneup
        if gain is None:
            return ""
        return "<" if gain.low > 0 else ">" if gain.high < 0 else ""


@dataclass(frozen=True)
class Row:
    """A method: how it was chosen, how its runs ended, and its cells by setting.

    ``lacking`` are those of the table's ``seeds`` that it has no run of.
    """

    method: str
    records: Sequence[RunRecord]
    selection: Selection | None
    cells: Mapping[str, Cell]
    seeds: Sequence[int]
    lacking: Sequence[int] = ()
    left_out: int = 0

    @property
    def title(self) -> str:
        """As the paper calls it."""
        return title_of(self.method)

    @property
    def label(self) -> str:
        """The title, and what differs where something was run."""
        said = self.deviation and (self.records or self.left_out)
        return f"{self.title} ({self.deviation})" if said else self.title

    @property
    def chosen(self) -> str:
        """``alpha 0.25``; a setting that the task does not read is no choice."""
        if not self.records:
            return ""
        record, method = self.records[0], METHODS.get(self.method)
        found = record.chosen
        unread = method.unread_of(found, record.task) if method else ()
        return ", ".join(f"{name} {value}" for name, value in found.items() if name not in unread)

    @property
    def trials(self) -> int:
        """Trainings that the settings were chosen by; 0 where there was nothing to choose."""
        if self.selection is not None:
            return self.selection.trainings
        return int(self.records[0].config.get("trials", 0)) if self.records else 0

    @property
    def means_only(self) -> Sequence[RunRecord]:
        """Runs of which only stage 2's means are recorded: intervals leave them out."""
        return [run for run in self.records if run.means_only]

    @property
    def tried(self) -> str:
        """``6 (4 of 15)``: trainings, how many points of the grid they show, and of how many."""
        if not self.records:
            return ""
        if self.selection is None or not self.selection.trials:
            return str(self.trials)
        shown = {json.dumps(trial.point, sort_keys=True) for trial in self.selection.trials}
        return f"{self.trials} ({len(shown)} of {self.selection.points})"

    @property
    def deviation(self) -> str:
        """What differs from what the table asks for."""
        if not self.records and not self.left_out:
            return "not run"
        count = len(self.seeds)
        parts = [f"{count - len(self.lacking)} of {count} seeds"] * bool(self.lacking)
        more = sum(run.seed not in self.seeds for run in self.records)
        parts += [f"{more} seed{'s' * (more > 1)} more"] * bool(more)
        parts += [f"{self.left_out} of other settings or Base left out"] if self.left_out else []
        return ", ".join(parts)
