"""Per-node scores and the metrics that produce them."""

from tuneup.metrics.accuracy import correct
from tuneup.metrics.ranking import is_hit, ranking_scores
from tuneup.metrics.scores import NodeScores, read_scores, write_scores
from tuneup.metrics.topk import TopK, top_k

__all__ = [
    "NodeScores",
    "TopK",
    "correct",
    "is_hit",
    "ranking_scores",
    "read_scores",
    "top_k",
    "write_scores",
]
