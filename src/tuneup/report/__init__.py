"""Tables and figures for people, made from per-node scores."""

from tuneup.report.figures import degree_figure, draw_degree_figure
from tuneup.report.tables import comparison_markdown, comparison_table

__all__ = ["comparison_markdown", "comparison_table", "degree_figure", "draw_degree_figure"]
