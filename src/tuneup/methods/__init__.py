"""TuneUp, its ablations and the published baselines, behind one shape."""

from .base import Method, Recipe, Settings, Setup, configured, prepare, reread, run, run_opening
from .registry import METHODS, method_named

__all__ = [
    "METHODS",
    "Method",
    "Recipe",
    "Settings",
    "Setup",
    "configured",
    "method_named",
    "prepare",
    "reread",
    "run",
    "run_opening",
]
