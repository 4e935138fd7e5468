"""The tables and sentences of a page's sections, and how compared runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from tuneup.errors import InputError
from tuneup.evaluation import (
    MISSING,
    ClassGroup,
    Gain,
    GroupMean,
    head_tail,
    paired_gain,
    split_by_degree,
)
from tuneup.evaluation.classes import MEASURES
from tuneup.metrics import NodeScores

from .comparison import (
    ComparisonRow,
    class_standings,
    gain_mark,
    gains_table,
    group_label,
    mean_of,
    standings,
    standings_table,
)
from .summary import RESULT, ClassSummary, MethodSummary, RunSummary
from .table import Cell, Table
from .words import (
    GROUPS,
    capital,
    interval,
    metric_words,
    percent,
    points,
    setting_words,
    signed,
)

_MOST_CLASSES = 12
"""Classes up to which the whole confusion table is shown; of more, the commonest confusions."""


def run_tables(run: RunSummary, rows: Sequence[ComparisonRow]) -> dict[str, Table | None]:
    """The tables of a run's page by name; None where the run has nothing for one.

    Args:
        run: to be shown.
        rows: its methods against its base.
    """
    own = [row for row in rows if row.method == run.focus.name]
    several = 0 < len(own) < len(rows)
    caption = f"{capital(run.metric)}, and the gain over Base"
    return {
        "standings": _standings(run),
        "scores": gains_table(own if several else rows, caption, run.unit)
        if rows
        else _plain_scores(run),
        "all_scores": gains_table(rows, caption, run.unit) if several else None,
        "data": _data(run),
        **({} if run.classes is None else _classes(run.classes, run.unit)),
    }


def _standings(run: RunSummary) -> Table | None:
    """Every model of a single fit beside the best simple one, group by group."""
    if len(run.seeds) > 1 or run.base is None or not (run.floors or run.verdict):
        return None
    models = {method.name: method.runs[0].scores for method in run.methods}
    rows = standings(models, run.floors, run.tail_degree)
    return standings_table(rows, run.metric, run.unit, page=True)


def _plain_scores(run: RunSummary) -> Table:
    """Scores with their own intervals, for a run that has nothing to be compared with."""
    body: list[list[str | Cell]] = []
    for setting in run.settings:
        for method in run.methods:
            scores = method.scores(setting)
            groups = head_tail(scores[0], run.tail_degree) if len(scores) == 1 else {}
            for group in GROUPS:
                runs = _group_scores(method, setting, group, run.tail_degree)
                nodes = f"{len(runs[0]):,}" if runs else MISSING
                cells = [nodes, method.name, percent(mean_of(runs), 2), _ends(groups.get(group))]
                body.append([group_label(setting, group, run.unit), *cells])
    head = ["", run.unit, "method", run.metric, "95 % interval"]
    return Table(head, body, capital(run.metric), classes="scores plain")


def _ends(found: GroupMean | None) -> str:
    if found is None or found.low != found.low:
        return MISSING
    return f"{100 * found.low:.1f} to {100 * found.high:.1f} %"


def _group_scores(
    method: MethodSummary,
    setting: str,
    group: str,
    tail_degree: int,
    seeds: Sequence[int] | None = None,
) -> list[NodeScores]:
    """A method's scores of one group, a training each: all, or those of some seeds."""
    return [split_by_degree(run, tail_degree)[group] for run in method.scores(setting, seeds)]


def _classes(found: ClassSummary, unit: str) -> dict[str, Table | None]:
    """Measures of every model; confusion and calibration in the first setting."""
    setting, report = next(iter(found.result.items()))
    where = setting_words(setting, unit)
    measures: list[list[str | Cell]] = [
        [group_label(name, "overall", unit), *_measures(each.groups["overall"])]
        for name, each in found.result.items()
    ]
    return {
        "class_models": standings_table(class_standings(found), found.score_words, unit, page=True),
        "measures": _numbers(
            ["", *map(metric_words, MEASURES)], measures, f"All measures of {RESULT}"
        ),
        "confusion": _confusion(found, report.confusion, where),
    }


def _numbers(head: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str) -> Table:
    return Table(head, rows, caption, classes="numbers")


def _measures(group: ClassGroup) -> Iterable[str]:
    for name in MEASURES:
        value = group.measures[name]
        yield f"{value:.3f}" if name == "log-loss" and value is not None else percent(value)


def _confusion(found: ClassSummary, confusion: Sequence[Sequence[int]], where: str) -> Table:
    names = found.names
    if len(names) <= _MOST_CLASSES:
        head = ["true class", *(f"as {name}" for name in names)]
        rows = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(names, confusion, strict=True)
        ]
        return _numbers(head, rows, f"Confusion: {where} by true and by predicted class")
    cells = [
        (-count, true, predicted)
        for true, row in enumerate(confusion)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    rows = [
        [names[true], names[predicted], f"{-count:,}"]
        for count, true, predicted in sorted(cells)[:_MOST_CLASSES]
    ]
    head = ["true class", "predicted class", "nodes"]
    return _numbers(head, rows, f"The commonest confusions among {where}")


def _data(run: RunSummary) -> Table:
    """How many links the scored nodes have in each setting."""
    rows = []
    for setting in run.settings:
        found = next((m.scores(setting)[0] for m in run.methods if m.scores(setting)), None)
        if found is not None and len(found):
            degree = found.degree
            few = int((degree <= run.tail_degree).sum())
            rows.append(
                [
                    setting_words(setting, run.unit),
                    f"{len(found):,}",
                    f"{few:,} ({percent(few / len(found), 0)})",
                    f"{int(torch.median(degree)):,}",
                    f"{int(degree.max()):,}",
                ]
            )
    few_links = f"with at most {run.tail_degree} links"
    head = ["", f"scored {run.unit}", few_links, "median links", "most links"]
    return Table(head, rows, f"Scored {run.unit}")


def comparison_tables(
    runs: Sequence[RunSummary], labels: Sequence[str], settings: Sequence[str]
) -> dict[str, Table | None]:
    """The scores of the runs, and what each adds to the first."""
    first = runs[0]
    heads = [""]
    scores: list[list[str | Cell]] = []
    differences: list[list[str | Cell]] = []
    for run, label in zip(runs, labels, strict=True):
        heads += [f"{label}: Base"] * (run.base is not None) + [f"{label}: {run.focus.name}"]
    for setting in settings:
        for group in GROUPS:
            name = group_label(setting, group, first.unit)
            methods = [(run, m) for run in runs for m in (run.base, run.focus) if m is not None]
            scores.append([name, *(percent(_mean(*each, setting, group), 2) for each in methods)])
            cells = [_difference_cell(_between(first, run, setting, group)) for run in runs[1:]]
            differences.append([name, *cells])
    minus = ["", *(f"{label} minus {labels[0]}" for label in labels[1:])]
    caption = "What each run adds to the first, in points (95 % interval)"
    return {
        "scores": Table(heads, scores, "Scores of each run", classes="scores differences"),
        "differences": Table(minus, differences, caption, classes="scores differences"),
    }


def best_run(runs: Sequence[RunSummary], labels: Sequence[str]) -> str:
    """Which run does best on tail nodes of the first setting, and whether that is sure."""
    first = runs[0]
    common = [s for s in first.settings if all(s in run.focus.settings_scored for run in runs)]
    if not common:
        return "These runs were scored in different settings, so they cannot be compared."
    setting = common[0]
    found = {
        group: [_mean(run, run.focus, setting, group) for run in runs]
        for group in ("tail", "overall")
    }
    group = next((g for g, own in found.items() if all(v == v for v in own)), "overall")
    values = found[group]
    best, second, *_ = sorted(range(len(runs)), key=lambda k: -values[k])
    few = f" with few links (at most {first.tail_degree})" if group == "tail" else ""
    numbers = (
        f"{percent(values[best])} {first.metric} on {setting_words(setting, first.unit)}{few}, "
        f"against {percent(values[second])} of {labels[second]}"
    )
    gap = _between(runs[second], runs[best], setting, group)
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


def _mean(run: RunSummary, method: MethodSummary, setting: str, group: str) -> float:
    return mean_of(_group_scores(method, setting, group, run.tail_degree))


@dataclass(frozen=True)
class _Difference:
    """What the second of two runs adds to the first; ``gain`` if they scored the same nodes."""

    absolute: float
    gain: Gain | None


def _between(before: RunSummary, after: RunSummary, setting: str, group: str) -> _Difference | None:
    """What the result of ``after`` adds to that of ``before``; None without nodes.

    Over the seeds that both have; without any, training by training, as many as both have.  Paired
    where that can be, without an interval where it cannot.
    """
    seeds = [seed for seed in before.focus.seeds if seed in after.focus.seeds] or None
    one, other = (
        _group_scores(run.focus, setting, group, run.tail_degree, seeds) for run in (before, after)
    )
    count = min(len(one), len(other))
    if not count or not all(map(len, [*one, *other])):
        return None
    one, other = one[:count], other[:count]
    try:
        gain = paired_gain(one, other, flips=None)
        return _Difference(gain.absolute, gain)
    except InputError:  # other nodes or other graphs
        return _Difference(mean_of(other) - mean_of(one), None)


def _difference_cell(found: _Difference | None) -> str | Cell:
    if found is None:
        return MISSING
    gain = found.gain
    if gain is None or gain.nodes < 2:
        return signed(100 * found.absolute, 2)
    text = f"{signed(100 * found.absolute, 2)} ({interval(gain, 2)})"
    return Cell(text, gain_mark(gain, gain.nodes))
