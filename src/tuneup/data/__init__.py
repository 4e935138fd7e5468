"""Graphs with features and labels: from PyG, from real files or from a seed, and their splits."""

from .catalogue import DATASETS, dataset_named, load_dataset
from .dataset import Dataset, GraphSize, PairsSize, data_folder, differing, files_of, is_cached
from .download import Remote
from .generated import (
    arxiv_size_graph,
    block_graph,
    block_interactions,
    demo_data,
    demo_graph,
    demo_interactions,
    demo_link_graph,
)
from .graph import Graph, graph_from
from .interactions import (
    Interactions,
    InteractionSplit,
    hold_out,
    interactions_from,
    merge,
    new_users,
    split_interactions,
)
from .item_lists import read_item_lists
from .npz import read_npz_graph
from .splits import (
    COLD_RATIOS,
    EdgeSplit,
    NodeSplit,
    cold_start,
    exact_share,
    known_and_new,
    split_edges,
    split_nodes,
)

__all__ = [
    "COLD_RATIOS",
    "DATASETS",
    "Dataset",
    "EdgeSplit",
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
    "differing",
    "exact_share",
    "files_of",
    "graph_from",
    "hold_out",
    "interactions_from",
    "is_cached",
    "known_and_new",
    "load_dataset",
    "merge",
    "new_users",
    "read_item_lists",
    "read_npz_graph",
    "split_edges",
    "split_interactions",
    "split_nodes",
]
