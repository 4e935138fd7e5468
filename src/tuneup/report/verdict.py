"""What came out, in sentences: of a fit, and of several runs that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan

from tuneup.errors import InputError
from tuneup.evaluation import Gain, degree_groups, paired_gain
from tuneup.metrics import NodeScores
from tuneup.train import TrainingRecord

from .comparison import BASE, RESULT, STAGE_2, Row, mean_of
from .summary import ClassSummary, RunSummary
from .table import interval, metric_words, percent, points, setting_words

_SELECTIONS = {
    "transductive": "validation {metric}",
    "cold": "validation {metric} over cold copies",
    "balanced": "balanced validation {metric}",
}
_NOTHING = 5e-4
"""A difference that would be printed as 0.0 points."""
_FEW = 20
"""A group of fewer nodes than this is too small for a sentence."""


def verdict(run: RunSummary) -> list[str]:
    """The sentences about a fit in the order of their weight: first what to distrust."""
    record, classes = run.record, run.classes
    assert record is not None
    return [
        *_simple_models(run),
        *_measure(run),
        _result(record),
        *_alternatives(record, run),
        *_unfinished(record),
        *(_found(classes, run.unit) if classes and run.by_class else []),
        *([_calibration(classes, run.unit)] if classes else []),
    ]


def result_name(record: TrainingRecord) -> str:
    """``Base``, ``stage 2``, or the average of both that was selected."""
    weight = record.weight
    if weight in (0.0, 1.0):
        return "stage 2" if weight else BASE
    return f"{1 - weight:.1f} {BASE} + {weight:.1f} stage 2"


def _simple_models(run: RunSummary) -> list[str]:
    """Where a simple model does better than the result, or that none does."""
    measure = f" in {run.measure}" if run.by_class else ""
    shown = [r for r in run.rows if r.group in ("overall", "isolated") and not isnan(r.lead)]
    above = [r for r in shown if r.lead < 0 and (r.group == "overall" or r.nodes >= _FEW)]
    if not shown:
        return []
    if not above:
        least = min((r for r in shown if r.group == "overall"), key=lambda r: r.lead)
        return [
            f"Better than every simple model in every setting{measure}: the least lead is "
            f"{points(least.lead, 1)} over {least.floor} on "
            f"{setting_words(least.setting, run.unit)}."
        ]
    by_floor: dict[str, list[str]] = {}
    for row in above:
        isolated = " without links" if row.group == "isolated" else ""
        scores = f"{percent(row.floor_score)} against {percent(row.score(RESULT))}"
        where = f"{setting_words(row.setting, run.unit)}{isolated} ({scores})"
        by_floor.setdefault(row.floor, []).append(where)
    return [
        f"A simple model does better{measure}: {title} on {'; '.join(places)}."
        for title, places in by_floor.items()
    ]


def _measure(run: RunSummary) -> list[str]:
    """What a classifier is judged by, where that is not accuracy."""
    if not run.by_class:
        return []
    reason = f", as {run.reason}" if run.reason else ""
    return [f"Models are selected and compared by {run.measure}{reason}."]


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
    name = _SELECTIONS[record.selection].format(metric=metric_words(record.metric))
    sentence = f"Result: {result_name(record)}, {name} {percent(own)} ({', '.join(sides)})."
    if dial is not None and dial.ends_only:
        sentence += f" Averages of the two were not tried: {dial.ends_only}."
    return sentence


def _alternatives(record: TrainingRecord, run: RunSummary) -> list[str]:
    """What choosing Base or stage 2 instead would give, and where."""
    found = []
    whole = [row for row in run.rows if row.group == "overall"]
    for name in {0.0: [STAGE_2], 1.0: [BASE]}.get(record.weight, [BASE, STAGE_2]):
        changes = [(row.score(name) - row.score(RESULT), row) for row in whole]
        if all(abs(change) < _NOTHING for change, _ in changes):
            continue
        best, worst = (end(changes, key=lambda pair: pair[0]) for end in (max, min))
        where = " and ".join(
            f"{points(change, 1)} on {setting_words(row.setting, run.unit)}"
            for change, row in ([best] if best[1] is worst[1] else [best, worst])
        )
        found.append(f"{name} instead would give {where}.")
    return found


def _unfinished(record: TrainingRecord) -> list[str]:
    """Stages whose epochs ended while they were still improving."""
    return [
        f"{f'Stage {stage.stage + 1}' if stage.stage else BASE} was still improving when its "
        f"{len(stage.epochs)} epochs ended: a longer one may do better (--epochs)."
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
    main: Row | None = None
    others: Sequence[Row] = ()


def headline(run: RunSummary) -> Headline:
    """From the tail of the first setting that has one, or else from all of its nodes."""
    own, name = _compared(run), run.focus.name
    if not own:
        return Headline("alone")
    main = next((row for row in own if row.group == "tail"), own[0])
    of_tail = main.group == "tail"
    head = [r for r in own if of_tail and (r.setting, r.group) == (main.setting, "head")]
    others = [*head, *(row for row in _coldest(own) if row is not main)]
    guarded = all(each.guarded for each in run.focus.runs) and not run.verdict
    return Headline("kept" if guarded else main.mark(name), main, others)


def tiles(run: RunSummary) -> list[Row]:
    """The few rows that stand large under the headline: few links, many links, the coldest."""
    own = _compared(run)
    first = [row for row in own if row.setting == own[0].setting]
    shown = [row for row in first if row.group in ("tail", "head")] or first
    return [*shown, *(row for row in _coldest(own) if row not in shown)]


def _compared(run: RunSummary) -> list[Row]:
    """Rows in which the result stands beside a base."""
    name = run.focus.name
    compared = [row.scores if run.by_class else row.gains for row in run.rows]
    rows = zip(run.rows, compared, strict=True) if run.base else ()
    return [row for row, known in rows if name in known]


def _coldest(rows: Iterable[Row]) -> list[Row]:
    """Of all nodes in the setting that removes most links, if there is one."""
    return [r for r in rows if r.group == "overall" and r.setting.startswith("cold-")][-1:]


@dataclass(frozen=True)
class Difference:
    """What the second of two runs adds to the first; ``gain`` if they scored the same nodes."""

    absolute: float
    gain: Gain | None


def difference(
    before: RunSummary, after: RunSummary, setting: str, group: str
) -> Difference | None:
    """What the result of ``after`` adds to that of ``before``; None without nodes.

    Over the seeds that both have; without any, training by training, as many as both have.  Paired
    where that can be, without an interval where it cannot.
    """
    seeds = [seed for seed in before.focus.seeds if seed in after.focus.seeds]
    one, other = (_of_group(run, setting, group, seeds) for run in (before, after))
    count = min(len(one), len(other))
    if not count or not all(map(len, [*one, *other])):
        return None
    one, other = one[:count], other[:count]
    try:
        gain = paired_gain(one, other, flips=None)
        return Difference(gain.absolute, gain)
    except InputError:  # other nodes or other graphs
        return Difference(mean_of(other) - mean_of(one), None)


def _of_group(run: RunSummary, setting: str, group: str, seeds: list[int]) -> list[NodeScores]:
    own = run.focus.by_setting.get(setting, {})
    found = [own[seed] for seed in seeds if seed in own] if seeds else own.values()
    groups = [degree_groups(each, run.tail_degree) for each in found]
    return [each[group] for each in groups if group in each]


def best_run(runs: Sequence[RunSummary], labels: Sequence[str]) -> str:
    """Which run does best on tail nodes of the first setting, and whether that is sure."""
    first = runs[0]
    common = [s for s in first.settings if all(s in run.focus.settings_scored for run in runs)]
    if not common:
        return "These runs were scored in different settings, so they cannot be compared."
    setting = common[0]
    scores = [
        {row.group: row.score(run.focus.name) for row in run.score_rows if row.setting == setting}
        for run in runs
    ]
    group = "tail" if all("tail" in own for own in scores) else "overall"
    values = [own.get(group, nan) for own in scores]
    best, second, *_ = sorted(range(len(runs)), key=lambda k: -values[k])
    few = f" with few links (at most {first.tail_degree})" if group == "tail" else ""
    numbers = (
        f"{percent(values[best])} {first.metric} on {setting_words(setting, first.unit)}{few}, "
        f"against {percent(values[second])} of {labels[second]}"
    )
    gap = difference(runs[second], runs[best], setting, group)
    if gap is None or gap.gain is None:
        return (
            f"{labels[best]} scores highest: {numbers}. They scored different {first.unit}, so "
            "this says little about which model is better."
        )
    seeds = gap.gain.seeds
    spread = f"{points(gap.absolute)}, 95 % interval {interval(gap.gain)}"
    if any(len(run.focus.seeds) > seeds for run in (runs[best], runs[second])):
        spread += f", of {seeds} training{'s' * (seeds > 1)} each"
    if gap.gain.low > 0:
        once = " Each is one training: other seeds may turn this around." * (seeds == 1)
        return f"{labels[best]} does best: {numbers} ({spread}).{once}"
    return f"No run is significantly better: {labels[best]} has {numbers} ({spread})."
