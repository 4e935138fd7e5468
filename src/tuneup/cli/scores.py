"""What commands that train print at their end: a verdict, and every model in every setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from tuneup.workflow.outcome import Outcome


def print_scores(console: Console, outcome: Outcome) -> None:
    """Print the verdict, and the table that it is read off."""
    from tuneup.report.comparison import class_standings, standings_table

    for line in outcome.verdict:
        console.print(line, highlight=False, markup=False)
    console.print()
    classes, unit = outcome.classes, outcome.problem.unit
    if classes is not None and classes.metric != outcome.metric:
        rows = class_standings(classes)
        console.print(standings_table(rows, classes.score_words, unit))
    else:
        console.print(standings_table(outcome.standings, outcome.metric, unit))
