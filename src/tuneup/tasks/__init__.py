"""Tasks: each owns its supervision, loss, validation score and pseudo-labels."""

from .base import GraphView, Moment, Task
from .node_classification import Labels, NodeClassification
from .pseudo import PseudoLabels, pseudo_labels

__all__ = [
    "GraphView",
    "Labels",
    "Moment",
    "NodeClassification",
    "PseudoLabels",
    "Task",
    "pseudo_labels",
]
