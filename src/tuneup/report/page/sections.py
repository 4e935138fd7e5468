"""The page's sections, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tuneup.report.comparison import ComparisonRow
from tuneup.report.summary import MethodSummary, RunSummary, StageSummary

from .charts import View
from .headline import Headline, tiles
from .markup import Html, facts, join, table, tag, verbatim
from .words import (
    ARCHITECTURES,
    interval,
    listed,
    metric_meaning,
    percent,
    points,
    seconds_words,
    setting_meaning,
    setting_words,
    task_words,
)


def section(name: str, heading: str, *content: object) -> Html:
    """A part of the page that can be linked to."""
    title = tag("h2", heading, id=f"{name}-heading")
    return tag("section", title, *content, id=name, aria_labelledby=f"{name}-heading")


def verdict_block(run: RunSummary, found: Headline, rows: Sequence[ComparisonRow]) -> Html:
    """The sentence, what else must be said with it, and the numbers in large."""
    notes = [tag("p", note) for note in found.notes]
    cards = []
    for label, row in tiles(run, rows):
        assert row.gain is not None
        said = f"95 % interval {interval(row.gain)}" if row.has_interval else "no interval"
        cards.append(
            tag(
                "div",
                tag("h3", label),
                tag("p", percent(row.base), " → ", tag("strong", percent(row.score)), cls="big"),
                tag("p", points(row.gain.absolute), cls="small"),
                tag("p", said, cls="small"),
                cls="tile",
            )
        )
    return tag(
        "div",
        tag("p", found.sentence, cls="headline", id="headline"),
        *notes,
        tag("div", *cards, cls="tiles") if cards else "",
        cls=f"verdict {found.kind}",
    )


def trained(run: RunSummary) -> Html:
    """What was trained: the task, the model, and the stages of each method."""
    metric = metric_meaning(run.metric, run.task)
    model = ARCHITECTURES.get(run.architecture, run.architecture)
    said = tag(
        "p",
        f"A graph is a set of {run.unit} and the links between them. A graph neural network looks "
        f"at each of the {run.unit} together with its neighbours. Here it learns to "
        f"{task_words(run.task)}. The model is {model}. Its score is {run.metric}: "
        f"{metric[0].lower()}{metric[1:]}",
    )
    why = tag(
        "p",
        f"Such models do well where there are many links and badly where there are few: {run.unit} "
        f"with at most {run.tail_degree} links are called tail {run.unit}, the others head "
        f"{run.unit}. TuneUp trains as usual (stage 1, Base) and then goes on with a part of all "
        "links hidden, so that the model practises on tail-like cases (stage 2). It keeps what "
        "does best on validation data, which is neither trained nor tested on.",
    )
    rows = [
        [*_stage_cells(method, k, stage)]
        for method in run.methods
        for k, stage in enumerate(method.runs[0].stages)
    ]
    head = ["method", "stage", "what it does", "epochs", "best validation", "why it stopped"]
    seeds = len(run.seeds)
    caption = "The stages of each method" + (
        f" (of seed {run.methods[0].seeds[0]}; there are {seeds} seeds)" if seeds > 1 else ""
    )
    stages = table(head, rows, caption, "stages") if rows else ""
    return section("trained", "What was trained", said, why, stages, _time(run))


def _stage_cells(method: MethodSummary, k: int, stage: StageSummary) -> list[object]:
    first = method.runs[0]
    kept = len(first.stages) > 1 and first.winner == k
    best = (
        ""
        if stage.best_score is None
        else f"{percent(stage.best_score)} (epoch {stage.best_epoch})"
    )
    extra = f"; {stage.pseudo_labels:,} guesses" if stage.pseudo_labels else ""
    return [
        method.name,
        join([str(k + 1), tag("span", " kept", cls="badge") if kept else ""]),
        f"{stage.words}{extra}",
        str(stage.epochs),
        best,
        stage.stopped,
    ]


def _time(run: RunSummary) -> Html:
    times = {
        method.name: [each.seconds for each in method.runs if each.seconds is not None]
        for method in run.methods
    }
    words = [f"{name} {seconds_words(sum(own) / len(own))}" for name, own in times.items() if own]
    if not words:
        return Html("")
    each = " (mean of its seeds)" if len(run.seeds) > 1 else ""
    return tag("p", f"Time spent in training{each}: {listed(words)}.", cls="note")


def chart(name: str, title: str, views: Sequence[View], *, long: bool = False) -> Html:
    """A place for ``chart.js`` to draw in, and behind it the numbers."""
    tables = [table(v.head, v.rows, f"{title}: {v.spec['label']}", "numbers") for v in views]
    return join(
        [
            tag(
                "figure",
                tag("noscript", "The picture needs JavaScript; the numbers below do not."),
                cls="chart",
                data_chart=name,
                aria_label=title,
            ),
            tag(
                "details",
                tag("summary", "The numbers behind this picture"),
                *tables,
                cls="long" if long else None,
            ),
        ]
    )


def selection(run: RunSummary) -> Html:
    """The trials by which settings were chosen; nothing if there were none."""
    parts = []
    for method in run.methods:
        if method.trials:
            best = max(trial.score for trial in method.trials)
            rows = [
                [
                    ", ".join(f"{key} {value}" for key, value in trial.point.items()),
                    str(trial.seed),
                    join([percent(trial.score, 2), " (best)" if trial.score == best else ""]),
                    tag("span", "chosen", cls="badge") if trial.chosen else "",
                ]
                for trial in method.trials
            ]
            head = ["settings", "seed", f"validation {run.metric}", ""]
            parts.append(table(head, rows, f"Trials of {method.name}"))
    if not parts:
        return Html("")
    words = tag(
        "p",
        "Settings that nobody can know beforehand were tried out, and those that did best on "
        "validation data, on average over the seeds they were tried with, were taken. Test data "
        "had no part in it.",
    )
    return section("selection", "How settings were chosen", words, *parts)


def data(run: RunSummary) -> Html:
    """The graph's sizes, and how many links the scored nodes have in each setting."""
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
    unit = run.unit
    head = [
        "",
        f"scored {unit}",
        f"with at most {run.tail_degree} links",
        "median links",
        "most links",
    ]
    said = tag("p", f"The {unit} that were scored, and how many links they have in each setting:")
    return section("data", "The data", facts(run.data), said, table(head, rows, "Scored " + unit))


def reproduce(run: RunSummary) -> Html:
    """What to type, with which software, on which machine, from which seeds."""
    parts: list[object] = []
    if run.command:
        button = tag("button", "Copy", type="button", cls="copy screen", data_copy="command")
        parts.append(tag("div", verbatim(run.command, "command"), button, cls="command"))
    else:
        parts.append(tag("p", "The command that made this run was not recorded."))
    seeds = listed([str(seed) for seed in run.seeds])
    shown: dict[str, Mapping[str, object]] = {
        "Seeds": {"training": seeds},
        "Settings": {**run.configuration, **_chosen(run)},
        "Software": run.versions,
        "Machine": run.machine,
    }
    for name, pairs in shown.items():
        if pairs:
            parts += [tag("h3", name), facts(pairs)]
    return section("reproduce", "How to get the same again", *parts)


def _chosen(run: RunSummary) -> dict[str, object]:
    return {
        f"{method.name}: {key}": value
        for method in run.methods
        for key, value in method.settings.items()
    }


def glossary(run: RunSummary) -> Html:
    """Every word that the page could not do without."""
    unit = run.unit
    words: dict[str, object] = {
        "Degree": f"The number of links of one of the {unit}.",
        f"Tail {unit}, head {unit}": f"Those with at most {run.tail_degree} links, and the others.",
        "Base": "The model after ordinary training.",
        "TuneUp": "The same model, trained further with a part of all links hidden.",
        run.metric: metric_meaning(run.metric, run.task),
        "Points": "The difference of two percentages: from 70 % to 78 % is 8 points.",
        "95 % interval": f"Had other {unit} been scored (or other seeds trained, where there are "
        "several), the result would lie in this range in about 95 of 100 cases. A gain whose "
        "interval holds 0 may be chance.",
        "Epoch, loss": "A round of training, and the error that it tries to make small.",
        "Validation": "Data kept apart, to decide when to stop and which state and settings win.",
        "Seed": "The number that all chance in a training comes from: same seed, same result.",
    }
    words |= {setting_words(s, unit).capitalize(): setting_meaning(s, unit) for s in run.settings}
    return section("glossary", "Words", facts(words))
