"""Pivots of the long table: the methods of one graph, task and architecture by setting.

A :class:`Block` is the paper's, a :class:`RunBlock` ours, with intervals: :func:`paper_blocks` and
:func:`find_blocks` make them, :func:`long_table` has one row a cell.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tuneup.errors import InputError
from tuneup.evaluation import Gain, MeanStd, over_seeds, paired_gain, split_by_degree
from tuneup.methods import METHODS, ROWS, in_order, title_of
from tuneup.metrics import NodeScores

from .presets import METRICS, SETTINGS, USUAL, base_points, rules_for, table_methods
from .runner import FLOOR
from .store import LONG, Run, Store, as_key

PAPER_SEEDS = 5


class Place(NamedTuple):
    """What a block is of."""

    study: str
    task: str
    dataset: str
    architecture: str
    preset: str


@dataclass(frozen=True)
class Score(MeanStd):
    """A cell: mean and deviation over seeds; the paper has a note where it has no number."""

    note: str = ""


@dataclass(frozen=True)
class PaperTable:
    """What a table of the paper shows, in its order: settings by task, kinds are (task, GNN)."""

    name: str
    kinds: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]


@cache
def published() -> pl.DataFrame:
    """The paper's rows of the long table; ``text`` where there is no number ("OOM", "n/a")."""
    rows = pl.read_csv((files("tuneup.bench") / "paper.csv").read_bytes())
    fixed = {"whose": "paper", "study": "paper", "preset": "paper", "run": None, "seed": None}
    rows = rows.with_columns(
        pl.col("task").replace_strict(METRICS).alias("metric"),
        *(pl.lit(value).alias(name) for name, value in fixed.items()),
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in LONG.items())


def paper_tables() -> tuple[str, ...]:
    """Names of the tables."""
    return tuple(published()["table"].unique(maintain_order=True))


def paper_table(name: str) -> PaperTable:
    """A table by its name."""
    if name not in paper_tables():
        raise InputError(f"--table: got {name!r}; expected one of {', '.join(paper_tables())}.")
    rows = published().filter(table=name)

    def seen(column: str, rows: pl.DataFrame = rows) -> tuple[str, ...]:
        return tuple(rows[column].unique(maintain_order=True))

    kinds = tuple(rows.select("task", "architecture").unique(maintain_order=True).rows())
    settings = {task: seen("setting", rows.filter(task=task)) for task in seen("task")}
    return PaperTable(name, kinds, seen("dataset"), seen("method"), settings)


class Block:
    """Methods by settings of one place, from means and deviations alone as the paper has them.

    Args:
        place: study, task, dataset, architecture and preset.
        shown: a table of the paper, for its rows and columns alone.
    """

    whose = "paper"

    def __init__(self, place: Place, shown: PaperTable | None = None) -> None:
        self.place, self.shown = place, shown
        self.study, self.task, self.dataset, self.architecture, self.preset = place
        self.metric = METRICS[self.task]

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], Score]:
        """By method and setting."""
        return _paper_cells().get((self.task, self.dataset, self.architecture), {})

    @cached_property
    def settings(self) -> list[str]:
        """Columns."""
        columns = SETTINGS if self.shown is None else self.shown.settings.get(self.task, ())
        return [name for name in columns if any(own == name for _, own in self.cells)]

    @cached_property
    def methods(self) -> list[str]:
        """Rows."""
        rows = ROWS if self.shown is None else self.shown.methods
        return [m for m in rows if any((m, name) in self.cells for name in self.settings)]

    @property
    def short_name(self) -> str:
        """``ogbn-arxiv, gcn``."""
        return f"{self.dataset}, {self.architecture}"

    @property
    def name(self) -> str:
        """``ogbn-arxiv, link-prediction, gcn``."""
        return self.short_name.replace(",", f", {self.task},", 1)

    @property
    def file_name(self) -> str:
        """``link-prediction-dblp-gcn``."""
        return f"{self.task}-{Path(self.dataset).name}-{self.architecture}"

    def score(self, method: str, setting: str) -> Score | None:
        """A cell."""
        return self.cells.get((method, setting)) if setting in self.settings else None

    def gain(self, before: str, after: str, setting: str, group: str = "overall") -> Gain | None:
        """What ``after`` adds to ``before``, where both are there; its interval is NaN."""
        one, other = self.score(before, setting), self.score(after, setting)
        if one is None or other is None or one.note or other.note:
            return None
        absolute, unknown = other.mean - one.mean, (math.nan, math.nan, math.nan)
        return Gain(absolute, other.mean / one.mean - 1, *unknown, one.seeds, 0)

    def lacking(self, *methods: str) -> Sequence[int]:
        """Seeds that one of the methods was not run with."""
        return ()

    def label(self, method: str) -> str:
        """A method's title, and what is missing of its row."""
        return title_of(method)

    def chosen(self, method: str) -> str:
        """The settings of a method, where they are known."""
        return ""

    def tried(self, method: str) -> str:
        """How many trials they were chosen by."""
        return ""


class RunBlock(Block):
    """A block of ours: the runs of one place with one choice of settings.

    Args:
        place: study, task, dataset, architecture and preset.
        shown: a table of the paper, for its rows and columns alone.
        store: where the scores are.
        found: all runs and trials of the place.
    """

    whose = "ours"

    def __init__(
        self, place: Place, shown: PaperTable | None, store: Store, found: Sequence[Run]
    ) -> None:
        super().__init__(place, shown)
        self.store, self.found = store, found
        self._gains: dict[tuple[str, str, str, str], Gain | None] = {}

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """By method, in the order of seeds: those with the most frequent settings, Base's first."""
        scored: dict[str, list[Run]] = defaultdict(list)
        for run in sorted(self.found, key=lambda run: run.seed):
            if run.means and run.architecture != FLOOR:
                scored[run.method].append(run)
        every = scored.get("base") or [run for own in scored.values() for run in own]
        usual = {_setting(run) for run in _most_frequent(every, _setting)}
        alike = {m: [r for r in own if _setting(r) in usual] for m, own in scored.items()}
        return {
            m: _most_frequent(own, lambda run: as_key(run.point)) for m, own in alike.items() if own
        }

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], Score]:
        """By method and setting, over seeds."""
        found = {}
        for method, own in self.runs.items():
            for setting in dict.fromkeys(name for run in own for name in run.means):
                means = [run.means[setting] for run in own if setting in run.means]
                found[method, setting] = Score(**vars(over_seeds(means)))
        return found

    @cached_property
    def settings(self) -> list[str]:
        """Columns."""
        known = dict.fromkeys(name for own in self.runs.values() for name in own[0].means)
        columns = known if self.shown is None else self.shown.settings.get(self.task, ())
        order = {name: k for k, name in enumerate(SETTINGS)}
        return sorted((s for s in known if s in columns), key=lambda s: order.get(s, len(order)))

    @cached_property
    def methods(self) -> list[str]:
        """Rows: methods that are compared, run or not, and all that were run."""
        compared = table_methods(self.task, self.architecture) if self.study == "paper" else []
        run = {run.method for run in self.found if run.architecture != FLOOR}
        rows = in_order({*compared, *run})
        return rows if self.shown is None else [name for name in self.shown.methods if name in rows]

    @property
    def short_name(self) -> str:
        """``dblp, gcn``, and the preset where it is not the usual one."""
        usual = self.study == "paper" and self.preset == "short"
        return super().short_name + ("" if usual else f", {self.preset}")

    @property
    def seeds(self) -> list[int]:
        """Training seeds of Base; without it, of the method that has the most."""
        found = {method: [run.seed for run in own] for method, own in self.runs.items()}
        return found.get("base") or max(found.values(), key=len, default=[])

    def trials(self, method: str) -> list[Run]:
        """Those that the method's settings were chosen by."""
        own = self.runs.get(method)
        mine = [run for run in self.found if run.trial and run.method == method]
        if own and method != "base":
            mine = [run for run in mine if _setting(run) == _setting(own[0])]
        return mine

    def lacking(self, *methods: str) -> list[int]:
        """Those of the seeds that one of the methods was not run with."""
        found = [{run.seed for run in self.runs.get(method, ())} for method in methods]
        return [seed for seed in self.seeds if not all(seed in own for own in found)]

    def label(self, method: str) -> str:
        """``DropEdge (2 of 3 seeds)``."""
        lacking, seeds = len(self.lacking(method)), len(self.seeds)
        some = method in self.runs and lacking
        return title_of(method) + (f" ({seeds - lacking} of {seeds} seeds)" if some else "")

    def chosen(self, method: str) -> str:
        """``alpha 0.25``."""
        own = self.runs.get(method)
        if not own:
            return ""
        point = own[0].shared if method == "base" else own[0].point
        known = METHODS.get(method)
        if known is None or method == "base":
            return ", ".join(f"{name} {value}" for name, value in point.items())
        task: Any = self.task
        unread, grid = known.unread_of(point, task), [*known.grid]
        names = sorted(point, key=lambda name: grid.index(name) if name in grid else len(grid))
        return ", ".join(f"{name} {point[name]}" for name in names if name not in unread)

    def tried(self, method: str) -> str:
        """``6 (4 of 15)``: trials, the points of the grid that they show, and of how many."""
        trials = self.trials(method)
        if not trials:
            return "0" if method in self.runs else ""
        shown, task = {as_key([t.shared, t.point]) for t in trials}, self.task
        points: Any = shown
        if method == "base":
            points = base_points(task, self.architecture, self.preset, self.study)
        elif method in METHODS:
            points = METHODS[method].points(task)  # type: ignore[arg-type]
        return f"{len(trials)} ({len(shown)} of {len(points)})"

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
        known = {seed for own in self.scores.get(method, {}).values() for seed in own}
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
        pair = self._paired(before, after, setting, "overall")
        return paired_gain(*pair).p_value if pair else None

    def _paired(
        self, before: str, after: str, setting: str, group: str
    ) -> tuple[list[NodeScores], list[NodeScores]] | None:
        one, other = (self.scores.get(m, {}).get(setting, {}) for m in (before, after))
        common = sorted(one.keys() & other.keys())
        if before == after or not common:
            return None
        whole = group == "overall"
        first, second = (
            [own[seed] if whole else split_by_degree(own[seed])[group] for seed in common]
            for own in (one, other)
        )
        return first, second

    @property
    def command(self) -> str:
        """What makes these runs, or the rest of them."""
        words = f"tuneup bench run --task {self.task} --dataset {self.dataset}"
        words += f" --architecture {self.architecture}"
        if self.study != "paper":
            return f"{words} --study {self.study}"
        if self.architecture not in USUAL:
            words += "".join(f" --method {name}" for name in self.methods)
        words += f" --preset {self.preset}" * (self.preset != "short")
        rules = rules_for(self.task, preset=self.preset)
        if self.seeds != list(rules["seeds"]):
            words += "".join(f" --seed {seed}" for seed in self.seeds)
        most = max((len(self.trials(m)) for m in self.methods if m != "base"), default=0)
        few = most and most < rules["trials"]  # more are points that share a training
        return words + f" --trials {most}" * bool(few)


@cache
def _paper_cells() -> dict[tuple[str, str, str], dict[tuple[str, str], Score]]:
    """By block, method and setting; of the first table that has the cell."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], Score]] = {}
    for row in published().iter_rows(named=True):
        own = found.setdefault((row["task"], row["dataset"], row["architecture"]), {})
        mean, std = (math.nan if row[n] is None else row[n] for n in ("mean", "std"))
        score = Score(mean, std, PAPER_SEEDS, row["text"] or "")
        own.setdefault((row["method"], row["setting"]), score)
    return found


def paper_block(
    task: str, dataset: str, architecture: str, shown: PaperTable | None = None
) -> Block:
    """The paper's numbers of one dataset, task and architecture."""
    return Block(Place("paper", task, dataset, architecture, "paper"), shown)


def paper_blocks(
    kinds: Iterable[tuple[str, str]],
    table: PaperTable | None = None,
    datasets: Sequence[str] = (),
    without: Iterable[Block] = (),
) -> list[Block]:
    """The paper's blocks of these tasks and architectures, perhaps ``without`` our graphs."""
    mine = {(block.task, block.dataset, block.architecture) for block in without}
    found = [
        paper_block(*place, table)
        for kind in dict.fromkeys(kinds)
        for place in _paper_cells()
        if (place[0], place[2]) == kind
        and place not in mine
        and (not datasets or place[1] in datasets)
        and (table is None or place[1] in table.datasets)
    ]
    return [block for block in found if block.methods]


def find_blocks(
    store: Store,
    table: PaperTable | None = None,
    *,
    datasets: Sequence[str] = (),
    task: str | None = None,
    architectures: Sequence[str] = (),
    preset: str | None = "short",
    study: str = "paper",
) -> list[RunBlock]:
    """The blocks of a store that are asked for; what is not named is everything."""
    by_place: dict[Place, list[Run]] = defaultdict(list)
    for run in store.runs(study=study):
        by_place[Place(*run.place)].append(run)
    tasks = list(METRICS)
    found = []
    for place in sorted(by_place, key=lambda p: (tasks.index(p.task), p[2:])):
        if (
            place.architecture != FLOOR
            and (not datasets or place.dataset in datasets)
            and task in (None, place.task)
            and (not architectures or place.architecture in architectures)
            and (preset is None or study != "paper" or place.preset == preset)
            and (table is None or (place.task, place.architecture) in table.kinds)
            and any(run.means for run in by_place[place])
        ):
            floors = by_place.get(place._replace(architecture=FLOOR), [])
            found.append(RunBlock(place, table, store, [*by_place[place], *floors]))
    return found


def long_table(blocks: Sequence[Block], tested: bool = False) -> pl.DataFrame:
    """One row a cell: mean, deviation, the paper's number, and paired gains with intervals.

    Args:
        blocks: ours and the paper's.
        tested: with p-values, which takes some seconds a cell.
    """
    text = ("whose", "study", "task", "dataset", "architecture", "preset", "method", "setting")
    numbers = [f"tuneup_minus_this{end}" for end in ("", "_low", "_high", "_p_over_nodes")]
    numbers += ["gain_over_base", "gain_low", "gain_high", "relative_gain_over_base"]
    schema: dict[str, Any] = {
        **dict.fromkeys((*text, "metric"), pl.String),
        **dict.fromkeys(("mean", "std"), pl.Float64),
        "seeds": pl.Int64,
        **dict.fromkeys(("chosen", "trials", "paper_text"), pl.String),
        **dict.fromkeys(("paper_mean", "paper_std", *numbers), pl.Float64),
    }
    return pl.DataFrame([row for b in blocks for row in _rows(b, tested)], schema=schema)


def _rows(block: Block, tested: bool) -> Iterator[dict[str, Any]]:
    paper = paper_block(block.task, block.dataset, block.architecture)
    where = {**block.place._asdict(), "whose": block.whose, "metric": block.metric}
    for method in block.methods:
        for setting in block.settings:
            theirs, score = paper.score(method, setting), block.score(method, setting)
            row = {**where, "method": method, "setting": setting, **_numbers(score)}
            row |= {**_numbers(theirs, "paper_"), "paper_text": (theirs and theirs.note) or None}
            if isinstance(block, RunBlock):
                row |= {"chosen": block.chosen(method), "trials": block.tried(method)}
                row["seeds"] = score.seeds if score else None
                if (gain := block.gain("base", method, setting)) is not None:
                    row |= {"gain_over_base": gain.absolute, "gain_low": gain.low}
                    row |= {"gain_high": gain.high, "relative_gain_over_base": gain.relative}
                if (gain := block.gain(method, "tuneup", setting)) is not None:
                    row |= {"tuneup_minus_this": gain.absolute, "tuneup_minus_this_low": gain.low}
                    row |= {"tuneup_minus_this_high": gain.high}
                if tested:
                    p_value = block.p_value(method, "tuneup", setting)
                    row["tuneup_minus_this_p_over_nodes"] = p_value
            yield row


def _numbers(score: Score | None, prefix: str = "") -> dict[str, float | None]:
    found = {"mean": score.mean, "std": score.std} if score else {}
    return {prefix + k: None if math.isnan(v) else v for k, v in found.items()}


def _setting(run: Run) -> str:
    return as_key([run.shared, run.config])


def _most_frequent(runs: Sequence[Run], key: Callable[[Run], str]) -> list[Run]:
    """Those whose key most of them have, the first of equals."""
    usual = Counter(map(key, runs)).most_common(1)
    return [run for run in runs if key(run) == usual[0][0]]
