"""Graphs with features and labels: from PyG, from real files or from a seed, and their splits."""

from tuneup.graph import Features, sparse_features, take_features

from .benchmark import load_benchmark
from .edge_split import EdgeSplit, split_edges
from .graph import Graph, graph_from
from .interactions import (
    Interactions,
    InteractionSplit,
    interactions_from,
    split_interactions,
)
from .item_lists import load_gowalla, read_item_lists
from .splits import NodeSplit, cold_start, split_nodes
from .synthetic import (
    arxiv_size_graph,
    block_graph,
    block_interactions,
    demo_data,
    demo_graph,
    demo_interactions,
    demo_link_graph,
)

__all__ = [
    "EdgeSplit",
    "Features",
    "Graph",
    "InteractionSplit",
    "Interactions",
    "NodeSplit",
    "arxiv_size_graph",
    "block_graph",
    "block_interactions",
    "cold_start",
    "demo_data",
    "demo_graph",
    "demo_interactions",
    "demo_link_graph",
    "graph_from",
    "interactions_from",
    "load_benchmark",
    "load_gowalla",
    "read_item_lists",
    "sparse_features",
    "split_edges",
    "split_interactions",
    "split_nodes",
    "take_features",
]
