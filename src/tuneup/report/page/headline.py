"""The first thing that is read: what came out, in one sentence that the numbers allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneup.evaluation import over_seeds
from tuneup.report.comparison import ComparisonRow
from tuneup.report.summary import RunSummary

from .scores import verdict
from .words import GROUPS, interval, percent, points, setting_words


@dataclass(frozen=True)
class Headline:
    """``kind`` is better, worse, same, kept (the guard kept Base) or alone (nothing to compare)."""

    kind: str
    sentence: str
    notes: Sequence[str] = ()


def headline(run: RunSummary, rows: Sequence[ComparisonRow]) -> Headline:
    """From the tail of the first setting that has one, or else from all of its nodes."""
    focus = run.focus
    own = [row for row in rows if row.method == focus.name and row.gain is not None]
    if not own:
        return _alone(run)
    row = next((row for row in own if row.group == "tail"), own[0])
    assert row.gain is not None
    guarded = sum(each.guarded for each in focus.runs)
    if guarded == len(focus.runs):
        return Headline(
            "kept",
            f"{focus.name} did not help here: its fine-tuning did worse in validation than the "
            f"base model, so the base model was kept, with {percent(row.base)} {run.metric} "
            f"{_where(row, run)}.",
        )
    kind = verdict(row)
    scores = (
        f"{percent(row.score)} {run.metric} {_where(row, run)}, "
        f"where the base model reaches {percent(row.base)}"
    )
    said = f"95 % interval {interval(row.gain)}" if row.has_interval else "one node only"
    gain = f"{points(row.gain.absolute)}, {said}"
    sentence = {
        "better": f"{focus.name} helped: {scores} ({gain}).",
        "worse": f"{focus.name} did harm: {scores} ({gain}).",
        "same": f"{focus.name} made no difference that could be told from chance: "
        f"{scores} ({gain}).",
    }[kind]
    notes = [*_head_note(own, row, run), *_cold_note(own, row, run)]
    if guarded:
        notes.append(
            f"In {guarded} of {len(focus.runs)} trainings the fine-tuning did worse in validation "
            "and the base model was kept."
        )
    return Headline(kind, sentence, notes)


def _where(row: ComparisonRow, run: RunSummary) -> str:
    few = f" with few links (at most {run.tail_degree})" if row.group == "tail" else ""
    return f"on {setting_words(row.setting, run.unit)}{few}"


def _head_note(rows: Sequence[ComparisonRow], main: ComparisonRow, run: RunSummary) -> list[str]:
    head = next((r for r in rows if r.setting == main.setting and r.group == "head"), None)
    if head is None or head.gain is None or main.group != "tail":
        return []
    words = {
        "better": "gained too",
        "worse": "paid for it",
        "same": "stayed where they were, as far as can be told",
    }[verdict(head)]
    return [f"{run.unit.capitalize()} with many links {words}: {_change(head)}."]


def _cold_note(rows: Sequence[ComparisonRow], main: ComparisonRow, run: RunSummary) -> list[str]:
    cold = [r for r in rows if r.group == "overall" and r.setting.startswith("cold-")]
    if not cold or cold[-1].setting == main.setting:
        return []
    last = cold[-1]
    words = setting_words(last.setting, run.unit).replace(", ", " with ")
    return [f"Hardest case, {words}: {_change(last)}."]


def _change(row: ComparisonRow) -> str:
    assert row.gain is not None
    said = f", 95 % interval {interval(row.gain)}" if row.has_interval else ""
    return f"{percent(row.base)} to {percent(row.score)} ({points(row.gain.absolute)}{said})"


def _alone(run: RunSummary) -> Headline:
    setting = run.focus.settings_scored[0]
    mean = over_seeds(scores.mean() for scores in run.focus.scores(setting)).mean
    return Headline(
        "alone",
        f"{run.focus.name} reaches {percent(mean)} {run.metric} on "
        f"{setting_words(setting, run.unit)}.",
        ["This run has no base model beside it, so nothing can be said about a gain."],
    )


def tiles(run: RunSummary, rows: Sequence[ComparisonRow]) -> list[tuple[str, ComparisonRow]]:
    """The few rows that stand large under the headline: few links, many links, the coldest."""
    own = [row for row in rows if row.method == run.focus.name and row.gain is not None]
    first = [row for row in own if own and row.setting == own[0].setting]
    found = [
        (f"{GROUPS[row.group]}" if row.group != "overall" else f"all {run.unit}", row)
        for row in first
    ]
    shown = [(label.capitalize(), row) for label, row in found if row.group != "overall"] or found
    cold = [row for row in own if row.group == "overall" and row.setting.startswith("cold-")]
    if cold:
        shown.append((setting_words(cold[-1].setting, run.unit).capitalize(), cold[-1]))
    return shown[:3]
