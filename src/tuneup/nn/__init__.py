"""Convolutions, encoders, the models of the edge tasks, and the adapter for any PyG module."""

from .convs import Conv, GATConv, GCNConv, SAGEConv
from .encoder import Encoder, Plan
from .forward import Forward, call_module
from .lightgcn import LightGCN
from .linear import MLP
from .link_model import HadamardMLP, LinkModel
from .recommender import Recommender
from .spec import EncoderSpec

__all__ = [
    "MLP",
    "Conv",
    "Encoder",
    "EncoderSpec",
    "Forward",
    "GATConv",
    "GCNConv",
    "HadamardMLP",
    "LightGCN",
    "LinkModel",
    "Plan",
    "Recommender",
    "SAGEConv",
    "call_module",
]
