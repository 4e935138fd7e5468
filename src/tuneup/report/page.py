"""The report: one HTML file per run, or per comparison of runs, that needs nothing else.

The charts are drawn by a small script of our own (``templates/chart.js``) as SVG.  plotly would do
it with less code here, but inlined, as a page that works offline must have it, it weighs megabytes,
of which three line charts use next to nothing: such a page opens slowly on a phone and is a burden
to mail.  A page of ours is some tens of kilobytes, follows the reader's dark mode while it is open,
can be used from the keyboard, and its script is short enough to be read by whoever opens it.

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

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tuneup.errors import InputError
from tuneup.evaluation import MISSING
from tuneup.files import write_atomic

from . import sections, words
from .charts import MOST_RUNS, Series, View, charts_of, series_of
from .comparison import ComparisonRow, mean_of, run_gains
from .summary import RunSummary
from .table import Table
from .verdict import Headline, headline, tiles

_FUNCTIONS = (
    words.capital,
    words.cold_share,
    words.interval,
    words.listed,
    mean_of,
    words.percent,
    words.points,
    words.seconds_words,
    words.setting_words,
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
        tables: all other tables by name; None where the run has nothing for one.
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
    tiles: Sequence[ComparisonRow] = ()
    best: str = ""

    @classmethod
    def of_run(cls, run: RunSummary) -> Page:
        """The page of one run."""
        rows, series = run_gains(run), series_of([run], [])
        methods = [method.name for method in run.methods]
        names = " and ".join(methods) if len(methods) < 3 else f"{len(methods)} methods"
        seeds = "one training seed" if len(run.seeds) == 1 else f"{len(run.seeds)} training seeds"
        return cls(
            run.title,
            f"{names}, {run.metric}, {seeds}",
            [run],
            [run.title],
            headline(run, rows),
            series,
            charts_of(series, run.settings),
            sections.run_tables(run, rows),
            tiles(run, rows) if rows else (),
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
            words.listed(labels),
            runs,
            labels,
            Headline("same"),
            series,
            charts_of(series, settings),
            sections.comparison_tables(runs, labels, settings),
            best=sections.best_run(runs, labels),
        )

    @property
    def sections(self) -> dict[str, str]:
        """Anchor -> word of every section, for the navigation."""
        shown = {"trained", "good", "data", "reproduce", "glossary"}
        shown |= self.charts.keys()
        if len(self.runs) == 1:
            optional = {
                "classes": self.runs[0].classes,
                "dial": self.runs[0].dial,
                "selection": any(method.trials for method in self.runs[0].methods),
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
    found.filters["csp_hash"] = _csp_hash
    found.globals.update(
        {each.__name__: each for each in _FUNCTIONS},
        GROUPS=words.GROUPS,
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
