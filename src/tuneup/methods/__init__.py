"""TuneUp, its ablations and the published baselines, in one form."""

from .base import Method, Recipe, Settings, Setup, configured, digests, prepare, run
from .registry import METHODS, ROWS, in_order, method_named, method_names, title_of

__all__ = [
    "METHODS",
    "ROWS",
    "Method",
    "Recipe",
    "Settings",
    "Setup",
    "configured",
    "digests",
    "in_order",
    "method_named",
    "method_names",
    "prepare",
    "run",
    "title_of",
]
