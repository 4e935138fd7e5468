"""The sections up to the charts: the verdict, what was trained, and places to draw in."""

from __future__ import annotations

from collections.abc import Sequence

from tuneup.report.comparison import ComparisonRow
from tuneup.report.summary import MethodSummary, RunSummary, StageSummary

from .charts import View
from .headline import Headline, tiles
from .markup import Html, join, table, tag
from .scores import standings_block
from .words import (
    ARCHITECTURES,
    interval,
    listed,
    metric_meaning,
    percent,
    points,
    seconds_words,
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
        standings_block(run),
        cls=f"verdict {found.kind}",
    )


def trained(run: RunSummary) -> Html:
    """What was trained: the task, the model, and the stages of each method."""
    metric = metric_meaning(run.metric, run.task)
    things = "users and items" if run.unit == "users" else run.unit
    model = ARCHITECTURES.get(run.architecture, run.architecture)
    said = tag(
        "p",
        f"A graph is a set of {things} and the links between them. A graph neural network looks "
        f"at each of the {run.unit} together with its neighbours. Here it learns to "
        f"{task_words(run.task)}. The model is {model}. Its score is {run.metric}: "
        f"{metric[0].lower()}{metric[1:]}",
    )
    why = tag(
        "p",
        f"Such models do well where there are many links and badly where there are few: {run.unit} "
        f"with at most {run.tail_degree} links are called tail {run.unit}, the others head "
        f"{run.unit}. TuneUp trains as usual (stage 1, Base) and then goes on with a part of all "
        "links hidden, so that the model practises on tail-like cases (stage 2). The result is "
        "selected on validation data, which is neither trained nor tested on.",
    )
    rows = [
        _stage_cells(run, method, k, stage)
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


def _stage_cells(
    run: RunSummary, method: MethodSummary, k: int, stage: StageSummary
) -> list[object]:
    first = method.runs[0]
    other = first.seed != run.methods[0].runs[0].seed
    kept = len(first.stages) > 1 and first.winner == k
    best = (
        ""
        if stage.best_score is None
        else f"{percent(stage.best_score)} (epoch {stage.best_epoch})"
    )
    return [
        f"{method.name} (seed {first.seed})" if other else method.name,
        join([str(k + 1), tag("span", " kept", cls="badge") if kept else ""]),
        stage.words,
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
