"""What commands that train print at their end: a verdict, and every model in every setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from tuneup.fitting.outcome import Outcome


def print_scores(console: Console, outcome: Outcome) -> None:
    """Print the verdict, and the table that it is read off."""
    from tuneup.report.tables import standings_table

    for line in outcome.verdict:
        console.print(line, highlight=False, markup=False)
    console.print()
    metric, unit = outcome.problem.task.metric, outcome.problem.unit
    console.print(standings_table(outcome.standings, metric, unit))
