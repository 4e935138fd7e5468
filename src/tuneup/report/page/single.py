"""The page of one run: all sections and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneup.report.summary import RunSummary

from .background import data, dial, glossary, reproduce, selection
from .charts import View, cold_view, degree_views
from .classes import classes
from .headline import headline
from .markup import Html, join, tag
from .scores import gain_rows, gain_tables, plain_table
from .sections import chart, section, trained, verdict_block
from .series import Series
from .training_chart import training_views


@dataclass(frozen=True)
class Body:
    """What goes between the page's head and foot.

    Args:
        title: of the page.
        subtitle: the line below it.
        html: all sections.
        charts: chart -> its views, for the script.
        places: anchor -> word, for the navigation.
    """

    title: str
    subtitle: str
    html: Html
    charts: Mapping[str, Sequence[dict[str, Any]]]
    places: Mapping[str, str]


def run_body(run: RunSummary, series: Sequence[Series]) -> Body:
    """Every section for which the run has something to show."""
    rows = gain_rows(run)
    drawn = draw(series, run.settings)
    good = [
        tag("p", good_words(run)),
        gain_tables(run, rows) if rows else plain_table(run),
    ]
    parts = {
        "verdict": verdict_block(run, headline(run, rows), rows),
        "trained": trained(run),
        "good": section("good", "How good", *good),
        "classes": classes(run),
        **chart_sections(run, drawn),
        "dial": dial(run),
        "selection": selection(run),
        "data": data(run),
        "reproduce": reproduce(run),
        "glossary": glossary(run),
    }
    return Body(
        run.title,
        subtitle(run),
        join(parts.values(), "\n"),
        {name: [view.spec for view in views] for name, views in drawn.items()},
        {name: WORDS[name] for name, part in parts.items() if part and name in WORDS},
    )


WORDS = {
    "trained": "What was trained",
    "good": "How good",
    "classes": "Classes",
    "where": "Where",
    "cold": "Cold start",
    "dial": "The dial",
    "training": "Training",
    "selection": "Settings",
    "data": "Data",
    "reproduce": "Reproduce",
    "glossary": "Words",
}
"""Of the navigation."""


def subtitle(run: RunSummary) -> str:
    """What was compared, in a line."""
    names = (
        " and ".join(method.name for method in run.methods)
        if len(run.methods) < 3
        else (f"{len(run.methods)} methods")
    )
    seeds = "one training seed" if len(run.seeds) == 1 else f"{len(run.seeds)} training seeds"
    return f"{names}, {run.metric}, {seeds}"


def good_words(run: RunSummary) -> str:
    """How to read the table."""
    several = len(run.seeds) > 1
    over = f"{run.unit} and seeds" if several else run.unit
    once = "" if several else " All this is of one training: another seed gives other numbers."
    return (
        f"Scores are {run.metric} in per cent, more is better. A gain is in points, with its "
        f"95 % interval (paired, over {over}). It is coloured only if that "
        f"whole range is on one side of zero; otherwise it may be chance.{once}"
    )


def draw(series: Sequence[Series], settings: Sequence[str]) -> dict[str, list[View]]:
    """The charts that there are numbers for."""
    cold = cold_view(series, settings)
    found = {
        "where": degree_views(series, settings),
        "cold": [cold] if cold else [],
        "training": training_views(series),
    }
    return {name: views for name, views in found.items() if views}


def chart_sections(run: RunSummary, drawn: Mapping[str, list[View]]) -> dict[str, Html]:
    """The sections around the charts, each with a word on how to read it."""
    unit, several = run.unit, len(run.seeds) > 1
    band = (
        "one standard deviation over training seeds to either side"
        if several
        else f"the 95 % interval over {unit}"
    )
    texts = {
        "where": (
            "Where it helps",
            f"Score by the number of links that the {unit} have. On the left are tail {unit}, with "
            f"few links. The bands are {band}. The bars below count the {unit} behind each point; "
            "a hollow point stands for fewer than five.",
        ),
        "cold": (
            f"New {unit} that have hardly any links yet",
            f"These {unit} joined after training. The further to the right, the more of their "
            f"links were taken away before the model had to answer. The bands are {band}.",
        ),
        "training": (
            "How training went",
            "Each epoch is one round of training. The upright line is where stage 1 (ordinary "
            "training) ends and stage 2 (practice with hidden links) begins. "
            + (
                "Each line is a training seed; the table has their mean."
                if several
                else "A ring marks the state that was kept."
            ),
        ),
    }
    return {
        name: section(
            name,
            texts[name][0],
            tag("p", texts[name][1]),
            chart(name, texts[name][0], views, long=name == "training"),
        )
        for name, views in drawn.items()
    }
