"""What commands that train say at their end: how good Base and TuneUp are, and which is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from tuneup.fitting.outcome import Outcome

_NAMES = ("Base", "TuneUp")


def tell_scores(console: Console, trained: Outcome) -> str:
    """Print the table, in the words of the report, and the choice; the name of what is kept."""
    from tuneup.report import comparison_table
    from tuneup.report.labels import kept_words

    unit, record = trained.problem.unit, trained.result.record
    table = comparison_table(trained.base, {"TuneUp": trained.tuneup}, unit=unit, plain=True)
    console.print(table)
    scores = [stage.best_score for stage in record.stages]
    said = kept_words(_NAMES, scores, record.winner, record.metric)
    console.print(said, highlight=False, soft_wrap=True)
    return _NAMES[record.winner]
