"""Pivots of the store: the methods of one graph, task and architecture by setting.

A :class:`Block` is ours, a :class:`PaperBlock` the paper's; both know means, deviations and gains.
:func:`find_blocks` makes the blocks of a store, :func:`long_table` one row a cell of them.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import polars as pl

from tuneup.evaluation import Gain, over_seeds, paired_gain, split_by_degree
from tuneup.methods import METHODS, ROWS, in_order, title_of
from tuneup.metrics import NodeScores

from .paper import PaperTable, published
from .presets import TRIALS, USUAL, grid_size, seeds_of, table_methods
from .store import Run, Store

SETTINGS = ("transductive", "inductive", "cold-30", "cold-60", "cold-90")
METRICS: Mapping[str, str] = {
    "node-classification": "accuracy",
    "link-prediction": "recall@50",
    "recommendation": "recall@50",
}
FLOOR = "none"
"""Architecture of what is not trained: it has rows in the store, and none in a table."""


class Place(NamedTuple):
    """What a block is of."""

    study: str
    task: str
    dataset: str
    architecture: str
    preset: str


@dataclass(frozen=True)
class Score:
    """A cell: mean and deviation over seeds, or the paper's text where it has no number."""

    mean: float
    std: float = math.nan
    seeds: int = 5
    text: str = ""


class PaperGain(NamedTuple):
    """The difference of two published means; the paper has no intervals."""

    absolute: float
    relative: float


class Block:
    """Our runs of one place, those of one choice of settings.

    Args:
        store: where the scores are.
        place: study, task, dataset, architecture and preset.
        found: all runs and trials of the place.
        shown: a table of the paper, for its rows and columns alone.
    """

    whose = "ours"

    def __init__(
        self, store: Store, place: Place, found: Sequence[Run], shown: PaperTable | None = None
    ) -> None:
        self.store, self.place, self.found, self.shown = store, place, found, shown
        self.study, self.task, self.dataset, self.architecture, self.preset = place
        self._gains: dict[tuple[str, str, str, str], Gain | None] = {}

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """By method, in the order of seeds: those with the most frequent settings, Base's first."""
        scored: dict[str, list[Run]] = defaultdict(list)
        for run in sorted(self.found, key=lambda run: run.seed):
            if run.means and run.architecture != FLOOR:
                scored[run.method].append(run)
        usual = _most(scored.get("base") or [run for own in scored.values() for run in own])
        alike = {
            method: [run for run in own if _setting(run) == usual] for method, own in scored.items()
        }
        return {
            method: [run for run in own if run.point == _point_of(own)]
            for method, own in alike.items()
            if own
        }

    def trials(self, method: str) -> list[Run]:
        """Those that the method's settings were chosen by."""
        own = self.runs.get(method)
        mine = [run for run in self.found if run.trial and run.method == method]
        if own and method != "base":
            mine = [run for run in mine if _setting(run) == _setting(own[0])]
        return mine

    @property
    def methods(self) -> list[str]:
        """Rows: methods that are compared, run or not, and all that were run."""
        compared = table_methods(self.task, self.architecture) if self.study == "paper" else []
        run = {run.method for run in self.found if run.architecture != FLOOR}
        rows = in_order({*compared, *run})
        if self.shown is None:
            return [*rows]
        return [name for name in self.shown.methods if name in rows]

    @property
    def settings(self) -> list[str]:
        """Columns."""
        known = list(dict.fromkeys(s for own in self.runs.values() for s in own[0].means))
        columns = known if self.shown is None else self.shown.settings.get(self.task, ())
        order = {name: k for k, name in enumerate(SETTINGS)}
        return sorted((s for s in known if s in columns), key=lambda s: order.get(s, len(order)))

    @property
    def metric(self) -> str:
        """Of the cells."""
        return METRICS[self.task]

    @property
    def short_name(self) -> str:
        """``dblp, gcn``, and the preset where it is not the usual one."""
        usual = self.study == "paper" and self.preset == "short"
        return f"{self.dataset}, {self.architecture}" + ("" if usual else f", {self.preset}")

    @property
    def name(self) -> str:
        """``dblp, link-prediction, gcn``."""
        return self.short_name.replace(",", f", {self.task},", 1)

    @property
    def seeds(self) -> list[int]:
        """Training seeds of Base; without it, of the method that has the most."""
        found = {method: [run.seed for run in own] for method, own in self.runs.items()}
        return found.get("base") or max(found.values(), key=len, default=[])

    def lacking(self, *methods: str) -> list[int]:
        """Those of the seeds that one of the methods was not run with."""
        found = [{run.seed for run in self.runs.get(method, ())} for method in methods]
        return [seed for seed in self.seeds if not all(seed in own for own in found)]

    def deviation(self, method: str) -> str:
        """``2 of 3 seeds`` or ``not run``; empty where the row is complete."""
        if method not in self.runs:
            return "not run"
        lacking = len(self.lacking(method))
        return f"{len(self.seeds) - lacking} of {len(self.seeds)} seeds" if lacking else ""

    def chosen(self, method: str) -> str:
        """``alpha 0.25``."""
        own = self.runs.get(method, [])
        if not own:
            return ""
        point = own[0].shared if method == "base" else own[0].point
        known = METHODS.get(method)
        unread = known.unread_of(point, self.task) if known and method != "base" else ()  # type: ignore[arg-type]
        order = [*known.grid] if known else []
        names = sorted(point, key=lambda name: order.index(name) if name in order else len(order))
        return ", ".join(f"{name} {point[name]}" for name in names if name not in unread)

    def tried(self, method: str) -> str:
        """``6 (4 of 15)``: trials, the points of the grid that they show, and of how many."""
        trials = self.trials(method)
        if not trials:
            return "0" if method in self.runs else ""
        shown = {json.dumps([t.shared, t.point], sort_keys=True) for t in trials}
        place = (method, self.task, self.architecture, self.preset)
        size = grid_size(*place) if method in METHODS else len(shown)
        return f"{len(trials)} ({len(shown)} of {size})"

    def score(self, method: str, setting: str) -> Score | None:
        """A cell."""
        means = [run.means[setting] for run in self.runs.get(method, ()) if setting in run.means]
        if not means:
            return None
        found = over_seeds(means)
        return Score(found.mean, found.std, found.seeds)

    @cached_property
    def floors(self) -> dict[str, Mapping[str, float]]:
        """Means of what needs no training, by name and setting."""
        return {run.method: run.means for run in self.found if run.architecture == FLOOR}

    @cached_property
    def scores(self) -> dict[str, dict[str, dict[int, NodeScores]]]:
        """Scores by node: by method, setting and seed."""
        known = {run.id: run for own in self.runs.values() for run in own}
        found: dict[str, dict[str, dict[int, NodeScores]]] = {}
        for key, by_setting in self.store.scores(known.values()).items():
            for setting, scores in by_setting.items():
                own = found.setdefault(known[key].method, {}).setdefault(setting, {})
                own[known[key].seed] = scores
        return found

    def means_only(self, method: str) -> int:
        """Runs without scores by node, which intervals leave out."""
        scored = self.scores.get(method, {})
        known = {seed for own in scored.values() for seed in own}
        return sum(run.seed not in known for run in self.runs.get(method, ()))

    def gain(self, before: str, after: str, setting: str, group: str = "overall") -> Gain | None:
        """What ``after`` adds to ``before`` over common seeds, with its interval.

        Of all nodes, or of the "tail" or "head".  The p-value takes longer: see :meth:`p_value`.
        """
        key = (before, after, setting, group)
        if key not in self._gains:
            pair = self._paired(*key)
            self._gains[key] = paired_gain(*pair, flips=None) if pair else None
        return self._gains[key]

    def p_value(self, before: str, after: str, setting: str) -> float | None:
        """Of that gain, by a sign-flip test over nodes."""
        pair = self._paired(before, after, setting)
        return paired_gain(*pair).p_value if pair else None

    def _paired(
        self, before: str, after: str, setting: str, group: str = "overall"
    ) -> tuple[list[NodeScores], list[NodeScores]] | None:
        one, other = (self.scores.get(m, {}).get(setting, {}) for m in (before, after))
        common = sorted(one.keys() & other.keys())
        if before == after or not common:
            return None
        if group != "overall":
            one, other = (
                {seed: split_by_degree(own[seed])[group] for seed in common} for own in (one, other)
            )
        return [one[seed] for seed in common], [other[seed] for seed in common]

    @property
    def command(self) -> str:
        """What makes these runs, or the rest of them."""
        words = [f"tuneup bench run --task {self.task} --dataset {self.dataset}"]
        words += [f"--architecture {self.architecture}"]
        words += [f"--study {self.study}"] * (self.study != "paper")
        if self.study == "paper":
            usual = self.architecture in USUAL
            words += [] if usual else [f"--method {name}" for name in self.methods]
            words += [f"--preset {self.preset}"] * (self.preset != "short")
            words += self._unusual_numbers()
        return " ".join(words)

    def _unusual_numbers(self) -> list[str]:
        """Seeds and trials that the command would not take by itself."""
        usual = list(seeds_of(self.task, self.preset))
        words = [f"--seed {seed}" for seed in self.seeds if self.seeds != usual]
        most = max((len(self.trials(m)) for m in self.methods if m != "base"), default=0)
        extra = most and most < TRIALS[self.task]  # more are points that share a training
        return words + [f"--trials {most}"] * bool(extra)


class PaperBlock:
    """The paper's numbers of one dataset, task and architecture."""

    whose = "paper"
    preset = "paper"

    def __init__(
        self, task: str, dataset: str, architecture: str, shown: PaperTable | None = None
    ) -> None:
        self.task, self.dataset, self.architecture = task, dataset, architecture
        own = _paper_cells().get((task, dataset, architecture), {})
        rows = ROWS if shown is None else shown.methods
        columns = SETTINGS if shown is None else shown.settings[task]
        self._cells = {k: v for k, v in own.items() if k[0] in rows and k[1] in columns}
        self.methods = [name for name in rows if any(m == name for m, _ in self._cells)]
        self.settings = [name for name in columns if any(s == name for _, s in self._cells)]
        self.metric = METRICS[task]

    @property
    def short_name(self) -> str:
        """``ogbn-arxiv, gcn``."""
        return f"{self.dataset}, {self.architecture}"

    @property
    def name(self) -> str:
        """``ogbn-arxiv, node-classification, gcn``."""
        return f"{self.dataset}, {self.task}, {self.architecture}"

    def score(self, method: str, setting: str) -> Score | None:
        """A cell."""
        return self._cells.get((method, setting))

    def gain(self, before: str, after: str, setting: str) -> PaperGain | None:
        """The difference of two means, where the paper has both."""
        one, other = self.score(before, setting), self.score(after, setting)
        if one is None or other is None or one.text or other.text:
            return None
        return PaperGain(other.mean - one.mean, other.mean / one.mean - 1)

    def lacking(self, *methods: str) -> Sequence[int]:
        """No seeds: the paper has five of whatever it has."""
        return ()


@cache
def _paper_cells() -> dict[tuple[str, str, str], dict[tuple[str, str], Score]]:
    """By block, method and setting; of the first table that has the cell."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], Score]] = {}
    for row in published().iter_rows(named=True):
        own = found.setdefault((row["task"], row["dataset"], row["architecture"]), {})
        mean, std = (math.nan if row[n] is None else row[n] for n in ("mean", "std"))
        own.setdefault((row["method"], row["setting"]), Score(mean, std, text=row["text"] or ""))
    return found


def find_blocks(
    store: Store,
    table: PaperTable | None = None,
    *,
    datasets: Sequence[str] = (),
    task: str | None = None,
    architectures: Sequence[str] = (),
    preset: str | None = "short",
    study: str = "paper",
) -> list[Block]:
    """The blocks of a store that are asked for; what is not named is everything."""
    by_place: dict[Place, list[Run]] = defaultdict(list)
    for run in store.runs(study=study):
        by_place[Place(*run.place)].append(run)
    tasks = list(METRICS)
    blocks = []
    for place in sorted(by_place, key=lambda p: (tasks.index(p.task), p[2:])):
        runs = by_place[place]
        wanted = (
            place.architecture != FLOOR
            and (not datasets or place.dataset in datasets)
            and task in (None, place.task)
            and (not architectures or place.architecture in architectures)
            and (preset is None or study != "paper" or place.preset == preset)
            and (table is None or (place.task, place.architecture) in table.blocks)
            and any(run.means for run in runs)
        )
        if wanted:
            floors = by_place.get(place._replace(architecture=FLOOR), [])
            blocks.append(Block(store, place, [*runs, *floors], table))
    return blocks


def paper_blocks(
    kinds: Iterable[tuple[str, str]],
    table: PaperTable | None = None,
    datasets: Sequence[str] = (),
    without: Iterable[Block] = (),
) -> list[PaperBlock]:
    """The paper's blocks of these tasks and architectures, perhaps ``without`` our graphs."""
    mine = {(block.task, block.dataset, block.architecture) for block in without}
    return [
        block
        for task, architecture in dict.fromkeys(kinds)
        for place in _paper_cells()
        if (place[0], place[2]) == (task, architecture)
        and place not in mine
        and (not datasets or place[1] in datasets)
        and (table is None or place[1] in table.datasets)
        and (block := PaperBlock(*place, table)).methods
    ]


def long_table(blocks: Sequence[Block | PaperBlock], tested: bool = False) -> pl.DataFrame:
    """One row a cell: mean, deviation, the paper's number, and paired gains with intervals.

    Args:
        blocks: ours and the paper's.
        tested: with p-values, which takes some seconds a cell.
    """
    numbers = [f"tuneup_minus_this{end}" for end in ("", "_low", "_high", "_p_over_nodes")]
    numbers += ["gain_over_base", "gain_low", "gain_high", "relative_gain_over_base"]
    text = ("whose", "study", "task", "dataset", "architecture", "preset", "method", "setting")
    schema: dict[str, Any] = {
        **dict.fromkeys((*text, "metric"), pl.String),
        **dict.fromkeys(("mean", "std"), pl.Float64),
        "seeds": pl.Int64,
        **dict.fromkeys(("chosen", "trials", "paper_text"), pl.String),
        **dict.fromkeys(("paper_mean", "paper_std", *numbers), pl.Float64),
    }
    return pl.DataFrame([row for b in blocks for row in _cells(b, tested)], schema=schema)


def _cells(block: Block | PaperBlock, tested: bool) -> Iterator[dict[str, Any]]:
    paper = PaperBlock(block.task, block.dataset, block.architecture)
    names = ("whose", "task", "dataset", "architecture", "preset", "metric")
    where: dict[str, Any] = {name: getattr(block, name) for name in names}
    where["study"] = getattr(block, "study", "paper")
    for method in block.methods:
        for setting in block.settings:
            row = {**where, "method": method, "setting": setting}
            theirs = paper.score(method, setting)
            if theirs:
                row |= _numbers(theirs, "paper_") | {"paper_text": theirs.text or None}
            if isinstance(block, PaperBlock):
                yield {
                    **row,
                    "mean": row.pop("paper_mean", None),
                    "std": row.pop("paper_std", None),
                }
                continue
            score = block.score(method, setting)
            row |= {} if score is None else {**_numbers(score), "seeds": score.seeds}
            row |= {"chosen": block.chosen(method), "trials": block.tried(method)}
            if (gain := block.gain("base", method, setting)) is not None:
                row |= {"gain_over_base": gain.absolute, "gain_low": gain.low}
                row |= {"gain_high": gain.high, "relative_gain_over_base": gain.relative}
            if (gain := block.gain(method, "tuneup", setting)) is not None:
                row |= {"tuneup_minus_this": gain.absolute, "tuneup_minus_this_low": gain.low}
                row |= {"tuneup_minus_this_high": gain.high}
            if tested:
                row["tuneup_minus_this_p_over_nodes"] = block.p_value(method, "tuneup", setting)
            yield row


def _numbers(score: Score, prefix: str = "") -> dict[str, float | None]:
    found = {"mean": score.mean, "std": score.std}
    return {prefix + k: None if math.isnan(v) else v for k, v in found.items()}


def row_label(block: Block | PaperBlock, method: str) -> str:
    """A method's title, and what is missing of its row."""
    missing = block.deviation(method) if isinstance(block, Block) else ""
    return f"{title_of(method)} ({missing})" if missing.endswith("seeds") else title_of(method)


def _setting(run: Run) -> str:
    return json.dumps([run.shared, run.config], sort_keys=True, default=str)


def _most(runs: Sequence[Run]) -> str:
    return Counter(map(_setting, runs)).most_common(1)[0][0] if runs else ""


def _point_of(runs: Sequence[Run]) -> Mapping[str, Any]:
    """The most frequent point of a method, the first of equals."""
    texts = Counter(json.dumps(run.point, sort_keys=True) for run in runs)
    found: Mapping[str, Any] = json.loads(texts.most_common(1)[0][0])
    return found
