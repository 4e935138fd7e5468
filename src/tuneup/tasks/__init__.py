"""Tasks: each owns its supervision, loss, validation score and pseudo-labels."""

from .base import GraphView, Moment, Task
from .from_pyg import link_task, node_task, pair_task, task_of
from .link_prediction import LinkPrediction
from .node_classification import Labels, NodeClassification
from .pseudo_labelling import PseudoLabels, pseudo_labels
from .recommendation import L2, Recommendation

__all__ = [
    "L2",
    "GraphView",
    "Labels",
    "LinkPrediction",
    "Moment",
    "NodeClassification",
    "PseudoLabels",
    "Recommendation",
    "Task",
    "link_task",
    "node_task",
    "pair_task",
    "pseudo_labels",
    "task_of",
]
