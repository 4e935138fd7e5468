"""Convolutions, encoders, the models of the edge tasks, and the adapter for any PyG module."""

from .convs import Conv, GATConv, GCNConv, SAGEConv
from .encoder import Encoder, Plan
from .forward import Forward
from .lightgcn import LightGCN
from .link_model import HadamardMLP, LinkModel
from .recommender import Recommender

__all__ = [
    "Conv",
    "Encoder",
    "Forward",
    "GATConv",
    "GCNConv",
    "HadamardMLP",
    "LightGCN",
    "LinkModel",
    "Plan",
    "Recommender",
    "SAGEConv",
]
