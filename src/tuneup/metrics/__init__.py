"""Per-node scores and the metrics that produce them."""

from tuneup.metrics.accuracy import correct
from tuneup.metrics.scores import NodeScores, read_scores, write_scores

__all__ = ["NodeScores", "correct", "read_scores", "write_scores"]
