"""How good: the comparison of a run's methods with its base, row by row, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuneup.errors import InputError
from tuneup.evaluation import (
    MISSING,
    Gain,
    GroupMean,
    head_tail,
    over_seeds,
    paired_gain,
    split_by_degree,
)
from tuneup.metrics import NodeScores
from tuneup.report.comparison import ComparisonRow, comparison_rows
from tuneup.report.standings import Standing, standings
from tuneup.report.summary import MethodSummary, RunSummary

from .markup import Html, join, table, tag
from .words import GROUP_NAMES, GROUPS, interval, percent, points, setting_words, signed


def gain_rows(run: RunSummary) -> list[ComparisonRow]:
    """Every method against the base, over the seeds that both have; empty without a base."""
    base = run.base
    others = [method for method in run.methods if method is not base]
    if base is None or not others:
        return []
    found: list[ComparisonRow] = []
    for method in others:
        seeds = [seed for seed in base.seeds if seed in method.seeds]
        settings = [s for s in base.settings_scored if s in method.settings_scored]
        before, after = (
            {setting: own.scores(setting, seeds) for setting in settings} for own in (base, method)
        )
        if seeds and settings:
            found += comparison_rows(before, {method.name: after}, run.tail_degree)
    order = {(s, g): k for k, (s, g) in enumerate((s, g) for s in run.settings for g in GROUPS)}
    return sorted(found, key=lambda row: order[row.setting, row.group])


def group_scores(
    method: MethodSummary,
    setting: str,
    group: str,
    tail_degree: int,
    seeds: Sequence[int] | None = None,
) -> list[NodeScores]:
    """A method's scores of one group, a training each: all, or those of some seeds."""
    return [split_by_degree(run, tail_degree)[group] for run in method.scores(setting, seeds)]


@dataclass(frozen=True)
class Difference:
    """What the second of two runs adds to the first; ``gain`` if they scored the same nodes."""

    absolute: float
    gain: Gain | None


def difference(before: Sequence[NodeScores], after: Sequence[NodeScores]) -> Difference | None:
    """Paired where that can be, without an interval where it cannot; None without nodes.

    Of the longer only as many trainings as the shorter has.
    """
    if not all(runs and all(map(len, runs)) for runs in (before, after)):
        return None
    count = min(len(before), len(after))
    before, after = before[:count], after[:count]
    try:
        gain = paired_gain(before, after, flips=None)
        return Difference(gain.absolute, gain)
    except InputError:  # other nodes or other graphs
        first, second = (over_seeds(run.mean() for run in runs).mean for runs in (before, after))
        return Difference(second - first, None)


def standings_block(run: RunSummary) -> Html:
    """Every model of a single fit beside the best simple one, group by group."""
    if len(run.seeds) > 1 or run.base is None or not (run.floors or run.verdict):
        return Html("")
    models = {method.name: method.runs[0].scores for method in run.methods}
    rows = standings(models, run.floors, run.tail_degree)
    simple = bool(run.floors)
    head = ["", run.unit, *models, *(["best simple model"] if simple else [])]
    body = [
        [group_label(row.setting, row.group, run.unit), *_standing(row, simple)] for row in rows
    ]
    return table(head, body, f"{_capital(run.metric)} of every model", "scores standings")


def _standing(row: Standing, simple: bool) -> list[object]:
    scores: list[object] = [percent(score) for score in row.scores.values()]
    if not simple:
        return [f"{row.nodes:,}", *scores]
    if row.floor_score is None:
        return [f"{row.nodes:,}", *scores, MISSING]
    kind = "worse" if row.result < row.floor_score else "same"
    said = tag("span", percent(row.floor_score), cls=f"gain {kind}")
    return [f"{row.nodes:,}", *scores, join([said, f" {row.floor}"])]


def gain_tables(run: RunSummary, rows: Sequence[ComparisonRow]) -> Html:
    """The method that the run is about; behind it, where there are more, all of them."""
    own = [row for row in rows if row.method == run.focus.name]
    if not own or len(own) == len(rows):
        return _gain_table(run, rows)
    summary = tag("summary", f"All {len(run.methods) - 1} methods against Base")
    return join([_gain_table(run, own), tag("details", summary, _gain_table(run, rows))])


def _gain_table(run: RunSummary, rows: Sequence[ComparisonRow]) -> Html:
    """Settings by group: both scores, the gain, its interval, and a picture of the two."""
    several = len({row.method for row in rows}) > 1
    span = max((max(abs(r.gain.low), abs(r.gain.high)) for r in rows if r.gain), default=0.0)
    head = ["", run.unit, "Base", *(["method", "score"] if several else [rows[0].method])]
    head += ["gain, points", "95 % interval", "drawn"]
    cls = "scores several" if several else "scores"
    body: list[list[object]] = []
    for index, row in enumerate(rows):
        again = index > 0 and _place(rows[index - 1]) == _place(row)
        group: Sequence[object] = [_label(run, row), f"{row.nodes:,}", percent(row.base, 2)]
        if again:
            group = ["", "", ""]
        scores = [row.method] * several + [percent(row.score, 2)]
        body.append([*group, *scores, *_gain_cells(row, span)])
    return table(head, body, f"{_capital(run.metric)}, and what is added to Base", cls)


def plain_table(run: RunSummary) -> Html:
    """Scores with their own intervals, for a run that has nothing to be compared with."""
    body: list[list[object]] = []
    for setting in run.settings:
        for method in run.methods:
            scores = method.scores(setting)
            groups = head_tail(scores[0], run.tail_degree) if len(scores) == 1 else {}
            for group in GROUPS:
                runs = group_scores(method, setting, group, run.tail_degree)
                mean = over_seeds(each.mean() for each in runs).mean
                label = group_label(setting, group, run.unit)
                cells = [method.name, percent(mean, 2), _own_interval(groups.get(group))]
                body.append([label, f"{len(runs[0]):,}" if runs else MISSING, *cells])
    head = ["", run.unit, "method", run.metric, "95 % interval"]
    return table(head, body, _capital(run.metric), "scores plain")


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _own_interval(found: GroupMean | None) -> str:
    if found is None or found.low != found.low:
        return MISSING
    return f"{100 * found.low:.1f} to {100 * found.high:.1f} %"


def _place(row: ComparisonRow) -> tuple[str, str, str]:
    """What a method is held against: Base's score is over the seeds that both have."""
    return row.setting, row.group, percent(row.base, 2)


def _label(run: RunSummary, row: ComparisonRow) -> Html:
    return group_label(row.setting, row.group, run.unit)


def group_label(setting: str, group: str, unit: str) -> Html:
    """What the row of a group is called, below that of its setting."""
    if group == "overall":
        return tag("strong", setting_words(setting, unit))
    return tag("span", GROUP_NAMES[group], cls="indent")


def _gain_cells(row: ComparisonRow, span: float) -> Iterable[object]:
    if row.gain is None:
        return [MISSING, MISSING, ""]
    kind = verdict(row)
    cell = tag("span", signed(100 * row.gain.absolute, 2), cls=f"gain {kind}")
    if not row.has_interval:
        return [cell, MISSING, ""]
    return [cell, interval(row.gain, 2), _whisker(row.gain, span, kind)]


def verdict(row: ComparisonRow) -> str:
    """``better`` or ``worse`` only if the whole interval is on one side of zero."""
    if row.gain is None or not row.has_interval or row.gain.low <= 0 <= row.gain.high:
        return "same"
    return "better" if row.gain.low > 0 else "worse"


def _whisker(gain: Gain, span: float, kind: str) -> Html:
    """The gain as a dot on its interval, zero in the middle; all rows on one scale."""
    half, middle = 60.0, 64.0

    def at(value: float) -> str:
        return f"{middle + (half * value / span if span else 0.0):.1f}"

    parts = [
        tag("line", x1="64", x2="64", y1="1", y2="15", cls="zero"),
        tag("line", x1=at(gain.low), x2=at(gain.high), y1="8", y2="8", cls="range"),
        tag("circle", cx=at(gain.absolute), cy="8", r="3.2"),
    ]
    label = f"{points(gain.absolute)}, interval {interval(gain)}"
    return tag(
        "svg",
        join(parts),
        viewBox="0 0 128 16",
        cls=f"whisker {kind}",
        role="img",
        aria_label=label,
    )
