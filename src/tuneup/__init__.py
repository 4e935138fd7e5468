"""Graph neural networks that are good on the nodes with few edges."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from tuneup.api import TuneUp, fit
    from tuneup.curriculum import Schedule
    from tuneup.graph import DropEdge
    from tuneup.nn import Encoder
    from tuneup.serve import Predictor
    from tuneup.tasks import pseudo_labels

__all__ = [
    "DropEdge",
    "Encoder",
    "Predictor",
    "Schedule",
    "TuneUp",
    "__version__",
    "fit",
    "pseudo_labels",
]

_HOMES = {
    "DropEdge": "tuneup.graph",
    "Encoder": "tuneup.nn",
    "Predictor": "tuneup.serve",
    "Schedule": "tuneup.curriculum",
    "TuneUp": "tuneup.api",
    "fit": "tuneup.api",
    "pseudo_labels": "tuneup.tasks",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``tuneup --help`` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tuneup' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
