"""Graphs with features and labels: from PyG, from real files or from a seed, and their splits."""

from tuneup.graph import Features, sparse_features, take_features

from .benchmark import read_npz_graph
from .cache import data_folder, files_of, is_cached
from .catalogue import DATASETS, dataset_named
from .dataset import Dataset, GraphSize, PairsSize, Remote
from .edge_split import EdgeSplit, split_edges
from .graph import Graph, graph_from
from .interactions import (
    Interactions,
    InteractionSplit,
    interactions_from,
    split_interactions,
)
from .item_lists import read_item_lists
from .load import load_benchmark, load_dataset, load_gowalla, load_graph, load_pairs
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
    "DATASETS",
    "Dataset",
    "EdgeSplit",
    "Features",
    "Graph",
    "GraphSize",
    "InteractionSplit",
    "Interactions",
    "NodeSplit",
    "PairsSize",
    "Remote",
    "arxiv_size_graph",
    "block_graph",
    "block_interactions",
    "cold_start",
    "data_folder",
    "dataset_named",
    "demo_data",
    "demo_graph",
    "demo_interactions",
    "demo_link_graph",
    "files_of",
    "graph_from",
    "interactions_from",
    "is_cached",
    "load_benchmark",
    "load_dataset",
    "load_gowalla",
    "load_graph",
    "load_pairs",
    "read_item_lists",
    "read_npz_graph",
    "sparse_features",
    "split_edges",
    "split_interactions",
    "split_nodes",
    "take_features",
]
