"""TuneUp, its ablations and the published baselines, behind one shape."""

from .base import Method, Recipe, Settings, Setup, configured, digests, prepare, run
from .registry import METHODS, method_named

__all__ = [
    "METHODS",
    "Method",
    "Recipe",
    "Settings",
    "Setup",
    "configured",
    "digests",
    "method_named",
    "prepare",
    "run",
]
