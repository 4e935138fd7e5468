"""Per-node scores and the metrics that produce them."""

from tuneup.metrics.calibration import (
    Temperature,
    calibration_error,
    fit_temperature,
    fit_temperatures,
)
from tuneup.metrics.classification import (
    CLASS_METRICS,
    auroc,
    average_precision,
    balanced_accuracy,
    class_metric,
    confusion,
    correct,
    log_loss,
    macro_f1,
    metric_for,
)
from tuneup.metrics.multilabel import MULTI_LABEL_METRICS, node_f1
from tuneup.metrics.names import METRICS, check_metric
from tuneup.metrics.ranking import DEFAULT_K, is_hit, ranking_metric, ranking_scores
from tuneup.metrics.scores import NodeScores, read_scores, write_scores
from tuneup.metrics.topk import TopK, top_k

__all__ = [
    "CLASS_METRICS",
    "DEFAULT_K",
    "METRICS",
    "MULTI_LABEL_METRICS",
    "NodeScores",
    "Temperature",
    "TopK",
    "auroc",
    "average_precision",
    "balanced_accuracy",
    "calibration_error",
    "check_metric",
    "class_metric",
    "confusion",
    "correct",
    "fit_temperature",
    "fit_temperatures",
    "is_hit",
    "log_loss",
    "macro_f1",
    "metric_for",
    "node_f1",
    "ranking_metric",
    "ranking_scores",
    "read_scores",
    "top_k",
    "write_scores",
]
