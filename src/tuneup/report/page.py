"""The report: one HTML file per run, or per comparison of runs, that needs nothing else.

The charts are drawn as SVG by a small script of our own (``templates/chart.js``).  plotly, inlined
as an offline page must have it, weighs megabytes; our page weighs tens of kilobytes, follows the
reader's dark mode, and can be used from the keyboard.

A policy in the page (Content-Security-Policy) forbids it any network and any script but this one,
so that a name in somebody's data can never become code.  Without JavaScript, all numbers and
sentences are there; only the pictures are not.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tuneup.errors import InputError
from tuneup.evaluation import MISSING, bootstrap_mean, degree_groups
from tuneup.evaluation.classes import MEASURES
from tuneup.files import write_atomic

from . import table
from .charts import MOST_RUNS, Series, View, charts_of, series_of
from .comparison import GROUPS, Row, gain_mark, gains_table, mean_of, models_table
from .summary import RunSummary
from .table import Cell, Table, capital, group_label, interval, percent, setting_words, signed
from .verdict import Headline, best_run, difference, headline, tiles

_FUNCTIONS = (
    table.capital,
    table.cold_share,
    table.group_words,
    table.interval,
    table.listed,
    mean_of,
    table.percent,
    table.points,
    table.seconds_words,
    table.setting_words,
)
"""What templates may call."""

_NAVIGATION = {
    "trained": "What was trained",
    "good": "How good",
    "classes": "Classes",
    "where": "Where",
    "cold": "Cold start",
    "training": "Training",
    "dial": "The dial",
    "selection": "Settings",
    "data": "Data",
    "reproduce": "Reproduce",
    "glossary": "Words",
}


@dataclass(frozen=True)
class Page:
    """What a page shows; the template has the words around it.

    Args:
        title: of the page.
        subtitle: the line below it.
        runs: one, or those that are compared.
        labels: what the runs are called.
        headline: the first box.
        series: what the charts draw.
        charts: the sections with charts, by name.
        tables: by name; None where the run has nothing for one.
        tiles: rows that stand large under the headline.
        best: which of the compared runs is best, in a sentence.
    """

    title: str
    subtitle: str
    runs: Sequence[RunSummary]
    labels: Sequence[str]
    headline: Headline
    series: Sequence[Series]
    charts: Mapping[str, Sequence[View]]
    tables: Mapping[str, Table | None]
    tiles: Sequence[Row] = ()
    best: str = ""

    @classmethod
    def of_run(cls, run: RunSummary) -> Page:
        """The page of one run."""
        series = series_of([run], [])
        methods = [method.name for method in run.methods]
        names = " and ".join(methods) if len(methods) < 3 else f"{len(methods)} methods"
        seeds = "one training seed" if len(run.seeds) == 1 else f"{len(run.seeds)} training seeds"
        return cls(
            run.title,
            f"{names}, {run.measure}, {seeds}",
            [run],
            [run.title],
            headline(run),
            series,
            charts_of(series, run.settings),
            _tables(run),
            tiles(run),
        )

    @classmethod
    def of_comparison(cls, runs: Sequence[RunSummary], names: Sequence[str]) -> Page:
        """The page of several runs whose scores mean the same."""
        for what in ("task", "metric", "unit", "tail_degree"):
            found = {str(getattr(run, what)): run.title for run in runs}
            if len(found) > 1:
                listed = "; ".join(f"{title} has {value}" for value, title in found.items())
                what = what.replace("_", " ")
                raise InputError(f"only runs of one {what} can be compared: {listed}")
        if len(runs) > MOST_RUNS:
            raise InputError(
                f"at most {MOST_RUNS} runs can be told apart in a page, got {len(runs)}"
            )
        labels = _labels(runs, names)
        series = series_of(runs, labels)
        settings = list(dict.fromkeys(s for run in runs for s in run.settings))
        return cls(
            f"{len(runs)} runs compared",
            table.listed(labels),
            runs,
            labels,
            Headline("same"),
            series,
            charts_of(series, settings),
            _comparison_tables(runs, labels, settings),
            best=best_run(runs, labels),
        )

    @property
    def sections(self) -> dict[str, str]:
        """Anchor -> word of every section, for the navigation."""
        shown = {"trained", "good", "data", "reproduce", "glossary"}
        shown |= self.charts.keys()
        if len(self.runs) == 1:
            (run,) = self.runs
            optional = {
                "classes": run.classes,
                "dial": run.record and run.record.dial,
                "selection": any(method.trials for method in run.methods),
            }
            shown |= {name for name, found in optional.items() if found}
        return {name: word for name, word in _NAVIGATION.items() if name in shown}

    @property
    def drawn(self) -> dict[str, Any]:
        """For the script that draws the charts."""
        return {
            "series": [each.to_json() for each in self.series],
            "charts": {name: [view.spec for view in views] for name, views in self.charts.items()},
        }

    def html(self) -> str:
        """The file."""
        name = "run.html" if len(self.runs) == 1 else "comparison.html"
        return environment().get_template(name).render(page=self)


def write_page(path: Path, runs: Sequence[RunSummary], names: Sequence[str] = ()) -> None:
    """Write :func:`page_html` to a file, whole or not at all."""
    write_atomic(path, page_html(runs, names))


def page_html(runs: Sequence[RunSummary], names: Sequence[str] = ()) -> str:
    """The page of one run, or the comparison of several.

    Args:
        runs: of one task and one metric.
        names: what to call the runs where their titles are not enough to tell them apart.
    """
    if not runs:
        raise InputError("a report needs at least one run")
    page = Page.of_run(runs[0]) if len(runs) == 1 else Page.of_comparison(runs, names)
    return page.html()


def _tables(run: RunSummary) -> dict[str, Table | None]:
    """Scores of all models, and what they add to Base."""
    shape = run.unit, run.tail_degree
    fit = len(run.seeds) == 1 and run.base is not None and (run.floors or run.verdict)
    caption = f"{capital(run.metric)}, and the gain over Base"
    compared = dict.fromkeys(name for row in run.score_rows for name in row.gains)
    own = [run.focus.name] if run.focus.name in compared else [*compared]
    return {
        "models": models_table(run.rows, run.measure, *shape) if fit else None,
        "scores": gains_table(run.score_rows, own, caption, *shape)
        if compared
        else _plain_scores(run),
        "all_scores": gains_table(run.score_rows, [*compared], caption, *shape)
        if len(own) < len(compared)
        else None,
        "data": _data(run),
    }


def _plain_scores(run: RunSummary) -> Table:
    """Scores with their own intervals, for a run that has nothing to be compared with."""
    body: list[list[str | Cell]] = []
    for row in run.score_rows:
        label = group_label(row.setting, row.group, run.unit, run.tail_degree)
        for method in run.methods:
            scores, ends = method.scores(row.setting), MISSING
            if len(scores) == 1 and row.nodes > 1:
                found = bootstrap_mean(degree_groups(scores[0], run.tail_degree)[row.group].score)
                ends = f"{100 * found.low:.1f} to {100 * found.high:.1f} %"
            score = percent(row.score(method.name), 2)
            body.append([label, f"{row.nodes:,}", method.name, score, ends])
    head = ["", run.unit, "method", run.metric, "95 % interval"]
    return Table(head, body, capital(run.metric), classes="scores plain")


def _data(run: RunSummary) -> Table:
    """How many links the scored nodes have in each setting."""
    body = []
    for setting in run.settings:
        scores = [each for method in run.methods for each in method.scores(setting)]
        if scores:
            degree = scores[0].degree
            few = int((degree <= run.tail_degree).sum())
            body.append(
                [
                    setting_words(setting, run.unit),
                    f"{len(degree):,}",
                    f"{few:,} ({percent(few / len(degree), 0)})",
                    f"{int(torch.median(degree)):,}",
                    f"{int(degree.max()):,}",
                ]
            )
    few_links = f"with at most {run.tail_degree} links"
    head = ["", f"scored {run.unit}", few_links, "median links", "most links"]
    return Table(head, body, f"Scored {run.unit}")


def _comparison_tables(
    runs: Sequence[RunSummary], labels: Sequence[str], settings: Sequence[str]
) -> dict[str, Table | None]:
    """The scores of the runs, and what each adds to the first."""
    first, rows = runs[0], [{(r.setting, r.group): r for r in run.score_rows} for run in runs]
    columns = [
        (f"{label}: {method.name}", own, method.name)
        for run, label, own in zip(runs, labels, rows, strict=True)
        for method in (run.base, run.focus)
        if method is not None
    ]
    scores: list[list[str | Cell]] = []
    differences: list[list[str | Cell]] = []
    for place in [(setting, group) for setting in settings for group in GROUPS]:
        if any(place in own for own in rows):
            label = group_label(*place, first.unit, first.tail_degree)
            found = [own[place].score(name) if place in own else None for _, own, name in columns]
            scores.append([label, *(percent(score, 2) for score in found)])
            differences.append([label, *(_difference(first, run, *place) for run in runs[1:])])
    minus = ["", *(f"{label} minus {labels[0]}" for label in labels[1:])]
    caption = "What each run adds to the first, in points (95 % interval)"
    heads = ["", *(head for head, *_ in columns)]
    return {
        "scores": Table(heads, scores, "Scores of each run", classes="scores differences"),
        "differences": Table(minus, differences, caption, classes="scores differences"),
    }


def _difference(first: RunSummary, other: RunSummary, setting: str, group: str) -> str | Cell:
    found = difference(first, other, setting, group)
    if found is None:
        return MISSING
    words = signed(100 * found.absolute, 2)
    if found.gain is None or found.gain.nodes < 2:
        return words
    return Cell(f"{words} ({interval(found.gain, 2)})", gain_mark(found.gain))


def _labels(runs: Sequence[RunSummary], names: Sequence[str]) -> list[str]:
    """Last parts of the names, or all of them, or titles: the first that tell the runs apart."""
    ends = [Path(name).name for name in names]
    for labels in (ends, list(names), [run.title for run in runs]):
        if len(labels) == len(runs) == len(set(labels)):
            return labels
    return [f"{index + 1}: {run.title}" for index, run in enumerate(runs)]


@cache
def environment() -> Environment:
    """The templates; whatever they are given is escaped."""
    found = Environment(
        loader=PackageLoader("tuneup.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    found.filters |= {
        "counted": "{:,}".format,
        "csp_hash": _csp_hash,
        "metric_words": table.metric_words,
    }
    found.globals.update(
        {each.__name__: each for each in _FUNCTIONS},
        MEASURES=[*MEASURES],
        MISSING=MISSING,
        source=_source,
    )
    return found


def _unbroken(value: object) -> object:
    """A number and its per cent sign stay on one line; HTML is left alone."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", value)
    return value


def _source(name: str) -> Markup:
    """A style sheet or script of ours, as it is."""
    return Markup((files("tuneup.report.templates") / name).read_text("utf-8"))


def _csp_hash(content: str) -> Markup:
    """How a Content-Security-Policy names the one inline script or style that it allows."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return Markup(f"'sha256-{digest}'")
