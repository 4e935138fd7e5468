"""What came out of a fit, in sentences: the result, the alternatives, and simple models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuneup.train import TrainingRecord

from .comparison import ISOLATED, ComparisonRow, Standing, class_standings
from .summary import BASE, RESULT, STAGE_2, ClassSummary, RunSummary
from .words import percent, points, setting_words

_SELECTIONS = {
    "transductive": "validation {metric}",
    "cold": "validation {metric} over cold copies",
    "balanced": "balanced validation {metric}",
}
_NOTHING = 5e-4
"""A difference that would be printed as 0.0 points."""
_FEW = 20
"""A group of fewer nodes than this is too small for a sentence."""


def verdict(
    record: TrainingRecord,
    rows: Sequence[Standing],
    unit: str,
    classes: ClassSummary | None = None,
) -> list[str]:
    """The sentences in the order of their weight: first what to distrust, then the result.

    Args:
        record: of the training.
        rows: of :func:`~tuneup.report.comparison.standings`.
        unit: what was scored, in the plural.
        classes: of a classifier.  If that was selected by another metric than accuracy, which
            ``rows`` hold, the sentences are about that metric.
    """
    if classes is None:
        return _verdict(record, rows, unit)
    if classes.metric == "accuracy":
        return [*_verdict(record, rows, unit), _calibration(classes, unit)]
    whole = [row for row in class_standings(classes) if row.group == "overall"]
    return [
        *_simple_models(whole, unit, classes.score_words),
        _result(record),
        *_unfinished(record),
        *_found(classes, unit),
        _calibration(classes, unit),
    ]


def _verdict(record: TrainingRecord, rows: Sequence[Standing], unit: str) -> list[str]:
    return [
        *_simple_models(rows, unit),
        _result(record),
        *_alternatives(record, rows, unit),
        *_unfinished(record),
    ]


def result_name(record: TrainingRecord) -> str:
    """``Base``, ``stage 2``, or the average of both that was selected."""
    weight = record.weight
    if weight in (0.0, 1.0):
        return "stage 2" if weight else BASE
    return f"{1 - weight:.1f} {BASE} + {weight:.1f} stage 2"


def _result(record: TrainingRecord) -> str:
    """Which weights are the result, and how they and the ends validated."""
    dial = record.dial
    if dial is None:
        ends = [stage.best_score for stage in (record.stages[0], record.stages[-1])]
        own = ends[1] if record.winner else ends[0]
    else:
        ends, own = [dial.scores[0], dial.scores[-1]], dial.score
    sides = [f"{BASE} {percent(ends[0])}", f"stage 2 {percent(ends[1])}"]
    if record.weight in (0.0, 1.0):
        del sides[int(record.weight)]
    name = _SELECTIONS[record.selection].format(metric=record.metric)
    sentence = f"Result: {result_name(record)}, {name} {percent(own)} ({', '.join(sides)})."
    if dial is not None and dial.ends_only:
        sentence += f" Averages of the two were not tried: {dial.ends_only}."
    return sentence


def _alternatives(record: TrainingRecord, rows: Sequence[Standing], unit: str) -> list[str]:
    """What choosing Base or stage 2 instead would give, and where."""
    found = []
    whole = [row for row in rows if row.group == "overall"]
    for name in {0.0: [STAGE_2], 1.0: [BASE]}.get(record.weight, [BASE, STAGE_2]):
        changes = [(_score(row, name) - _score(row), row) for row in whole]
        if all(abs(change) < _NOTHING for change, _ in changes):
            continue
        best, worst = (end(changes, key=lambda pair: pair[0]) for end in (max, min))
        parts = [best] if best[1] is worst[1] else [best, worst]
        where = " and ".join(
            f"{points(change, 1)} on {setting_words(row.setting, unit)}" for change, row in parts
        )
        found.append(f"{name} instead would give {where}.")
    return found


def _score(row: Standing, name: str = RESULT) -> float:
    found = row.scores[name]
    return math.nan if found is None else found


def _simple_models(rows: Sequence[Standing], unit: str, metric: str = "") -> list[str]:
    """Where a simple model does better than the result, or that none does."""
    shown = [r for r in rows if r.group in ("overall", ISOLATED) and not math.isnan(r.lead)]
    above = [r for r in shown if r.lead < 0 and (r.group == "overall" or r.nodes >= _FEW)]
    if not shown:
        return []
    if not above:
        least = min((r for r in shown if r.group == "overall"), key=lambda r: r.lead)
        return [
            f"Better than every simple model in every setting{f', in {metric}' * bool(metric)}: "
            f"the least lead is {points(least.lead, 1)} over {least.floor} on "
            f"{setting_words(least.setting, unit)}."
        ]
    by_floor: dict[str, list[str]] = {}
    for row in above:
        isolated = " without links" if row.group == ISOLATED else ""
        scores = f"{percent(row.floor_score)} against {percent(_score(row))}"
        where = f"{setting_words(row.setting, unit)}{isolated} ({scores})"
        by_floor.setdefault(row.floor, []).append(where)
    better = f"A simple model does better{f' in {metric}' * bool(metric)}"
    return [f"{better}: {title} on {'; '.join(places)}." for title, places in by_floor.items()]


def _unfinished(record: TrainingRecord) -> list[str]:
    """Stages whose epochs ended while they were still improving."""
    return [
        f"Stage {stage.stage + 1} was still improving when its {len(stage.epochs)} epochs ended: "
        "a longer one may do better (--epochs)."
        for stage in record.stages
        if stage.unfinished
    ]


def _found(classes: ClassSummary, unit: str) -> list[str]:
    """How many nodes of the class to find are found in the first setting."""
    setting, report = next(iter(classes.result.items()))
    if report.positive is None:
        return []
    row, name = report.classes[report.positive], classes.positive
    hits = report.confusion[report.positive][report.positive]
    others = sum(line[report.positive] for line in report.confusion) - hits
    return [
        f"Of {row.nodes:,} {setting_words(setting, unit)} of class {name}, {hits:,} are predicted "
        f"as {name}; {others:,} others are too."
    ]


def _calibration(classes: ClassSummary, unit: str) -> str:
    """The calibration error of the result, before and after, in the first and last setting."""
    parts = []
    for setting, report in classes.result.items():
        own = report.measures["calibration-error"]
        if own is not None:
            before = percent(classes.uncalibrated[setting])
            parts.append(f"{percent(own)} on {setting_words(setting, unit)} (before: {before})")
    ends = dict.fromkeys([*parts[:1], *parts[-1:]])
    return f"Calibration error of the probabilities: {', '.join(ends)}."


@dataclass(frozen=True)
class Headline:
    """What the first box of a page is about; the template has the words.

    Args:
        kind: better, worse, same, kept (validation selected Base), or alone (nothing to compare).
        main: the row of the headline.
        others: the well linked in the same setting, and the coldest.
    """

    kind: str
    main: ComparisonRow | None = None
    others: Sequence[ComparisonRow] = ()


def headline(run: RunSummary, rows: Sequence[ComparisonRow]) -> Headline:
    """From the tail of the first setting that has one, or else from all of its nodes."""
    own = [row for row in rows if row.method == run.focus.name and row.gain is not None]
    if not own:
        return Headline("alone")
    main = next((row for row in own if row.group == "tail"), own[0])
    head = [
        r for r in own if r.setting == main.setting and (main.group, r.group) == ("tail", "head")
    ]
    others = [*head, *(row for row in _coldest(own) if row is not main)]
    guarded = all(each.guarded for each in run.focus.runs) and not run.verdict
    return Headline("kept" if guarded else main.mark, main, others)


def tiles(run: RunSummary, rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The few rows that stand large under the headline: few links, many links, the coldest."""
    own = [row for row in rows if row.method == run.focus.name and row.gain is not None]
    first = [row for row in own if row.setting == own[0].setting]
    shown = [row for row in first if row.group != "overall"] or first
    return list(dict.fromkeys([*shown, *_coldest(own)]))


def _coldest(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Of all nodes in the setting that removes most links, if there is one."""
    return [r for r in rows if r.group == "overall" and r.setting.startswith("cold-")][-1:]
