"""Tables, figures and pages for people, made from per-node scores."""

from tuneup.report.degree_grid import draw_degree_grid
from tuneup.report.figures import degree_figure, draw_degree_figure
from tuneup.report.summary import MethodSummary, RunSummary, SeedRun, StageSummary, TrialSummary
from tuneup.report.tables import comparison_markdown, comparison_table

__all__ = [
    "MethodSummary",
    "RunSummary",
    "SeedRun",
    "StageSummary",
    "TrialSummary",
    "comparison_markdown",
    "comparison_table",
    "degree_figure",
    "draw_degree_figure",
    "draw_degree_grid",
]
