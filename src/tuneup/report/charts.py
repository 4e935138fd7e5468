"""The charts of a page as plain data: what ``chart.js`` draws, and the tables behind them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tuneup.evaluation import (
    MISSING,
    DegreeBin,
    Interval,
    bootstrap_mean,
    over_seeds,
    shared_curves,
)
from tuneup.metrics import NodeScores

from .comparison import BASE, RESULT, STAGE_2
from .summary import Curve, MethodSummary, RunSummary, SeedRun
from .table import Table, cold_share, percent, setting_words

_MIN_NODES = 20
"""Neighbouring degrees are joined until a point of the curve stands for this many nodes."""
_POINTS = 2400
"""Points of a whole training chart: more would only be bytes."""
_ROWS = 40
"""Rows of the table behind it."""
_PICKED = 4
"""With more training lines than this, marks of the selected states would hide them."""
_DASHES = {":": "0.1 6", "-": "", "--": "7 4", "-.": "8 4 1 4"}
_PALETTE = ("#1f77b4", "#e8710a", "#009e73", "#cc79a7", "#7b3fa0", "#8c6d1f", "#56b4e9", "#555555")
MOST_RUNS = len(_PALETTE)
"""A comparison of more would need colours that look alike."""


@dataclass(frozen=True)
class Line:
    """A curve's colour, dashes and marker, as matplotlib names them."""

    color: str
    style: str
    marker: str


# Base and TuneUp look as in the paper; the others differ in colour, dashes and marker at once, so
# that no one has to tell them apart by colour alone.
_LINES = {
    BASE: Line("#1f77b4", ":", "o"),
    "TuneUp": Line("#e8710a", "-", "s"),
    RESULT: Line("#e8710a", "-", "s"),
}
_MORE_LINES = (
    Line("#009e73", "--", "^"),
    Line("#cc79a7", "-.", "v"),
    Line("#56b4e9", "--", "D"),
    Line("#8c6d1f", "-.", "P"),
    Line("#555555", "--", "X"),
    Line("#7b3fa0", "-.", "*"),
    Line("#c1272d", "--", "<"),
    Line("#0b7a75", "-.", ">"),
    Line("#9aa50b", "--", "p"),
    Line("#2b2d6e", "-.", "h"),
)


def assign_lines(methods: Sequence[str]) -> dict[str, Line]:
    """Base and TuneUp have lines of their own; the others take the remaining ones in turn."""
    others = [method for method in methods if method not in _LINES]
    more = {name: _MORE_LINES[index % len(_MORE_LINES)] for index, name in enumerate(others)}
    return {method: _LINES.get(method) or more[method] for method in methods}


@dataclass(frozen=True, eq=False)
class Series:
    """A method of a run, with its name and line in the charts of a page."""

    name: str
    line: Line
    run: RunSummary
    method: MethodSummary

    def to_json(self) -> dict[str, str]:
        """For the script; colours are in the style sheet."""
        return {"name": self.name, "dash": _DASHES[self.line.style], "marker": self.line.marker}

    @property
    def dark(self) -> str:
        """A lighter colour, for a dark ground."""
        channels = (int(self.line.color[start : start + 2], 16) for start in (1, 3, 5))
        return "#" + "".join(f"{round(c + 0.35 * (255 - c)):02x}" for c in channels)


def series_of(runs: Sequence[RunSummary], labels: Sequence[str]) -> list[Series]:
    """All methods of a single run; of several, Base and the result in a colour for each run."""
    if len(runs) == 1:
        methods = runs[0].methods
        lines = assign_lines([method.name for method in methods])
        return [Series(method.name, lines[method.name], runs[0], method) for method in methods]
    found = []
    for run, label, color in zip(runs, labels, _PALETTE, strict=False):
        for method in dict.fromkeys((run.base or run.focus, run.focus)):
            is_base = method.name == BASE
            line = Line(color, ":" if is_base else "-", "o" if is_base else "s")
            found.append(Series(f"{label} · {method.name}", line, run, method))
    return found


@dataclass(frozen=True)
class View:
    """One picture of a chart: what is drawn, and the same as a table."""

    spec: dict[str, Any]
    table: Table


def charts_of(series: Sequence[Series], settings: Sequence[str]) -> dict[str, list[View]]:
    """The views of each chart that there are numbers for."""
    found = {
        "where": [view for setting in settings if (view := _degree_view(series, setting))],
        "cold": _cold_views(series, settings),
        "training": _training_views(series),
    }
    return {name: views for name, views in found.items() if views}


def bin_labels(bins: Sequence[DegreeBin]) -> list[str]:
    """Of the degree axis; the last bin is open."""
    return [each.label for each in bins[:-1]] + [f"{bins[-1].low}+"]


def _degree_view(series: Sequence[Series], setting: str) -> View | None:
    """Scores by degree, and how many nodes each point stands for."""
    scores = {each.name: found for each in series if (found := each.method.scores(setting))}
    if not scores:
        return None
    run = series[0].run
    curves = shared_curves(scores, run.tail_degree, _MIN_NODES)
    drawn = {index: curves[each.name] for index, each in enumerate(series) if each.name in curves}
    first = {id(series[index].run): index for index in reversed(drawn)}
    counted = sorted(first.values())  # all methods of a run score the same nodes
    bins = next(iter(curves.values()))
    labels, words = bin_labels(bins), setting_words(setting, run.unit)
    several = len(counted) > 1
    spec = {
        "label": words,
        "tab": words.removeprefix(f"new {run.unit}, "),
        "x": {
            "kind": "band",
            "title": f"number of links of the {run.unit} (degree)",
            "labels": labels,
            "word": "links:",
        },
        "y": _axis(run),
        "tail": sum(each.low <= run.tail_degree for each in bins),
        "tailLabel": f"few links: at most {run.tail_degree}",
        "series": [{"s": s, "lines": [_degree_line(curve)]} for s, curve in drawn.items()],
        "counts": [{"s": s, "values": [each.count for each in drawn[s]]} for s in counted],
        "countsColoured": several,
        "countsTitle": run.unit,
        "markers": True,
    }
    heads = [f"{series[s].name}: {run.unit}" if several else run.unit for s in counted]
    rows = [
        [
            label,
            *(f"{drawn[s][k].count:,}" for s in counted),
            *(_cell(curve[k].interval) for curve in curves.values()),
        ]
        for k, label in enumerate(labels)
    ]
    return View(spec, _numbers(["links", *heads, *curves], rows))


def _degree_line(curve: Sequence[DegreeBin]) -> list[list[Any]]:
    return [
        _point(index, each.interval) + ([1] if each.holds_few else [])
        for index, each in enumerate(curve)
        if not math.isnan(each.mean)
    ]


def _cold_views(series: Sequence[Series], settings: Sequence[str]) -> list[View]:
    """Score of new nodes by the share of links that they lost; none if that was not tried."""
    cold = {share: s for s in settings if (share := cold_share(s)) is not None}
    if not cold:
        return []
    whole = {0: "inductive"} if "inductive" in settings else {}
    shares = dict(sorted({**whole, **cold}.items()))
    means = [
        {share: _mean(runs) for share, s in shares.items() if (runs := each.method.scores(s))}
        for each in series
    ]
    spec = {
        "label": f"new {series[0].run.unit}",
        "x": {
            "kind": "linear",
            "title": "share of links removed",
            "ticks": list(shares),
            "suffix": " %",
            "word": "links removed:",
        },
        "y": _axis(series[0].run),
        "series": [
            {"s": index, "lines": [[_point(share, found) for share, found in own.items()]]}
            for index, own in enumerate(means)
        ],
        "markers": True,
    }
    rows = [[f"{share} %", *(_cell(own.get(share)) for own in means)] for share in shares]
    return [View(spec, _numbers(["links removed", *(each.name for each in series)], rows))]


def _mean(runs: Sequence[NodeScores]) -> Interval:
    """Over nodes if there is one run, over seeds if there are more: as in the degree curves."""
    if len(runs) == 1:
        return bootstrap_mean(runs[0].score)
    seeds = over_seeds(run.mean() for run in runs)
    return Interval(seeds.mean, seeds.mean - seeds.std, seeds.mean + seeds.std)


def _point(x: float, found: Interval) -> list[Any]:
    ends = [found.mean, found.low, found.high]
    return [x, *(None if math.isnan(end) else round(100 * end, 2) for end in ends)]


def _axis(run: RunSummary) -> dict[str, Any]:
    return {"title": f"{run.metric}, %", "suffix": " %"}


def _numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(head, rows, classes="numbers")


def _cell(found: Interval | None) -> str:
    if found is None or math.isnan(found.mean):
        return MISSING
    ends = "" if math.isnan(found.low) else f" ({100 * found.low:.1f} to {100 * found.high:.1f})"
    return f"{percent(found.mean)}{ends}"


_Trained = tuple[int, SeedRun, Curve]
"""A line of the training chart: the number of its series, the training, and its epochs."""


def _training_views(series: Sequence[Series]) -> list[View]:
    """Validation score and loss; none of a run without curves.

    A stage begins at the same place for all, after the longest of the stages before it.  A first
    stage that is the base's own run is drawn once, as the base's.  Beside a stage 2 of its own, the
    result's training is drawn as that.
    """
    numbers = {each.method.name: index for index, each in enumerate(series)}
    lines = [
        (numbers.get(STAGE_2, index) if each.method.name == RESULT else index, run, curve)
        for index, each in enumerate(series)
        for run in each.method.runs
        if (curve := _own_curve(each, run))
    ]
    if not lines:
        return []
    lengths: dict[int, int] = defaultdict(int)
    for _, _, curve in lines:
        for stage, epoch, *_ in curve:
            lengths[stage] = max(lengths[stage], epoch)
    starts = [sum(lengths[j] for j in range(k)) for k in range(max(lengths) + 2)]
    views = [_training_view(series, lines, starts, scored=each) for each in (True, False)]
    return [view for view in views if view]


def _own_curve(each: Series, run: SeedRun) -> Curve:
    """A training's curve without a first stage that is the base's."""
    base = each.run.base
    if base is None or base is each.method:
        return run.curve
    first = [tuple(point) for point in run.curve if point[0] == 0]
    for other in base.runs:
        if other.seed == run.seed and [tuple(p) for p in other.curve if p[0] == 0] == first:
            return [point for point in run.curve if point[0] > 0]
    return run.curve


def _training_view(
    series: Sequence[Series],
    lines: Sequence[_Trained],
    starts: Sequence[int],
    *,
    scored: bool,
) -> View | None:
    """Validation scores, or losses; ``starts`` of the stages end with the end of the last."""
    scale, limit = 100.0 if scored else 1.0, max(30, _POINTS // len(lines))
    drawn: dict[int, list[list[list[float]]]] = {index: [] for index, *_ in lines}
    table: Mapping[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for index, _, curve in lines:
        stages: dict[int, list[list[float]]] = defaultdict(list)
        for stage, epoch, loss, score in curve:
            value = score if scored else loss
            if value is not None:
                table[stage, epoch][index].append(value)
                stages[stage].append([starts[stage] + epoch, round(scale * value, 3)])
        drawn[index] += [_thin(stages[stage], limit) for stage in sorted(stages)]
    if not table:
        return None
    name = f"validation {series[0].run.selected_by}" if scored else "loss"
    spec = {
        "label": name,
        "x": {
            "kind": "linear",
            "title": "epoch (one round of training)",
            "min": 0,
            "max": starts[-1],
        },
        "y": {"title": f"{name}, %" if scored else "loss", "suffix": " %" if scored else ""},
        "stages": [{"start": s, "label": f"stage {k + 1}"} for k, s in enumerate(starts[:-1])],
        "series": [{"s": index, "lines": own} for index, own in drawn.items() if own],
        "picks": _picks(lines, starts) if scored and len(lines) <= _PICKED else [],
    }

    def cell(values: list[float] | None) -> str:
        if not values:
            return MISSING
        return percent(fmean(values)) if scored else f"{fmean(values):.4f}"

    rows = [
        [f"stage {stage + 1}, epoch {epoch}", *(cell(table[stage, epoch].get(k)) for k in drawn)]
        for stage, epoch in _thin(sorted(table), _ROWS)
    ]
    return View(spec, _numbers(["when", *(series[index].name for index in drawn)], rows))


def _picks(lines: Sequence[_Trained], starts: Sequence[int]) -> list[dict[str, Any]]:
    """Where the selected states are."""
    found = []
    for index, run, _ in lines:
        stage = run.stages[run.winner] if run.winner < len(run.stages) else None
        if stage and stage.best_score is not None:
            x, y = starts[run.winner] + stage.best_epoch, round(100 * stage.best_score, 3)
            found.append({"s": index, "x": x, "y": y})
    return found


def _thin(points: Sequence[Any], limit: int) -> list[Any]:
    """At most about ``limit`` of them, evenly, the last one always."""
    step = max(1, -(-len(points) // limit))
    shown = list(points[::step])
    return shown if not points or shown[-1] == points[-1] else [*shown, points[-1]]
