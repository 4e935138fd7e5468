"""Graph neural networks that are good on the nodes with few edges."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from tuneup.api import TuneUp, fit
    from tuneup.curriculum import Schedule, Stage
    from tuneup.data import Graph, Interactions, load_dataset
    from tuneup.graph import Adjacency, DropEdge
    from tuneup.loaders import LinkNeighborLoader, NeighborLoader
    from tuneup.methods import METHODS, run
    from tuneup.names import Selection
    from tuneup.nn import (
        Encoder,
        HadamardMLP,
        InnerProduct,
        Model,
        NodeFeatures,
        UserItemVectors,
    )
    from tuneup.serve import Predictor
    from tuneup.server import Client
    from tuneup.tasks import LinkPrediction, NodeClassification, Recommendation, pseudo_labels
    from tuneup.train import Result

__all__ = [
    "METHODS",
    "Adjacency",
    "Client",
    "DropEdge",
    "Encoder",
    "Graph",
    "HadamardMLP",
    "InnerProduct",
    "Interactions",
    "LinkNeighborLoader",
    "LinkPrediction",
    "Model",
    "NeighborLoader",
    "NodeClassification",
    "NodeFeatures",
    "Predictor",
    "Recommendation",
    "Result",
    "Schedule",
    "Selection",
    "Stage",
    "TuneUp",
    "UserItemVectors",
    "__version__",
    "fit",
    "load_dataset",
    "pseudo_labels",
    "run",
]

_NAMES_OF = {
    "api": ("TuneUp", "fit"),
    "curriculum": ("Schedule", "Stage"),
    "data": ("Graph", "Interactions", "load_dataset"),
    "graph": ("Adjacency", "DropEdge"),
    "loaders": ("LinkNeighborLoader", "NeighborLoader"),
    "methods": ("METHODS", "run"),
    "names": ("Selection",),
    "nn": (
        "Encoder",
        "HadamardMLP",
        "InnerProduct",
        "Model",
        "NodeFeatures",
        "UserItemVectors",
    ),
    "serve": ("Predictor",),
    "server": ("Client",),
    "tasks": ("LinkPrediction", "NodeClassification", "Recommendation", "pseudo_labels"),
    "train": ("Result",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``tuneup --help`` need not wait for torch."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tuneup' has no attribute {name!r}")
    return getattr(import_module(f"tuneup.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
