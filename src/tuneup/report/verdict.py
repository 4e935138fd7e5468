"""What came out of a fit, in sentences: the result, the alternatives, and simple models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuneup.report.labels import setting_words
from tuneup.train import TrainingRecord

from .standings import BASE, ISOLATED, STAGE_2, Standing, overall

SELECTIONS = {
    "transductive": "validation {metric}",
    "cold": "validation {metric} over cold copies",
    "balanced": "balanced validation {metric}",
}
"""What the score is called that a result was selected by."""

_NOTHING = 5e-4
"""A difference that would be printed as 0.0 points."""

_FEW = 20
"""A group of fewer nodes than this is too small for a sentence."""


def verdict(
    record: TrainingRecord, rows: Sequence[Standing], unit: str, floors: bool = True
) -> list[str]:
    """The sentences in the order of their weight: what to distrust first, then the result."""
    found = [*floor_words(rows, unit)] if floors else []
    return [*found, result_words(record), *otherwise_words(record, rows, unit), *open_ends(record)]


def score_name(record: TrainingRecord) -> str:
    """``"balanced validation accuracy"``."""
    return SELECTIONS[record.selection].format(metric=record.metric)


def result_name(record: TrainingRecord) -> str:
    """``Base``, ``stage 2``, or the average of both that was selected."""
    weight = record.weight
    if weight in (0.0, 1.0):
        return "stage 2" if weight else BASE
    return f"{1 - weight:.1f} {BASE} + {weight:.1f} stage 2"


def result_words(record: TrainingRecord) -> str:
    """Which weights are the result, and how they and the ends validated."""
    dial = record.dial
    if dial is None:
        ends = [stage.best_score for stage in (record.stages[0], record.stages[-1])]
        own = ends[1] if record.winner else ends[0]
    else:
        ends, own = [dial.scores[0], dial.scores[-1]], dial.score
    sides = [f"{BASE} {_percent(ends[0])}", f"stage 2 {_percent(ends[1])}"]
    if record.weight in (0.0, 1.0):
        del sides[int(record.weight)]
    name = score_name(record)
    said = f"Result: {result_name(record)}, {name} {_percent(own)} ({', '.join(sides)})."
    if dial is not None and dial.ends_only:
        said += f" Averages of the two were not tried: {dial.ends_only}."
    return said


def otherwise_words(record: TrainingRecord, rows: Sequence[Standing], unit: str) -> list[str]:
    """What choosing Base or stage 2 instead would give, and where."""
    found = []
    others = {0.0: [STAGE_2], 1.0: [BASE]}.get(record.weight, [BASE, STAGE_2])
    for name in others:
        changes = [(row.scores[name] - row.result, row) for row in overall(rows)]
        if all(abs(change) < _NOTHING for change, _ in changes):
            continue
        best, worst = max(changes, key=_first), min(changes, key=_first)
        parts = [best] if best[1] is worst[1] else [best, worst]
        said = " and ".join(
            f"{_points(change)} on {setting_words(row.setting, unit)}" for change, row in parts
        )
        found.append(f"{name} instead would give {said}.")
    return found


def floor_words(rows: Sequence[Standing], unit: str) -> list[str]:
    """Where a simple model does better than the result, or that none does."""
    shown = [r for r in rows if r.floor and r.group in ("overall", ISOLATED)]
    above = [r for r in shown if _is_below(r)]
    if not shown:
        return []
    if not above:
        whole = overall(shown)
        least = min(whole, key=lambda r: _gain(r))
        return [
            f"Better than every simple model in every setting: the least lead is "
            f"{_points(_gain(least))} over {least.floor} on {setting_words(least.setting, unit)}."
        ]
    by_floor: dict[str, list[Standing]] = {}
    for row in above:
        by_floor.setdefault(row.floor, []).append(row)
    return [
        f"A simple model does better: {title} on "
        + "; ".join(_where(row, unit) for row in found)
        + "."
        for title, found in by_floor.items()
    ]


def open_ends(record: TrainingRecord) -> list[str]:
    """Stages whose epochs ended while they were still improving."""
    return [
        f"Stage {stage.stage + 1} was still improving when its {len(stage.epochs)} epochs ended: "
        "a longer one may do better (--epochs)."
        for stage in record.stages
        if stage.unfinished
    ]


def _where(row: Standing, unit: str) -> str:
    lonely = " without links" if row.group == ISOLATED else ""
    assert row.floor_score is not None
    scores = f"{_percent(row.floor_score)} against {_percent(row.result)}"
    return f"{setting_words(row.setting, unit)}{lonely} ({scores})"


def _is_below(row: Standing) -> bool:
    return _gain(row) < 0 and (row.group == "overall" or row.nodes >= _FEW)


def _gain(row: Standing) -> float:
    return math.nan if row.floor_gain is None else row.floor_gain.absolute


def _first(pair: tuple[float, Standing]) -> float:
    return pair[0]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _points(value: float) -> str:
    return f"{100 * value:+.1f} points".replace("-", "\N{MINUS SIGN}")
