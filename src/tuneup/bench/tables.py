"""The records of a dataset, task and architecture as a table in the paper's layout.

Rows are methods, columns settings.  A cell has our mean and standard deviation over training
seeds, the paper's number where it has one, the gain over Base, and a paired comparison with TuneUp
on the same nodes and seeds.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneup.evaluation import Gain, over_seeds, paired_gain, split_by_degree
from tuneup.methods.titles import ROWS
from tuneup.metrics import NodeScores
from tuneup.names import Architecture, TaskName

from .floors import floors_above
from .kept import Kept
from .paper import PaperTable, published_score
from .presets import TRIALS, USUAL, seeds_of, table_methods
from .records import OWN, RunRecord, goes_on_from, read_records
from .rows import Cell, Row
from .selection import Selection

SETTINGS = ("transductive", "inductive", "cold-30", "cold-60", "cold-90")
METRICS: Mapping[str, str] = {
    "node-classification": "accuracy",
    "link-prediction": "recall@50",
    "recommendation": "recall@50",
}


class Block:
    """The rows of one dataset, task and architecture.

    Args:
        results: folder of the records of the task (and preset).
        dataset: which graph.
        task: which task.
        architecture: which encoder.
        preset: whose schedules the records were made by.
        shown: a table of the paper: only its rows and columns.
    """

    def __init__(
        self,
        results: Path,
        dataset: str,
        task: TaskName,
        architecture: Architecture,
        preset: str = "short",
        shown: PaperTable | None = None,
    ) -> None:
        self.results, self.dataset, self.task = results, dataset, task
        self.architecture, self.preset, self.shown = architecture, preset, shown
        self._gains: dict[tuple[str, str, str, str], Gain | None] = {}
        self._groups: dict[tuple[str, str, str], dict[int, NodeScores]] = {}

    @cached_property
    def records(self) -> dict[str, list[RunRecord]]:
        """By method, in the order of their seeds: those of one choice of settings, Base's too.

        Runs of other variants are not the table's.
        """
        found: dict[str, list[RunRecord]] = defaultdict(list)
        for record in sorted(self._found, key=lambda record: record.seed):
            found[record.method].append(record)
        base = found.get("base", [])
        alike = {method: _alike(own, base) for method, own in found.items()}
        return {method: own for method, own in alike.items() if own}

    @cached_property
    def left_out(self) -> dict[str, int]:
        """Records by method that were made with other settings than those shown."""
        count = Counter(record.method for record in self._found)
        shown = {method: len(own) for method, own in self.records.items()}
        return {name: n - shown.get(name, 0) for name, n in count.items() if n > shown.get(name, 0)}

    @cached_property
    def _found(self) -> list[RunRecord]:
        """Records of whatever settings; names of architectures begin alike."""
        place = (self.dataset, self.architecture)
        return [
            record
            for record in read_records(self.results, f"{self.dataset}-{self.architecture}-")
            if (record.dataset, record.architecture) == place and not record.variant
        ]

    @property
    def name(self) -> str:
        """``dblp, link-prediction, gcn``, and the preset where it is the paper's."""
        return f"{self.dataset}, {self.task}, {self.architecture}{self._unusual_preset}"

    @property
    def short_name(self) -> str:
        """The same without its task, for pages that have a part for each."""
        return f"{self.dataset}, {self.architecture}{self._unusual_preset}"

    @property
    def _unusual_preset(self) -> str:
        return "" if self.preset == "short" else f", {self.preset} preset"

    @cached_property
    def seeds(self) -> Sequence[int]:
        """Training seeds of Base; without it, of the method that has the most."""
        found = {method: [run.seed for run in own] for method, own in self.records.items()}
        return found.get("base") or max(found.values(), key=len, default=[])

    def lacking(self, *methods: str) -> Sequence[int]:
        """Those of the seeds that one of the methods has no run of."""
        found = [{run.seed for run in self.records.get(method, ())} for method in methods]
        return [seed for seed in self.seeds if not all(seed in own for own in found)]

    @property
    def means_only(self) -> str:
        """``2 of 3``: TuneUp's runs without scores by node; empty where all have them."""
        mine = [row for row in self.rows if row.method == "tuneup" and row.means_only]
        return "".join(f"{len(row.means_only)} of {len(row.records)}" for row in mine)

    @property
    def above_base(self) -> str:
        """``popularity``: what needs no training and is better than Base; empty where nothing."""
        base = [record.settings["transductive"] for record in self.records.get("base", ())]
        if not base:
            return ""
        return " and ".join(floors_above(self.results, self.dataset, sum(base) / len(base)))

    @property
    def metric(self) -> str:
        """What the cells show, in %."""
        return METRICS[self.task]

    @property
    def settings(self) -> list[str]:
        """The columns."""
        found = next(iter(self.records.values()), [])
        columns = SETTINGS if self.shown is None else self.shown.settings.get(self.task, ())
        known = found[0].settings if found else ()
        return [name for name in SETTINGS if name in columns and name in known]

    @property
    def command(self) -> str:
        """What makes, or goes on with, these records."""
        return (
            f"tuneup bench run --task {self.task} --dataset {self.dataset} "
            f"--architecture {self.architecture}"
            + "".join(f" --method {name}" for name in self._unusual_methods)
            + (f" --preset {self.preset}" if self.preset != "short" else "")
            + "".join(f" --seed {seed}" for seed in self._unusual_seeds)
            + "".join(f" --trials {count}" for count in self._unusual_trials)
        )

    @property
    def _unusual_methods(self) -> list[str]:
        """The rows, where they are not all that a command without any would run."""
        return [] if self.architecture in USUAL else [row.method for row in self.rows]

    @property
    def _unusual_seeds(self) -> list[int]:
        """Base's, where they are not those that a command without any would run."""
        found = [record.seed for record in self.records.get("base", ())]
        return [] if found == list(seeds_of(self.task, self.preset)) else found

    @property
    def _unusual_trials(self) -> list[int]:
        """The number, where it is not what a command without it would choose by."""
        most = max((row.trials for row in self.rows), default=0)
        return [most] if most not in (0, TRIALS[self.task]) else []

    @cached_property
    def scores(self) -> dict[str, dict[str, dict[int, NodeScores]]]:
        """Per-node scores by method, setting and seed."""
        found: dict[str, dict[str, dict[int, NodeScores]]] = {}
        for method, records in self.records.items():
            by_setting: dict[str, dict[int, NodeScores]] = defaultdict(dict)
            for record in records:
                for name, scores in record.scores(self.results).items():
                    by_setting[name][record.seed] = scores
            found[method] = by_setting
        return found

    def gain(self, before: str, after: str, setting: str, group: str = "overall") -> Gain | None:
        """What ``after`` adds to ``before`` over the seeds that both have; worked out once.

        Of all nodes, or of the "tail" or "head".  Without its p-value, which takes as long as all
        else.
        """
        key = (before, after, setting, group)
        if key not in self._gains:
            runs = self._paired(*key)
            self._gains[key] = None if runs is None else paired_gain(*runs, flips=None)
        return self._gains[key]

    def p_value(self, before: str, after: str, setting: str) -> float | None:
        """The p-value of that gain by a sign-flip test over nodes."""
        runs = self._paired(before, after, setting)
        return None if runs is None else paired_gain(*runs).p_value

    def _paired(
        self, before: str, after: str, setting: str, group: str = "overall"
    ) -> tuple[list[NodeScores], list[NodeScores]] | None:
        """Scores of both, seed for seed; None where there is nothing to compare."""
        if before == after or before not in self.scores or after not in self.scores:
            return None
        one, other = (self._group(method, setting, group) for method in (before, after))
        common = sorted(one.keys() & other.keys())
        if not common:
            return None
        return [one[seed] for seed in common], [other[seed] for seed in common]

    def _group(self, method: str, setting: str, group: str) -> dict[int, NodeScores]:
        """A method's scores by seed, of all nodes or of some, which are taken apart once."""
        runs, key = self.scores[method][setting], (method, setting, group)
        if group == "overall":
            return runs
        if key not in self._groups:
            self._groups[key] = {seed: split_by_degree(run)[group] for seed, run in runs.items()}
        return self._groups[key]

    @cached_property
    def rows(self) -> list[Row]:
        """Methods that are compared, run or not, and all that were run, in the paper's order."""
        compared = table_methods(self.task, self.architecture)
        found = dict.fromkeys((*compared, *self.records, *self.left_out))
        order = sorted(found, key=lambda name: ROWS.index(name) if name in ROWS else len(ROWS))
        if self.shown is not None:
            order = [name for name in self.shown.methods if name in order]
        return [self._row(method) for method in order]

    def _row(self, method: str) -> Row:
        records = self.records.get(method, [])
        selection = self._selection(method, records)
        cells = {name: self._cell(method, records, name) for name in self.settings if records}
        left_out = self.left_out.get(method, 0)
        lacking = self.lacking(method)
        return Row(method, records, selection, cells, self.seeds, lacking, left_out)

    def _selection(self, method: str, records: Sequence[RunRecord]) -> Selection | None:
        """What the records were chosen by; a choice of other settings is not theirs."""
        path = Kept(self.results, self.dataset, self.architecture, {}).selection_file(method)
        if not records or not path.exists():
            return None
        found = Selection.read(path)
        config = dict(found.config)
        shared = found.chosen if method == "base" else config.pop("shared", {})
        kept = Kept(self.results, self.dataset, self.architecture, config)
        return found if kept.fits(records[0], shared, found.chosen) else None

    def _cell(self, method: str, records: Sequence[RunRecord], setting: str) -> Cell:
        return Cell(
            over_seeds([record.settings[setting] for record in records]),
            published_score(self.dataset, self.task, self.architecture, method, setting),
            lambda: self.gain("base", method, setting),
            lambda: self.gain(method, "tuneup", setting),
        )


def _alike(records: list[RunRecord], base: list[RunRecord]) -> list[RunRecord]:
    """The most numerous records of one choice of settings, if possible that of Base's first.

    Only those that go on from the runs of Base that the table shows.
    """
    runs = {record.seed: record for record in base}
    found = [
        record
        for record in records
        if record.seed not in runs or goes_on_from(record, runs[record.seed])
    ]
    if not found:
        return []

    def own(record: RunRecord) -> str:
        return json.dumps({} if record.method == "base" else record.chosen, sort_keys=True)

    usual = _most([json.dumps(_experiment(record), sort_keys=True) for record in base or found])
    mine = [record for record in found if _agree(_experiment(record), json.loads(usual))]
    return [record for record in mine if own(record) == _most(list(map(own, mine)))]


def _experiment(record: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in record.config.items() if name not in OWN}


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """In all that both say; a record from before something was noted says nothing against it."""
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def _most(texts: Sequence[str]) -> str:
    """The most frequent, the first of equals."""
    return Counter(texts).most_common(1)[0][0]
