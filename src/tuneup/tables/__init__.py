"""Tables of edges, nodes and pairs, in files that users have, as graphs and interactions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .request import Shares, TableRequest

if TYPE_CHECKING:
    from .estimate import Estimate, fit_cost, free_memory
    from .features import FeaturePlan
    from .graphs import TableGraph, TablePairs, read_tables
    from .ids import IdMap
    from .inspection import Inspection, inspect_tables
    from .new_rows import NewRows, NewTables, read_new
    from .reading import Table, TableFiles, frame_of, open_table

__all__ = [
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

_MODULES = {
    "estimate": ("Estimate", "fit_cost", "free_memory"),
    "features": ("FeaturePlan",),
    "graphs": ("TableGraph", "TablePairs", "read_tables"),
    "ids": ("IdMap",),
    "inspection": ("Inspection", "inspect_tables"),
    "new_rows": ("NewRows", "NewTables", "read_new"),
    "reading": ("Table", "TableFiles", "frame_of", "open_table"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: options need no torch and no polars."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
