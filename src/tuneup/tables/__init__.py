"""Tables of edges, nodes and pairs, in files that users have, as graphs and interactions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .request import Shares, TableRequest

if TYPE_CHECKING:
    from .features import FeaturePlan
    from .graphs import Described, TableGraph, TablePairs, read_tables
    from .ids import IdMap
    from .inspection import Estimate, Inspection, fit_cost, free_memory, inspect_tables
    from .reading import Table, TableFiles, frame_of, open_table
    from .rows import NewRows, NewTables, read_new

_HOMES = {
    "FeaturePlan": "features",
    **dict.fromkeys(("Described", "TableGraph", "TablePairs", "read_tables"), "graphs"),
    "IdMap": "ids",
    **dict.fromkeys(("Estimate", "Inspection", "fit_cost"), "inspection"),
    **dict.fromkeys(("free_memory", "inspect_tables"), "inspection"),
    **dict.fromkeys(("Table", "TableFiles", "frame_of", "open_table"), "reading"),
    **dict.fromkeys(("NewRows", "NewTables", "read_new"), "rows"),
}
__all__ = [
    "Described",
    "Estimate",
    "FeaturePlan",
    "IdMap",
    "Inspection",
    "NewRows",
    "NewTables",
    "Shares",
    "Table",
    "TableFiles",
    "TableGraph",
    "TablePairs",
    "TableRequest",
    "fit_cost",
    "frame_of",
    "free_memory",
    "inspect_tables",
    "open_table",
    "read_new",
    "read_tables",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: options need no torch and no polars."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
