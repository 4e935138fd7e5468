"""The charts as plain data: what ``chart.js`` draws, and the tables behind them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuneup.evaluation import MISSING, DegreeBin, Interval, bootstrap_mean, over_seeds
from tuneup.metrics import NodeScores
from tuneup.report.bins import shared_curves
from tuneup.report.legend import holds_few

from .series import Series
from .words import percent, setting_words, tab_words

MIN_NODES = 20
"""Neighbouring degrees are joined until a point of the curve stands for this many nodes."""


@dataclass(frozen=True)
class View:
    """One picture of a chart: what is drawn, and the same as a table."""

    spec: dict[str, Any]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def degree_views(series: Sequence[Series], settings: Sequence[str]) -> list[View]:
    """Score by degree, a view a setting, with the number of nodes of each degree."""
    return [view for setting in settings if (view := _degree_view(series, setting))]


def cold_view(series: Sequence[Series], settings: Sequence[str]) -> View | None:
    """Score of new nodes by the share of links that they lost; None if that was not tried."""
    cold = {s: int(found[1]) for s in settings if (found := re.fullmatch(r"cold-(\d+)", s))}
    if not cold:
        return None
    shares = ({"inductive": 0} if "inductive" in settings else {}) | cold
    drawn, unit = [], series[0].run.unit
    table: dict[int, dict[str, Interval]] = {share: {} for share in sorted(shares.values())}
    for index, each in enumerate(series):
        line = []
        for setting, share in sorted(shares.items(), key=lambda pair: pair[1]):
            runs = [run for run in each.method.scores(setting) if len(run)]
            if runs:
                mean = _mean(runs)
                table[share][each.name] = mean
                line.append(_point(share, mean))
        drawn.append({"s": index, "lines": [line]})
    spec = {
        "label": "new " + unit,
        "x": {
            "kind": "linear",
            "title": "share of links removed",
            "ticks": sorted(shares.values()),
            "suffix": " %",
            "word": "links removed:",
        },
        "y": _axis(series),
        "series": drawn,
        "markers": True,
    }
    names = [each.name for each in series]
    rows = [
        [f"{share} %", *(_cell(means.get(name)) for name in names)]
        for share, means in table.items()
    ]
    return View(spec, ["links removed", *names], rows)


def _degree_view(series: Sequence[Series], setting: str) -> View | None:
    scores = {
        each.name: runs
        for each in series
        if (runs := [run for run in each.method.scores(setting) if len(run)])
    }
    if not scores:
        return None
    run = series[0].run
    curves = shared_curves(scores, run.tail_degree, MIN_NODES)
    bins = next(iter(curves.values()))
    labels = [each.label for each in bins[:-1]] + [f"{bins[-1].low}+"]
    counted = _one_per_run(series, curves)
    spec = {
        "label": setting_words(setting, run.unit),
        "tab": tab_words(setting, run.unit),
        "x": {
            "kind": "band",
            "title": f"number of links of the {run.unit} (degree)",
            "labels": labels,
            "word": "links:",
        },
        "y": _axis(series),
        "tail": sum(each.low <= run.tail_degree for each in bins),
        "tailLabel": f"few links: at most {run.tail_degree}",
        "series": [
            {"s": index, "lines": [_degree_line(curves[each.name])]}
            for index, each in enumerate(series)
            if each.name in curves
        ],
        "counts": [
            {"s": index, "values": [each.count for each in curves[series[index].name]]}
            for index in counted
        ],
        "countsColoured": len(counted) > 1,
        "countsTitle": run.unit,
        "markers": True,
    }
    heads = [
        f"{run.unit}" if len(counted) == 1 else f"{series[i].name}: {run.unit}" for i in counted
    ]
    names = list(curves)
    rows = [
        [
            label,
            *(f"{curves[series[i].name][k].count:,}" for i in counted),
            *(_cell(curves[name][k].interval) for name in names),
        ]
        for k, label in enumerate(labels)
    ]
    return View(spec, ["links", *heads, *names], rows)


def _one_per_run(series: Sequence[Series], drawn: object) -> list[int]:
    """The first series of each run: all methods of a run score the same nodes."""
    first: dict[int, int] = {}
    for index, each in enumerate(series):
        if each.name in drawn:  # type: ignore[operator]
            first.setdefault(id(each.run), index)
    return list(first.values())


def _degree_line(curve: Sequence[DegreeBin]) -> list[list[Any]]:
    return [
        _point(index, each.interval) + ([1] if holds_few(each) else [])
        for index, each in enumerate(curve)
        if not math.isnan(each.mean)
    ]


def _mean(runs: Sequence[NodeScores]) -> Interval:
    """Over nodes if there is one run, over seeds if there are more: as in the degree curves."""
    if len(runs) == 1:
        return bootstrap_mean(runs[0].score)
    seeds = over_seeds(run.mean() for run in runs)
    return Interval(seeds.mean, seeds.mean - seeds.std, seeds.mean + seeds.std)


def _point(x: float, found: Interval) -> list[Any]:
    ends = [found.mean, found.low, found.high]
    return [x, *(None if math.isnan(end) else round(100 * end, 2) for end in ends)]


def _axis(series: Sequence[Series]) -> dict[str, Any]:
    return {"title": f"{series[0].run.metric}, %", "suffix": " %"}


def _cell(found: Interval | None) -> str:
    if found is None or math.isnan(found.mean):
        return MISSING
    if math.isnan(found.low):
        return percent(found.mean)
    return f"{percent(found.mean)} ({100 * found.low:.1f} to {100 * found.high:.1f})"
