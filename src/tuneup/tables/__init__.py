"""Tables of edges, nodes and pairs, in files that users have, into graphs and interactions."""

from .doctor import Inspection, inspect_graph, inspect_pairs
from .features import FeaturePlan
from .graphs import TableGraph, load_graph
from .ids import IdMap
from .kinds import FeatureOptions
from .newcomers import New, NewRows, NewTables, read_new
from .options import ReadOptions
from .pairs import TablePairs, load_pairs
from .reading import TableFiles, open_table
from .requests import GraphTables, PairTables
from .splits import Shares
from .table import Table

__all__ = [
    "FeatureOptions",
    "FeaturePlan",
    "GraphTables",
    "IdMap",
    "Inspection",
    "New",
    "NewRows",
    "NewTables",
    "PairTables",
    "ReadOptions",
    "Shares",
    "Table",
    "TableFiles",
    "TableGraph",
    "TablePairs",
    "inspect_graph",
    "inspect_pairs",
    "load_graph",
    "load_pairs",
    "open_table",
    "read_new",
]
