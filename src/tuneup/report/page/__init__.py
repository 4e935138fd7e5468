"""The report: one HTML file per run, or per comparison of runs, that needs nothing else.

The charts are drawn by a small script of our own (``chart.js``) as SVG.  plotly would do it with
less code here, but inlined, as a page that works offline must have it, it weighs megabytes, of
which three line charts use next to nothing: such a page opens slowly on a phone and is a burden to
mail.  A page of ours is some tens of kilobytes, follows the reader's dark mode while it is open,
can be used from the keyboard, and its script is short enough to be read by whoever opens it.

A policy in the page (Content-Security-Policy) forbids it any network and any script but this one,
so that a name in somebody's data can never become code.  Without JavaScript, all numbers and
sentences are there; only the pictures are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from tuneup.errors import InputError
from tuneup.files import write_atomic
from tuneup.report.summary import RunSummary

from .compare import check_comparable, compare_body, labels_of
from .markup import Html, content_hash, embedded_json, text
from .series import colours, of_comparison, of_run
from .single import Body, run_body

__all__ = ["page_html", "write_page"]


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
    if len(runs) == 1:
        series = of_run(runs[0])
        body = run_body(runs[0], series)
    else:
        check_comparable(runs)
        labels = labels_of(runs, names)
        series = of_comparison(runs, labels)
        body = compare_body(runs, labels, series)
    style, script = _part("style.css") + colours(series), _part("chart.js") + _part("page.js")
    drawn = {"series": [each.looks() for each in series], "charts": body.charts}
    return Template(_part("page.html")).substitute(
        title=text(body.title),
        subtitle=text(body.subtitle),
        style=style,
        style_hash=content_hash(style),
        script=script,
        script_hash=content_hash(script),
        navigation=_navigation(body),
        body=body.html,
        data=embedded_json(drawn),
    )


def _navigation(body: Body) -> Html:
    return Html(
        "".join(f'<a href="#{name}">{text(word)}</a>' for name, word in body.places.items())
    )


def _part(name: str) -> str:
    return (files("tuneup.report.page") / name).read_text("utf-8")
