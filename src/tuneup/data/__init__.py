"""Graphs with features and labels: from PyG, from real files or from a seed, and their splits."""

from tuneup.graph import Features, sparse_features, take_features

from .benchmark import load_benchmark
from .graph import Graph, graph_from
from .splits import NodeSplit, cold_start, split_nodes
from .synthetic import arxiv_size_graph, block_graph, demo_data, demo_graph

__all__ = [
    "Features",
    "Graph",
    "NodeSplit",
    "arxiv_size_graph",
    "block_graph",
    "cold_start",
    "demo_data",
    "demo_graph",
    "graph_from",
    "load_benchmark",
    "sparse_features",
    "split_nodes",
    "take_features",
]
