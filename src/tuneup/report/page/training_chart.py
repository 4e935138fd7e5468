"""The training curves: stages side by side on one axis, thinned to what an eye can see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from tuneup.evaluation import MISSING
from tuneup.report.curves import Curve
from tuneup.report.summary import SeedRun

from .charts import View
from .series import Series
from .words import percent

_POINTS = 2400
"""Points of a whole chart: more would only be bytes."""
_ROWS = 40
"""Rows of the table behind it."""
_PICKED = 4
"""With more lines than this, marks of the kept states would hide them."""


def training_views(series: Sequence[Series]) -> list[View]:
    """Validation score and loss; none of a run that kept no curves.

    A stage begins at the same place for all, after the longest of the stages before it.  A first
    stage that is the base's own run is drawn once, as the base's.
    """
    lines = [
        (index, run, _own(each, run))
        for index, each in enumerate(series)
        for run in each.method.runs
    ]
    lines = [line for line in lines if line[2]]
    if not lines:
        return []
    lengths: dict[int, int] = defaultdict(int)
    for _, _, curve in lines:
        for stage, epoch, *_ in curve:
            lengths[stage] = max(lengths[stage], epoch)
    starts = {k: sum(lengths[j] for j in range(k)) for k in range(max(lengths) + 1)}
    stages = [{"start": starts[k], "label": f"stage {k + 1}"} for k in starts]
    found = [_view(series, lines, starts, stages, sum(lengths.values()), kind) for kind in (3, 2)]
    return [view for view in found if view]


def _view(
    series: Sequence[Series],
    lines: Sequence[tuple[int, SeedRun, Curve]],
    starts: dict[int, int],
    stages: list[dict[str, Any]],
    end: int,
    kind: int,
) -> View | None:
    """``kind`` is the place in a curve's point of what is drawn: 2 the loss, 3 the score."""
    scored, metric = kind == 3, series[0].run.selected_by
    scale = 100.0 if scored else 1.0
    limit = max(30, _POINTS // len(lines))
    drawn: dict[int, list[list[list[float]]]] = {index: [] for index, *_ in lines}
    table: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for index, _, curve in lines:
        points = [(p[0], p[1], value) for p in curve if (value := p[kind]) is not None]
        for stage, epoch, value in points:
            table[stage, epoch][index].append(value)
        for stage in sorted({point[0] for point in points}):
            own = [(starts[s] + e, round(scale * v, 3)) for s, e, v in points if s == stage]
            drawn[index].append([list(point) for point in _thin(own, limit)])
    if not table:
        return None
    name = f"validation {metric}" if scored else "loss"
    spec = {
        "label": name,
        "x": {"kind": "linear", "title": "epoch (one round of training)", "min": 0, "max": end},
        "y": {"title": f"{name}, %" if scored else "loss", "suffix": " %" if scored else ""},
        "stages": stages,
        "series": [{"s": index, "lines": own} for index, own in drawn.items() if own],
        "picks": _picks(lines, starts) if scored and len(lines) <= _PICKED else [],
    }
    names = list(drawn)
    rows = [
        [
            f"stage {stage + 1}, epoch {epoch}",
            *(_cell(table[stage, epoch].get(index), scored=scored) for index in names),
        ]
        for stage, epoch in _thin(sorted(table), _ROWS)
    ]
    return View(spec, ["when", *(series[index].name for index in names)], rows)


def _own(each: Series, run: SeedRun) -> Curve:
    """A training's curve without a first stage that is the base's."""
    base = each.run.base
    if base is None or base is each.method:
        return run.curve
    first = [tuple(point) for point in run.curve if point[0] == 0]
    for other in base.runs:
        if other.seed == run.seed and [tuple(p) for p in other.curve if p[0] == 0] == first:
            return [point for point in run.curve if point[0] > 0]
    return run.curve


def _picks(
    lines: Sequence[tuple[int, SeedRun, Curve]], starts: dict[int, int]
) -> list[dict[str, Any]]:
    """Where the states are that were kept."""
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
    kept = list(points[::step])
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def _cell(values: list[float] | None, *, scored: bool) -> str:
    if not values:
        return MISSING
    return percent(fmean(values)) if scored else f"{fmean(values):.4f}"
