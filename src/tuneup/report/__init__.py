"""Tables, figures and pages for people, made from per-node scores."""

from tuneup.report.comparison import Row, comparison_table, models_table, score_rows
from tuneup.report.figures import degree_figure, degree_grid
from tuneup.report.page import page_html, write_page
from tuneup.report.summary import (
    ClassSummary,
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)
from tuneup.report.table import Cell, Table, markdown_table

__all__ = [
    "Cell",
    "ClassSummary",
    "MethodSummary",
    "Row",
    "RunSummary",
    "SeedRun",
    "StageSummary",
    "Table",
    "TrialSummary",
    "comparison_table",
    "degree_figure",
    "degree_grid",
    "markdown_table",
    "models_table",
    "page_html",
    "score_rows",
    "write_page",
]
