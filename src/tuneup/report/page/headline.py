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
    guarded = 0 if run.verdict else sum(each.guarded for each in focus.runs)
    if guarded == len(focus.runs):
        return Headline(
            "kept",
            f"{focus.name} did not help here: its fine-tuning did worse in validation than the "
            f"base model, so the base model was selected, with {percent(row.base)} {run.metric} "
            f"{_where(row, run)}.",
        )
    kind = verdict(row)
    if run.verdict:
        return Headline(kind, run.verdict[0], run.verdict[1:])
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
    notes = _notes(own, row, run)
    if guarded:
        notes.append(
            f"In {guarded} of {len(focus.runs)} trainings the fine-tuning did worse in validation "
            "and the base model was kept."
        )
    return Headline(kind, sentence, notes)


def _where(row: ComparisonRow, run: RunSummary) -> str:
    few = f" with few links (at most {run.tail_degree})" if row.group == "tail" else ""
    return f"on {setting_words(row.setting, run.unit)}{few}"


def _notes(rows: Sequence[ComparisonRow], main: ComparisonRow, run: RunSummary) -> list[str]:
    """What became of the well linked and of the coldest; the tiles have the numbers."""
    head = [r for r in rows if r.setting == main.setting and r.group == "head"]
    cold = [r for r in rows if r.group == "overall" and r.setting.startswith("cold-")]
    found = [(f"{run.unit} with many links", row) for row in head if main.group == "tail"]
    found += [(_cold_words(row, run), row) for row in cold[-1:] if row is not main]
    ends = {
        "better": "also gained" if verdict(main) == "better" else "gained",
        "worse": "lost",
        "same": "stayed where they were, as far as can be told",
    }
    sentences = [f"{who[0].upper()}{who[1:]} {ends[verdict(row)]}." for who, row in found]
    return [" ".join(sentences)] if sentences else []


def _cold_words(row: ComparisonRow, run: RunSummary) -> str:
    return setting_words(row.setting, run.unit).replace(", ", " with ")


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
    first = [row for row in own if row.setting == own[0].setting]
    shown = [row for row in first if row.group != "overall"] or first
    shown += [r for r in own if r.group == "overall" and r.setting.startswith("cold-")][-1:]
    return [(_tile_label(row, run.unit), row) for row in dict.fromkeys(shown)]


def _tile_label(row: ComparisonRow, unit: str) -> str:
    where = setting_words(row.setting, unit).capitalize()
    return where if row.group == "overall" else f"{where}, {GROUPS[row.group]}"
