"""Graphs in folders: larger than memory, in open formats, read through a memory map.

``folder.py`` reads one, ``build.py`` writes one, ``engine.py`` sorts what does not fit into memory,
and ``stores.py`` shows one to PyG.
"""

from .build import write_graph, write_tables
from .engine import Scan
from .folder import GraphFolder, MappedFeatures, MappedRows, is_graph_folder, open_graph
from .header import FORMAT_VERSION, Header
from .sources import Dtype, EdgeSource, Encoder, NodeSource
from .steps import OnStep, Step

__all__ = [
    "FORMAT_VERSION",
    "Dtype",
    "EdgeSource",
    "Encoder",
    "GraphFolder",
    "Header",
    "MappedFeatures",
    "MappedRows",
    "NodeSource",
    "OnStep",
    "Scan",
    "Step",
    "is_graph_folder",
    "open_graph",
    "write_graph",
    "write_tables",
]
