"""Tasks: each owns its supervision, loss, validation score and pseudo-labels."""

from .base import (
    EVERY_RATIO,
    RATIOS,
    GraphView,
    Moment,
    Task,
    check_selection,
    evaluating,
    has_diverged,
)
from .from_pyg import link_task, node_task, pair_task, task_of
from .link_prediction import VALIDATION_SOURCES, AllLinks, LinkPrediction, training_graph
from .node_classification import AllLabels, ClassWeights, Labels, NodeClassification
from .pseudo_labelling import PseudoLabels, pseudo_labels
from .ranking import L2
from .recommendation import AllPairs, Recommendation

__all__ = [
    "EVERY_RATIO",
    "L2",
    "RATIOS",
    "VALIDATION_SOURCES",
    "AllLabels",
    "AllLinks",
    "AllPairs",
    "ClassWeights",
    "GraphView",
    "Labels",
    "LinkPrediction",
    "Moment",
    "NodeClassification",
    "PseudoLabels",
    "Recommendation",
    "Task",
    "check_selection",
    "evaluating",
    "has_diverged",
    "link_task",
    "node_task",
    "pair_task",
    "pseudo_labels",
    "task_of",
    "training_graph",
]
