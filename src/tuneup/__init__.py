"""Graph neural networks that are good on the nodes with few edges."""

__version__ = "0.1.0"

from tuneup.api import TuneUp, fit
from tuneup.curriculum import Schedule
from tuneup.graph import DropEdge
from tuneup.nn import Encoder
from tuneup.tasks import pseudo_labels

__all__ = ["DropEdge", "Encoder", "Schedule", "TuneUp", "__version__", "fit", "pseudo_labels"]
