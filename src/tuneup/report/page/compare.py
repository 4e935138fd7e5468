"""The page of several runs: the same charts, a column a run, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuneup.errors import InputError
from tuneup.evaluation import MISSING, over_seeds
from tuneup.report.summary import MethodSummary, RunSummary

from .background import glossary
from .markup import Html, facts, join, table, tag, verbatim
from .scores import Difference, difference, group_label, group_scores
from .sections import section
from .series import MOST_RUNS, Series
from .single import WORDS, Body, chart_sections, draw
from .words import GROUPS, interval, listed, percent, points, setting_words, signed


def check_comparable(runs: Sequence[RunSummary]) -> None:
    """Refuse runs whose scores do not mean the same."""
    for what in ("task", "metric", "unit", "tail_degree"):
        found = {str(getattr(run, what)): run.title for run in runs}
        if len(found) > 1:
            said = "; ".join(f"{title} has {value}" for value, title in found.items())
            raise InputError(f"only runs of one {what.replace('_', ' ')} can be compared: {said}")
    if len(runs) > MOST_RUNS:
        raise InputError(f"at most {MOST_RUNS} runs can be told apart in a page, got {len(runs)}")


def labels_of(runs: Sequence[RunSummary], names: Sequence[str]) -> list[str]:
    """Last parts of the names, or all of them, or titles: what comes first to tell them apart."""
    ends = [Path(name).name for name in names]
    for labels in (ends, list(names), [run.title for run in runs]):
        if len(labels) == len(runs) == len(set(labels)):
            return labels
    return [f"{index + 1}: {run.title}" for index, run in enumerate(runs)]


def compare_body(
    runs: Sequence[RunSummary], labels: Sequence[str], series: Sequence[Series]
) -> Body:
    """A headline, the runs, scores and differences, the charts."""
    settings = list(dict.fromkeys(s for run in runs for s in run.settings))
    drawn, first = draw(series, settings), runs[0]
    good = [
        tag(
            "p",
            f"Scores are {first.metric} in per cent. Each run is compared with "
            f"{labels[0]}, the first: in points, with the 95 % interval where both scored the same "
            f"{first.unit} with the same links. Where they did not, a difference may come from the "
            f"{first.unit} and not from the models, and has no interval.",
        ),
        _score_table(runs, labels, settings),
        _difference_table(runs, labels, settings),
    ]
    parts = {
        "verdict": tag(
            "div",
            tag("p", _headline(runs, labels), cls="headline", id="headline"),
            cls="verdict same",
        ),
        "trained": section("trained", "What was trained", _runs_table(runs, labels)),
        "good": section("good", "How good, and how different", *good),
        **chart_sections(first, drawn),
        "data": section("data", "The data", *_each(runs, labels, "data")),
        "reproduce": section("reproduce", "How to get the same again", *_commands(runs, labels)),
        "glossary": glossary(first),
    }
    return Body(
        f"{len(runs)} runs compared",
        listed(list(labels)),
        join(parts.values(), "\n"),
        {name: [view.spec for view in views] for name, views in drawn.items()},
        {name: WORDS[name] for name, part in parts.items() if part and name in WORDS},
    )


def _score(run: RunSummary, method: MethodSummary, setting: str, group: str) -> float:
    found = group_scores(method, setting, group, run.tail_degree)
    return over_seeds(each.mean() for each in found).mean


def _headline(runs: Sequence[RunSummary], labels: Sequence[str]) -> str:
    """Which run does best on tail nodes of the first setting, and whether that is sure."""
    first = runs[0]
    common = [s for s in first.settings if all(s in run.focus.settings_scored for run in runs)]
    if not common:
        return "These runs were scored in different settings, so none of them can be called better."
    setting = common[0]
    found = {
        group: [_score(run, run.focus, setting, group) for run in runs]
        for group in ("tail", "overall")
    }
    group = next((g for g, own in found.items() if all(v == v for v in own)), "overall")
    values = found[group]
    order = sorted(range(len(runs)), key=lambda k: -values[k])
    best, second = order[0], order[1]
    few = f" with few links (at most {first.tail_degree})" if group == "tail" else ""
    where = f"{setting_words(setting, first.unit)}{few}"
    gap = _between(runs[second], runs[best], setting, group)
    sure = gap is not None and gap.gain is not None and gap.gain.low > 0
    numbers = (
        f"{percent(values[best])} {first.metric} on {where}, against {percent(values[second])} of "
        f"{labels[second]}"
    )
    if gap is None or gap.gain is None:
        return (
            f"{labels[best]} scores highest: {numbers}. They scored different {first.unit}, so "
            "this says little about which model is better."
        )
    said = f"{points(gap.absolute)}, 95 % interval {interval(gap.gain)}"
    if any(len(run.focus.seeds) > gap.gain.seeds for run in (runs[best], runs[second])):
        said += f", of {gap.gain.seeds} training{'s' * (gap.gain.seeds > 1)} each"
    once = " Each is one training: other seeds may turn this around." * (gap.gain.seeds == 1)
    if sure:
        return f"{labels[best]} does best: {numbers} ({said}).{once}"
    return f"No run is best for sure: {labels[best]} has {numbers}, which may be chance ({said})."


def _between(before: RunSummary, after: RunSummary, setting: str, group: str) -> Difference | None:
    """What the method that ``after`` is about adds to that of ``before``.

    Over the seeds that both have; without any, training by training, as they come.
    """
    seeds = [seed for seed in before.focus.seeds if seed in after.focus.seeds] or None
    one, other = (
        group_scores(run.focus, setting, group, run.tail_degree, seeds) for run in (before, after)
    )
    return difference(one, other)


def _score_table(
    runs: Sequence[RunSummary], labels: Sequence[str], settings: Sequence[str]
) -> Html:
    head: list[object] = [""]
    for run, label in zip(runs, labels, strict=True):
        head += [f"{label}: Base"] * (run.base is not None) + [f"{label}: {run.focus.name}"]
    rows = []
    for setting, group, name in _places(settings, runs[0].unit):
        row: list[object] = [name]
        for run in runs:
            if run.base is not None:
                row.append(percent(_score(run, run.base, setting, group), 2))
            row.append(percent(_score(run, run.focus, setting, group), 2))
        rows.append(row)
    return table(head, rows, "Scores of each run", "scores differences")


def _difference_table(
    runs: Sequence[RunSummary], labels: Sequence[str], settings: Sequence[str]
) -> Html:
    head = ["", *(f"{label} minus {labels[0]}" for label in labels[1:])]
    rows = [
        [name, *(_difference_cell(_between(runs[0], run, setting, group)) for run in runs[1:])]
        for setting, group, name in _places(settings, runs[0].unit)
    ]
    caption = "What each run adds to the first, in points (95 % interval)"
    return table(head, rows, caption, "scores differences")


def _places(settings: Sequence[str], unit: str) -> list[tuple[str, str, Html]]:
    """Setting, group and what their row is called."""
    return [(s, group, group_label(s, group, unit)) for s in settings for group in GROUPS]


def _difference_cell(found: Difference | None) -> object:
    if found is None:
        return MISSING
    gain = found.gain
    if gain is None or gain.nodes < 2:
        return signed(100 * found.absolute, 2)
    kind = "better" if gain.low > 0 else "worse" if gain.high < 0 else "same"
    return tag(
        "span", f"{signed(100 * found.absolute, 2)} ({interval(gain, 2)})", cls=f"gain {kind}"
    )


def _runs_table(runs: Sequence[RunSummary], labels: Sequence[str]) -> Html:
    rows = [
        [
            label,
            run.data.get("graph", MISSING),
            run.architecture,
            listed([method.name for method in run.methods]),
            listed([str(seed) for seed in run.seeds]),
            f"{sum(each.guarded for each in run.focus.runs)} of {len(run.focus.runs)}",
        ]
        for run, label in zip(runs, labels, strict=True)
    ]
    head = ["run", "graph", "model", "methods", "seeds", "trainings that kept Base"]
    return table(head, rows, "The runs", "stages")


def _each(runs: Sequence[RunSummary], labels: Sequence[str], what: str) -> list[Html]:
    return [
        tag("div", tag("h3", label), facts(getattr(run, what)))
        for run, label in zip(runs, labels, strict=True)
    ]


def _commands(runs: Sequence[RunSummary], labels: Sequence[str]) -> list[Html]:
    found = []
    for run, label in zip(runs, labels, strict=True):
        command = run.command or "(the command was not recorded)"
        made = {**run.versions, **run.machine}
        found.append(tag("div", tag("h3", label), verbatim(command), facts(made)))
    return found
